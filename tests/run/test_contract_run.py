"""A run by a frozen threshold file: its platform, level and hash, and the same record judged by it."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import in_process
import pytest
import raw_record

from pytest_accel import probes
from pytest_accel.cli.main import main
from pytest_accel.run import record
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.session import Session
from pytest_accel.skus import contract, loader

NODE = "sku: h100-sxm\nplatform: hgx8\n"


@pytest.fixture
def fast() -> Iterator[None]:
    pytest.importorskip("torch")
    with in_process.fast():
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a healthy node, one with slow memory, and a contract."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "healthy.yaml").write_text(NODE)
    (tmp_path / "slow.yaml").write_text(f"{NODE}faults: [{{fault: slow-memory, device: 3}}]\n")
    words = ["sku", "freeze", "h100-sxm", "--platform=hgx8", "--level=quick", "--output=contract.yaml"]
    assert main(words) == 0
    return tmp_path


def ran(folder: Path, node: str, **options: str | bool) -> Session:
    """Run the triad and the facts of the product; the contract is for level quick, which nobody names."""
    importlib.import_module("torch").manual_seed(0)
    given = Options(sku="contract.yaml", simulate=str(folder / node), output=folder / f"{node}.d", **options)  # type: ignore[arg-type]
    here = Session(given, pool=in_process.Here())
    here.open()
    here.setup.filtered.append("the triad alone")
    for subject in [device.uuid for device in here.setup.devices]:
        here.check(probes.inventory, {"fact": "sku"}, subject)
        here.check(probes.stream, {"op": "triad"}, subject)
    return here


def test_platform_level_and_hash_are_those_of_the_contract(folder: Path, fast: None) -> None:
    here = ran(folder, "healthy.yaml")
    closing = here.finish()
    terms = loader.load("contract.yaml").contract
    assert terms is not None
    assert (here.setup.terms.platform.name, here.setup.terms.level) == ("hgx8", "quick")
    said = f"by ./contract.yaml; contract: sha256 {terms.sha256[:12]}..., h100-sxm on hgx8 at quick)"
    assert said in closing.line
    kept = json.loads((folder / "healthy.yaml.d" / record.FILE).read_text())
    assert kept["sku"]["contract"] == terms.sha256
    assert (kept["run"]["platform"], kept["run"]["level"]) == ("hgx8", "quick")


@pytest.mark.slow
def test_the_same_record_gets_the_same_verdicts_by_sku_and_contract(
    folder: Path, fast: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "REJECTED gpu3: stream.triad" in ran(folder, "slow.yaml").finish().line
    found = []
    behind = (folder / "contract.yaml").read_text()[contract.BEHIND :].replace("    reference: 2970\n", "", 1)
    (folder / "bare.yaml").write_text(f"# sha256: {contract.hash_of(behind.encode())}  {behind}")
    for sku in ("h100-sxm", "contract.yaml", "bare.yaml"):
        capsys.readouterr()
        assert main(["judge", "slow.yaml.d", f"--sku={sku}", f"--output={sku}.d"]) == 1
        assert ("contract: sha256 " in capsys.readouterr().out.partition("JUDGED AGAIN")[2]) == (sku != "h100-sxm")
        again = raw_record.read(folder / f"{sku}.d")
        assert ("contract" in again["sku"]) == (sku != "h100-sxm")
        found.append([(each["metric"], each["subject"], each["status"], each["floor"]) for each in again["verdicts"]])
    assert found[0] == found[1] == found[2], "bare.yaml states no reference of the triad, whose floor was derived of it"
    assert len(found[0]) >= 16


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"platform": "single"},
            "--accel-platform: h100-sxm has no platform 'single'; choose from hgx8",
        ),
        (
            {"level": "long", "level_named": True},
            "--accel-level=long contradicts ./contract.yaml, a contract for level quick; leave it out",
        ),
    ],
)
def test_an_option_that_contradicts_the_contract_is_refused(
    folder: Path, fast: None, options: dict[str, str | bool], error: str
) -> None:
    with pytest.raises(Refused) as why:
        ran(folder, "healthy.yaml", **options)
    assert error in str(why.value)
    assert main(["judge", "none", "--sku=contract.yaml"]) == 4


@pytest.mark.slow
def test_options_that_agree_with_the_contract_are_right(folder: Path, fast: None) -> None:
    here = ran(folder, "healthy.yaml", platform="hgx8", level="quick", level_named=True)
    assert here.finish().exit == 6
