"""The skeleton of a threshold file: refused until it is filled in, and then a file that a node is accepted by."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support import shipped
from support.data_files import tables

from pytest_accel.core.measurement import Device
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.skus import lint, loader, requirements, skeleton

ROWS = tables("skus/skeleton")

X9 = Device(
    "GPU-0",
    0,
    "nvidia",
    'NVIDIA X9 "SXM"',
    80_000_000_000,
    pci_id="10de:2999",
    facts=ROWS["facts"],
)
VALUES = ROWS["values"]
KEY = re.compile(r"(\w+): TODO")
RATES = {"memory": 3350, "pcie": 63, "link": 450}
REFERENCES = {"matmul": 730, "stream": 2900, "soak": 700, "host_copy": 54, "peer_copy": 390, "all_reduce": 430}


def filled(text: str) -> str:
    """The skeleton with the figures of an H100, as somebody fills it in who has its datasheet."""
    lines, of = [], ""
    for line in text.splitlines():
        word = re.match(r"\s*(\w+)", line)
        of = word[1] if word and word[1] in {*RATES, *REFERENCES} else of
        lines.append(line if line.startswith("#") else KEY.sub(partial(value_of, of), line))
    return "\n".join(lines)


def value_of(of: str, found: re.Match[str]) -> str:
    """The value of a key in the part `of` the file."""
    special = {"gb_per_s": RATES.get(of), "reference": REFERENCES.get(of)}
    value = special.get(found[1]) or ("nvlink4" if (found[1], of) == ("type", "link") else VALUES[found[1]])
    return f"{found[1]}: {value}"


def written(folder: Path, text: str) -> str:
    (folder / "x9.yaml").write_text(text, encoding="utf-8")
    return str(folder / "x9.yaml")


def test_a_skeleton_is_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    """Every value that is lacking is named once, with its line."""
    text = skeleton.text([X9], None)
    with pytest.raises(BadFile) as refused:
        loader.load(written(tmp_path, text))
    said = str(refused.value).splitlines()
    assert len(said) == len(re.findall(r": TODO\b", text))
    assert said[0].endswith("x9.yaml:4: sku: still TODO; write the value, or delete the line if there is none")
    assert any("limits.matmul.bf16.reference: still TODO" in line for line in said)
    with pytest.raises(BadFile, match=r"datasheet\.tflops\.fp32: still TODO"):
        loader.load(written(tmp_path, text.replace("sku: TODO", "sku: x9")))


@pytest.mark.parametrize("count", [1, 8])
def test_a_skeleton_that_is_filled_in_is_a_file_to_accept_by(tmp_path: Path, count: int) -> None:
    devices = [replace(X9, uuid=f"GPU-{place}", index=place) for place in range(count)]
    path = written(tmp_path, filled(skeleton.text(devices, shipped.load("h100-sxm"))))
    sku = loader.load(path)
    assert all(sku.recognises(device) for device in devices)
    assert sku.platforms["node"].devices == count
    assert requirements.unfit(sku, sku.platforms["node"], "standard") is None
    assert requirements.unfit(sku, sku.platforms["node"], "quick") is None
    assert lint.lint([path], today="2026-11-22").clean


def test_what_devices_state_is_no_datasheet_of_theirs() -> None:
    """Or a board of 630 W would be measured by its own weakness."""
    text = skeleton.text([X9], None)
    assert "    watts: TODO  # the devices state 630 W" in text
    assert "    count: TODO" not in text, "one device has no peers to link to"


def test_a_product_of_which_little_is_known_has_a_skeleton(tmp_path: Path) -> None:
    """A driver that states a PCI id and nothing else."""
    text = skeleton.text([Device("PCI-0", 0, "habana", "", pci_id="1da3:1060")], None)
    assert "names:" not in text
    loader.load(written(tmp_path, filled(text)))
