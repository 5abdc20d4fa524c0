"""Files with places: every mistake is named with file, line, key and value, and all of them at once."""

from pathlib import Path
from typing import Any

import pytest
from support.data_files import tables
from support.rows import each_row

from pytest_accel.core import yaml_nodes
from pytest_accel.core.yaml_nodes import BadFile, Check, Located, Mistakes

ROWS = tables("core/yaml-nodes")


def parsed(tmp_path: Path, text: str | bytes) -> Located:
    path = tmp_path / "mine.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return yaml_nodes.read(path, "mine.yaml")[0]


def checked(check: Check, tmp_path: Path, yaml: str) -> tuple[Any, list[str]]:
    """The value of key `it` after a check, and what was found wrong with it."""
    mistakes = Mistakes()
    return check(parsed(tmp_path, f"it: {yaml}\n").data["it"], "it", mistakes), [*map(str, mistakes.errors)]


LATIN = (b"sku: caf\xe9\n", "mine.yaml:1: is not UTF-8 text")


@each_row(("text", "message"), [*ROWS["unreadable"], LATIN])
def test_a_file_that_cannot_be_read_is_named_with_its_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(BadFile) as bad:
        parsed(tmp_path, text)
    assert message in str(bad.value)


@each_row(
    ("text", "message"),
    [
        ("a: " + "[" * 100, "the values are nested more than 32 levels deep"),
        ("a: " + "[" * 200_000, "nest"),  # by us, or before us by libyaml, which has a limit of its own since 0.2.6
        ("a: &a [" + "*a," * 3 + "]", "mine.yaml:1: an alias stands inside of the value that it repeats"),
        (
            "a0: &a0 [1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
            "the file has more than 20,000 values",
        ),
        ("sku: x\na:\n  !!int", "mine.yaml:3: a: '' cannot be read as a whole number"),
        ("a: !!set {x, y}", "mine.yaml:1: the tag tag:yaml.org,2002:set is not known"),
        (
            "a: " + "9" * 5_000,
            "mine.yaml:1: a: '" + "9" * 39 + "... (5,002 characters) cannot be read as a whole number",
        ),
        ("? [a]\n: 1", "mine.yaml:1: a key is text or a number"),
        ("a: *b", "mine.yaml:1: found undefined alias 'b'"),
        ('sku: x\na: "\\U00110000"', "mine.yaml:2: found invalid Unicode character escape code"),
        (f"%YAML 1.{'9' * 5_000}\n---\na: 1", "mine.yaml:1: found extremely long version number"),
        ("#" * 2_000_000, "mine.yaml: is 2,000,000 bytes large; the largest file that is read has 1,048,576"),
    ],
)
def test_what_is_made_to_keep_the_reader_busy_is_refused_early(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadFile) as bad:
        parsed(tmp_path, text)
    assert message in str(bad.value)


def test_a_value_of_any_tag_is_read_or_refused_with_its_line(tmp_path: Path) -> None:
    tags = ("int", "float", "bool", "null", "timestamp", "str", "binary", "set", "omap", "value", "merge", "python/x")
    values = ("", "-", "+", "_", ".", "0x", "0b", "1:", "abc", "2026-13-45", "=", "<<", "''", "[]", "[[a]]", "{a}")
    forms = ("x: 1\na: {}", "x: 1\na: [{}]", "x: 1\n{}", "x: 1\n<<: {}", "x: 1\na: &a {}\nb: *a")
    messages = []
    for tag in (*(f"!!{tag}" for tag in tags), "!", "!foo"):
        for text in (form.format(f"{tag} {value}") for value in values for form in forms):
            try:
                parsed(tmp_path, text)
            except BadFile as bad:
                messages += [str(error) for error in bad.errors]
    assert len(messages) > 500
    assert [error for error in messages if not error.startswith("mine.yaml:2: ")] == []


