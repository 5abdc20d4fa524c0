"""The shipped JSON Schemas: what we write and ship is valid by them, and what our readers refuse is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support import as_user
from support.data_files import content, tables
from support.reasons import worded
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.core import yaml_nodes
from pytest_accel.core.measurement import Device, Measurement, Peak, Trouble
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Limit, Source
from pytest_accel.core.verdict import Status, Verdict, Waiver
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.run import record
from pytest_accel.run.record import BadRecord, write
from pytest_accel.skus import loader

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

import schemas  # noqa: E402  a program, not a package

SCHEMAS = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in schemas.FILES.items()}
THRESHOLDS, RECORD = Draft202012Validator(SCHEMAS["thresholds"]), Draft202012Validator(SCHEMAS["record"])
SHIPPED = sorted(path for path in (CHECKOUT / "thresholds").rglob("*.yaml") if path.stem != "classes")


def as_json(value: Any) -> Any:
    """Return the content of a YAML file as an editor sees it: a date is text."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return value.isoformat() if isinstance(value, date | datetime) else value


def wrong(validator: Draft202012Validator, value: Any) -> list[str]:
    """Return every finding, with the keys that lead to it: "limits matmul.bf16: ..."."""
    return [f"{' '.join(map(str, each.absolute_path))}: {each.message}" for each in validator.iter_errors(value)]


def wrong_in(path: Path) -> list[str]:
    """Return the findings in a threshold file as it lies there, before what is below it is merged."""
    return wrong(THRESHOLDS, as_json(yaml_nodes.read(path, path.name)[0].plain()))


def test_the_shipped_schemas_are_those_that_the_code_states() -> None:
    for path, text in schemas.written().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: run scripts/schemas.py"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_valid(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


# -- threshold files


def test_every_shipped_threshold_file_is_valid_as_it_lies_there() -> None:
    found = {path.stem: wrong_in(path) for path in SHIPPED}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


BROKEN = tables("schemas/broken")


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_of_ones_own_is_valid(name: str, tmp_path: Path) -> None:
    """One that extends another states what it changes, and no more."""
    path = tmp_path / "own.yaml"
    path.write_text(content(f"schemas/{name}.yaml"))
    loader.load(str(path))
    assert wrong_in(path) == []


@each_row(("name", "old", "new", "key"), [(name, *row) for name, rows in BROKEN.items() for row in rows])
def test_what_the_loader_refuses_is_refused_by_the_schema_with_the_same_key(
    name: str, old: str, new: str, key: str, tmp_path: Path
) -> None:
    text = content(f"schemas/{name}.yaml")
    assert text.count(old) == 1
    path = tmp_path / "own.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(BadFile) as refused:
        loader.load(str(path))
    assert key in str(refused.value)
    assert any(key in each for each in wrong_in(path))


def places(schema: Any, keys: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of a threshold file with its schema."""
    schema = {**SCHEMAS["thresholds"]["$defs"].get(schema.get("$ref", "").rpartition("/")[2], {}), **schema}
    yield keys, schema
    for key, each in schema.get("properties", {}).items():
        yield from places(each, f"{keys} {key}".strip())
    for inner in (schema.get("additionalProperties"), schema.get("items")):
        if isinstance(inner, dict):
            yield from places(inner, f"{keys} *".strip())


def test_every_key_of_a_threshold_file_is_described_and_typed() -> None:
    found = dict(places(SCHEMAS["thresholds"]))
    assert [keys for keys, each in found.items() if not keys.endswith("*") and "description" not in each] == []
    untyped = {keys.rpartition(" ")[2] for keys, each in found.items() if "type" not in each}
    assert untyped == {"equals", "value", "warn", "*"}  # `*`: an argument of a probe
    assert len(found) > 100


# -- records

DEVICE = Device("GPU-0", 0, "nvidia", "Part", memory_bytes=80 * 10**9, pci_id="10de:2330", facts={"vbios": "96.00"})
LIMIT = Limit("matmul.bf16", "TFLOPS", floor=672.0, source=Source("published", "them", "2026-08"), origin="mine.yaml:3")
LOST = Measurement("soak.rate", "GPU-0", "TFLOPS", float("nan"), trouble=Trouble("device", "it was lost"))
MEASURED = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 612.4, (612.0,), (0.1,), Peak(989.4, "datasheet"))
WAIVER = Waiver("matmul.bf16", "known", "us", date(2026, 12, 31))
VERDICT = Verdict(
    "matmul.bf16", "GPU-0", Status.FAIL, worded("too slow"), margin=float("-inf"), limit=LIMIT, waiver=WAIVER
)


def record_of(folder: Path, **fields: Any) -> Any:
    write(Run(**{"info": {}, **fields}), folder)
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


def test_a_record_is_valid_from_its_first_writing_to_its_last(tmp_path: Path) -> None:
    assert wrong(RECORD, record_of(tmp_path)) == []
    full = record_of(tmp_path, devices=[DEVICE], measurements=[LOST, MEASURED], verdicts=[VERDICT], state="finished")
    assert wrong(RECORD, full) == []


@each_row(("place", "key"), tables("schemas/unknown-keys")["keys"])
def test_an_unknown_key_is_refused_by_reader_and_schema(place: list[Any], key: str, tmp_path: Path) -> None:
    text = record_of(tmp_path, devices=[DEVICE], measurements=[LOST], verdicts=[VERDICT])
    at = text
    for step in place:
        at = at[step]
    at[key] = 1
    (tmp_path / "record.json").write_text(json.dumps(text))
    with pytest.raises(BadRecord, match=f"{key} is not known"):
        record.read(tmp_path / "record.json")
    assert any(f"'{key}' was unexpected" in each or "not valid under any" in each for each in wrong(RECORD, text))


@each_row(
    ("key", "value"),
    [("state", "over"), ("schema", 2), ("devices", {}), ("notes", [1]), ("info", []), ("info", {"host": 7})],
)
def test_a_value_of_another_type_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    assert any(each.startswith(key) for each in wrong(RECORD, {**record_of(tmp_path), key: value}))


FAULT = "sku: h100-sxm\nplatform: hgx8\nfaults: [{fault: slow-memory, device: 3}]\n"


@pytest.mark.nightly
def test_the_record_of_a_rejected_node_is_valid(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(FAULT)
    waiver = "{limit: host.acs, reason: known, by: us, until: 2099-12-31}"
    (tmp_path / "waivers.yaml").write_text(f"waivers: [{waiver}]\n")
    options = ("--accel-simulate=node.yaml", "--accel-waivers=waivers.yaml", "-k", "inventory or triad")
    ran = as_user.pytest(tmp_path, *options, sku="h100-sxm", paths=())
    assert "SIMULATED REJECTED gpu3" in ran.out
    assert wrong(RECORD, ran.record) == []
    assert main(["judge", str(ran.folder), "--output", str(tmp_path / "again")]) == 1
    again = json.loads((tmp_path / "again" / "record.json").read_text(encoding="utf-8"))
    assert again["judged_from"]
    assert wrong(RECORD, again) == []
