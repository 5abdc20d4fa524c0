"""A simulated device whose copies arrive wrong, among copies between all devices at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import in_process
from support.data_files import content

from pytest_accel import probes
from pytest_accel.core.verdict import Status

SKU = content("simulate/rounds.yaml")


@pytest.mark.parametrize("how", ["rounds", "all"])
def test_wrong_copies_fail_the_device_that_makes_them_alone(tmp_path: Path, how: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "mine.yaml").write_text(SKU)
    (tmp_path / "node.yaml").write_text(
        "sku: ./mine.yaml\nplatform: four\nfaults: [{fault: wrong-result, device: 2, what: copy}]\n"
    )
    with in_process.fast():
        here = in_process.opened(tmp_path / "node.yaml", tmp_path / "out")
        for device in here.target.devices:
            here.check(probes.peer_copy_all, {"how": how}, device.uuid)
        failed = {here.ledger.names[each.subject] for each in here.ledger.verdicts if each.status is Status.FAIL}
    assert failed == {"gpu2"}