def test_a_hundred_errors_are_enough(tmp_path: Path) -> None:
    """Each is looked up among all known keys, which takes time."""
    large = parsed(tmp_path, "".join(f"key{n}: 1\n" for n in range(10_000)))
    with pytest.raises(BadFile) as bad:
        yaml_nodes.record_of({"a": yaml_nodes.number})(large, "", Mistakes())
    assert str(bad.value).count("\n") == 100
    assert str(bad.value).endswith("mine.yaml: further errors are not looked for")


def test_an_error_shows_what_a_file_holds_on_one_line(tmp_path: Path) -> None:
    """A value with an escape sequence would reach the terminal with the error."""
    for quote, written in ((r"\x1b[2J SIMULATED", r"\e[2J\nSIMULATED"), (r"GPU-1\u200b", r"GPU-1\u200b")):
        with pytest.raises(BadFile) as error:
            parsed(tmp_path, f'it: "{written}"')
        assert str(error.value) == f"mine.yaml:1: it: '{quote}' holds an invisible character; write it anew"
    _, errors = checked(yaml_nodes.record_of({}), tmp_path, r'{"\e[2J\n": 1}')
    assert errors == [r"mine.yaml:1: unknown key 'it.\x1b[2J'; known: "]


@pytest.mark.parametrize(("choices", "all_listed"), [(20, True), (21, False)])
def test_a_close_choice_is_not_buried_under_many(choices: int, all_listed: bool) -> None:
    names = [f"fault-{number:02}" for number in range(choices)]
    hint = yaml_nodes.nearest("fault-071", names)
    assert hint.startswith("did you mean 'fault-07' or ")
    assert ("fault-19" in hint) == all_listed
    assert "fault-19" in yaml_nodes.nearest("other", names)


def test_anchors_and_merge_keys_work_and_own_keys_win(tmp_path: Path) -> None:
    root = parsed(tmp_path, "a: &a {floor: 1, unit: s}\nb:\n  <<: *a\n  floor: 2\n")
    assert root.plain()["b"] == {"floor": 2, "unit": "s"}
    assert root.data["b"].data["floor"].where == "mine.yaml:4"
    aliased = parsed(tmp_path, "a: &x 1\nb: *x\nc: &x 2\nd: *x\n")
    assert aliased.plain() == {"a": 1, "b": 1, "c": 2, "d": 2}, "an anchor may be given to another value"


CHECKS: dict[str, Check] = {
    **{name: getattr(yaml_nodes, name) for name in ("text", "number", "positive", "count", "flag", "date")},
    "quick or long": yaml_nodes.one_of("quick", "long"),
    "counts": yaml_nodes.list_of(yaml_nodes.count),
    "numbers": yaml_nodes.mapping_of(yaml_nodes.number),
    "a": yaml_nodes.record_of({"a": yaml_nodes.number}),
    "floor": yaml_nodes.record_of({"floor": yaml_nodes.number}),
    "a, required": yaml_nodes.record_of({"a": yaml_nodes.number}, required=("a",)),
}


@each_row(("check", "yaml", "value"), ROWS["good"])
def test_good_values_pass(tmp_path: Path, check: str, yaml: str, value: Any) -> None:
    assert checked(CHECKS[check], tmp_path, yaml) == (value, [])


@each_row(("check", "yaml", "message"), ROWS["wrong"])
def test_a_wrong_value_is_named_with_key_value_and_line(tmp_path: Path, check: str, yaml: str, message: str) -> None:
    _, errors = checked(CHECKS[check], tmp_path, yaml)
    assert len(errors) == 1
    assert errors[0].startswith("mine.yaml:1: ")
    assert message in errors[0]


def test_merging_replaces_values_and_whole_keys_and_keeps_the_rest(tmp_path: Path) -> None:
    base = parsed(tmp_path, "a: {x: 1, y: 2}\nlist: [1]\nsource: {by: them, url: there}\n")
    overlay = parsed(tmp_path, "a: {y: 3}\nlist: [2]\nsource: {by: us}\n")
    merged = yaml_nodes.merge(base, overlay, whole=("source",)).plain()
    assert merged == {"a": {"x": 1, "y": 3}, "list": [2], "source": {"by": "us"}}
