"""`pytest-accel sku freeze`, and the other commands on what it writes."""

from pathlib import Path

import pytest
import shipped

import pytest_accel
from pytest_accel.cli.main import main
from pytest_accel.skus import loader


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A contract for eight H100 at level standard."""
    monkeypatch.chdir(tmp_path)
    assert main(["sku", "freeze", "h100-sxm", "--platform=hgx8", "--output=contract.yaml"]) == 0
    capsys.readouterr()
    return tmp_path / "contract.yaml"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["sku", *words])
    found = capsys.readouterr()
    return status, found.out, found.err


def test_the_file_is_on_stdout_and_its_hash_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("freeze", "h100-sxm", "--platform=hgx8", "--level=quick")
    status, out, err = said(capsys, *words)
    (tmp_path / "contract.yaml").write_text(out)
    terms = loader.load(str(tmp_path / "contract.yaml")).contract
    assert terms is not None
    assert (status, err) == (0, f"contract: sha256 {terms.sha256}, h100-sxm on hgx8 at quick\n")
    assert f"\n# Frozen by pytest_accel {pytest_accel.__version__} on 20" in out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("h100-sxm", "--platform=hgx9"), "h100-sxm has no platform 'hgx9'; did you mean 'hgx8' or 'hgx4' or 'dgx'?"),
        (("h100-sxm",), "name the platform that is delivered, one of hgx8, hgx4, single, vm-passthrough, dgx, sliceN"),
        (("h100-smx", "--platform=hgx8"), "did you mean 'h100-sxm'"),
        (("contract.yaml",), "contract.yaml: is frozen already, as sha256 "),
        (("h100-sxm", "--platform=hgx8", "--output=contract.yaml"), "--output: contract.yaml exists"),
        (("h100-sxm", "--platform=hgx8", "--output=no/c.yaml"), "cannot write to no/c.yaml: No such file"),
    ],
)
def test_what_cannot_be_frozen_is_an_error(
    file: Path, words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_text()
    status, out, err = said(capsys, "freeze", *words)
    assert (status, out) == (4, "")
    assert error in err
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("gaudi2", "--platform=oam8"), "gaudi2 has no limit that rejects at level standard for health, memory"),
        (("cpu",), "is not an accelerator"),
        (("h100-sxm", "--platform=hgx8"), ""),
    ],
)
def test_a_contract_that_accepts_nothing_is_a_warning(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = said(capsys, "freeze", *words)
    assert status == 0
    assert "contract of " in out
    assert ("warning: no node can be accepted by this contract: " in err) == bool(why)
    assert why in err


def test_show_and_lint_read_a_contract(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "show", file.name)
    assert status == 0
    assert "contract: sha256 " in out
    assert "h100-sxm on hgx8 at standard" in out
    status, out, _ = said(capsys, "lint", file.name)
    assert status == 0
    assert "1 file, 97 limits: 0 errors, 0 warnings" in out


@pytest.mark.slow
def test_no_explanation_of_a_contract_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Most explain what stands on other platforms of the SKU."""
    path = tmp_path / "contract.yaml"
    for name in ("h100-sxm", "mi300x"):
        platform = next(iter(shipped.load(name).platforms))
        path.unlink(missing_ok=True)
        assert said(capsys, "freeze", name, f"--platform={platform}", f"--output={path}")[0] == 0
        status, out, _ = said(capsys, "lint", str(path))
        assert status == 0, out


@pytest.mark.slow
def test_a_changed_contract_is_refused_by_every_command(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(file.read_text().replace("floor: 2762", "floor: 2700", 1))
    for command in ("show", "lint", "freeze"):
        status, out, err = said(capsys, command, file.name)
        assert status == 4
        assert "contract.yaml:1: " in out + err
        assert "sha256: the file was changed after it was frozen" in out + err
