"""What a person sees of a run: one cause is told once, every rejected device is named, JUnit tells statuses apart."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support import as_user, data_files

NODE = data_files.content("plugin/two-faults.yaml")
WITHOUT_TORCH = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Without())
"""


def simulated(folder: Path, *options: str, node: str = NODE, env: dict[str, str] | None = None) -> as_user.Ran:
    """A run of the packaged suite on a simulated node; it locks no device of this machine."""
    (folder / "node.yaml").write_text(node, encoding="utf-8")
    return as_user.pytest(
        folder, "--accel-simulate=node.yaml", "--accel-level=quick", *options, sku="h100-sxm", paths=(), env=env
    )


@pytest.fixture
def without_torch(tmp_path: Path) -> dict[str, str]:
    """The environment of a run that finds no torch."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TORCH, encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path)}


def test_without_torch_the_suite_is_refused_in_one_sentence(tmp_path: Path, without_torch: dict[str, str]) -> None:
    ran = simulated(tmp_path, env=without_torch)
    assert ran.exit == 4
    assert ran.out.strip().count("\n") == 0
    assert ran.out.startswith("ERROR: torch is not installed in this environment")
    assert not ran.folder.exists()


@pytest.mark.nightly
def test_what_all_devices_lack_is_told_once(tmp_path: Path, without_torch: dict[str, str]) -> None:
    """A run of chosen tests reads facts without torch; what it cannot measure is no verdict on hardware."""
    junit = tmp_path / "junit.xml"
    ran = simulated(tmp_path, "-k", "stream or count", f"--junitxml={junit}", env=without_torch)
    assert ran.exit == 6
    assert ran.out.count("No module named 'torch'") == 2, "a row and the closing line"
    assert "; gpu0 to gpu7 stream.copy_kernel: UNMEASURED, ModuleNotFoundError" in ran.closing
    suite = ET.parse(junit).getroot()[0]  # noqa: S314  pytest wrote it
    assert (suite.get("failures"), suite.get("errors")) == ("0", "16")
    assert {each.get("type") for each in suite.iter("error")} == {"UNMEASURED"}
    codes = {each.get("value") for each in suite.iter("property") if each.get("name") == "accel.code"}
    assert "A901" in codes
    about = {each.get("name"): each.get("value") for each in suite.findall("properties/property")}
    assert (about["accel.record_sha256"], about["accel.exit"]) == (ran.record["sha256"], "6")


@pytest.mark.nightly
def test_two_faults_on_two_of_eight_devices(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    words = "host_copy and d2h or stream or exact_matmul or inventory"
    ran = simulated(tmp_path, "-k", words, "--accel-patience=8", f"--junitxml={junit}")
    assert ran.exit == 1
    assert re.match(
        r"SIMULATED REJECTED 2/8: gpu2 stream\.\w+ \d+ GB/s, floor \d+ GB/s \(-\d+\.\d%\); "
        r"gpu6 host_copy\.d2h its process sent nothing for (8|24) s",
        ran.closing,
    )
    assert re.search(r"^again: .* -k 'test_stream\[gpu2-\w+\] or test_host_copy\[gpu6-d2h\]'$", ran.out, re.MULTILINE)
    told = re.findall(r"^FAIL +gpu6 +(.*)", ran.out, re.MULTILINE)
    assert len(told) == 1, "the hang, and in the same row how much was not measured for it"
    assert re.match(r"host_copy\.d2h and \d+ more: its process sent nothing for (8|24) s", told[0])
    failures = ran.out.partition(" FAILURES ")[2].partition(" accel: ")[0]
    assert failures.count("gpu6: ") <= 2, "the hang, and no more than what it was next hung in"
    assert not re.search(r"silent 0|-0,", ran.out)
    collected = re.search(r"collected \d+ items / \d+ deselected / (\d+) selected", ran.out)
    ended = re.search(r"^=+ (.* not measured) in .* =+$", ran.out, re.MULTILINE)
    assert collected
    assert ended
    counts = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z ]+)", ended[1])}
    del counts["deselected"]
    assert sum(counts.values()) == int(collected[1]), "every test that was collected is in the last line"
    suite = ET.parse(junit).getroot()[0]  # noqa: S314  pytest wrote it
    about = {each.get("name"): each.get("value") for each in suite.findall("properties/property")}
    assert about["accel.closing"] == ran.closing
    assert re.search(r"\nnext: gpu6 \(.*\) A103 device-hung, critical: drain and power-cycle the node", ran.out)
    found = {each["code"]: ran.names[each["subject"]] for each in ran.record["findings"]}
    assert (found["A103"], found["A208"]) == ("gpu6", "gpu2")
    hung = suite.find(".//property[@name='accel.code'][@value='A103']/..")
    assert hung is not None
    texts = {each.get("name"): each.get("value") for each in hung}
    assert (texts["accel.severity"], texts["accel.action"]) == ("critical", "reboot")
    assert re.match(r"its process sent nothing for (8|24) s", str(texts["accel.cause"]))
    serials = {device["uuid"]: device["serial"] for device in ran.record["devices"]}
    assert texts["accel.serial"] == serials[str(texts["accel.device"])]
    assert (about["accel.sku"], about["accel.level"], about["accel.platform"]) == ("h100-sxm", "quick", "hgx8")
    assert int(suite.get("failures", 0)) >= 4
    assert suite.get("errors") == "0"
