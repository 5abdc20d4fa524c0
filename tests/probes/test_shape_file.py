"""Products of one's own from a file: what is read, and every mistake with its place."""

from pathlib import Path

import pytest
import tabled
from as_user import pytest as run_pytest
from as_user import write

from pytest_accel import shapes
from pytest_accel.core.yaml_nodes import BadFile

CASES = tabled.read("probes/shape-file")
CSV = """\
# ours, from the profiler
m, n, k, dtype, name
4096,14336,4096,bf16,ffn_up

8192,8192,8192,,
"""
YAML = """\
shapes:
  - {m: 4096, n: 14336, k: 4096, dtype: bf16, name: ffn_up}
  - {m: 8192, n: 8192, k: 8192}
"""


@pytest.mark.parametrize(("name", "text"), [("ours.csv", CSV), ("ours.yaml", YAML)])
def test_a_file_of_shapes(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = shapes.read(tmp_path / name)
    assert found == [
        {"m": 4096, "n": 14336, "k": 4096, "dtype": "bf16"},
        {"m": 8192, "n": 8192, "k": 8192},
    ]
    assert [each.__name__ for each in found] == ["ffn_up", "8192x8192x8192"]


def test_the_shapes_of_a_model_by_name() -> None:
    found = shapes.named(shapes.of_model(hidden=4096, ffn=14336, tokens=8192), dtype="fp8")
    assert found[2] == {"m": 8192, "n": 14336, "k": 4096, "dtype": "fp8"}
    assert found[2].__name__ == "ffn_up"


@pytest.mark.parametrize(("name", "text", "said"), CASES["mistakes"])
def test_a_mistake_is_named_with_its_place_and_value(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadFile, match=said):
        shapes.read(tmp_path / name)


def test_all_mistakes_at_once_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("m,n,k\n0,1,2\n1,2,x")
    with pytest.raises(BadFile, match=r"a\.csv:2(.|\n)*a\.csv:3"):
        shapes.read(tmp_path / "a.csv")
    with pytest.raises(BadFile, match=r"no\.csv: cannot be read: No such file .*current folder is"):
        shapes.read("no.csv")


@pytest.mark.slow
@pytest.mark.devices
def test_five_lines_test_every_shape_of_a_file_on_every_device(tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text("m,n,k,dtype,name\n256,512,256,fp32,up\n256,256,512,fp32,down\n")
    write(
        tmp_path,
        test_ours="""
            from pytest_accel import shapes

            @accel_min_tflops(0.01)
            @pytest.mark.parametrize("shape", shapes.read("ours.csv"))
            def test_our_shapes(accel_check, shape):
                accel_check(probes.matmul, **shape)
        """,
    )
    ran = run_pytest(tmp_path)
    assert ran.exit == 0, ran.out
    metrics = {each["metric"] for each in ran.record["verdicts"]}
    assert metrics >= {"matmul.fp32@m=256,n=512,k=256", "matmul.fp32@m=256,n=256,k=512"}
    tested = run_pytest(tmp_path, "--collect-only", "-q", "-k", "up and not down").out
    assert "test_our_shapes[" in tested
    assert "down]" not in tested
