"""The shipped alert rules and the dashboard, by Prometheus' own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.data_files import tables
from support.rows import each_row

import pytest_accel
from pytest_accel.views import exports

ROWS = tables("views/alerts")
FILES = {"alerts": Path(*exports.__path__, "alerts.yaml"), "dashboard": Path(*exports.__path__, "dashboard.json")}
DASHBOARD = json.loads(FILES["dashboard"].read_text(encoding="utf-8"))
RULES = yaml.safe_load(FILES["alerts"].read_text(encoding="utf-8"))["groups"][0]["rules"]
PANELS = {
    f"{panel['title']}-{each['refId']}": each["expr"] for panel in DASHBOARD["panels"] for each in panel["targets"]
}


def test_the_dashboard_has_variables_for_all_that_it_uses() -> None:
    defined = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))) <= defined
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install prometheus)")
    return found


@pytest.mark.nightly
def test_promtool_accepts_the_rules() -> None:
    rules = subprocess.run([tool("promtool"), "check", "rules", str(FILES["alerts"])], capture_output=True, check=False)
    assert rules.returncode == 0, rules.stdout + rules.stderr


# -- the rules, by `promtool test rules`


@pytest.mark.nightly
@pytest.mark.parametrize(("series", "firing"), ROWS["cases"])
def test_alerts_are_raised_and_end(series: dict[str, str], firing: dict[str, list[str]], tmp_path: Path) -> None:
    asked = [
        {"eval_time": at, "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
         "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]}
        for at, names in firing.items()
    ]  # fmt: skip
    test = {
        "interval": "5m",
        "input_series": [
            {"series": name, "values": re.sub(r"\{(\d+)\}", lambda days: str(int(days[1]) * 288), values)}
            for name, values in series.items()
        ],
        "promql_expr_test": asked,
    }
    content = {"rule_files": [str(FILES["alerts"])], "evaluation_interval": "5m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [tool("promtool"), "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@each_row("expression", [*PANELS.values(), *(each["expr"] for each in RULES)])
def test_every_query_is_about_metrics_that_we_write(expression: str) -> None:
    rooms = Path(pytest_accel.__file__).parent / "fleet"
    written = "".join((rooms / name).read_text() for name in ("jobs/fleet_metrics.py", "nights/night_metrics.py"))
    found = {re.sub(r"(median)_\w+", r"\1_", each) for each in re.findall(r"\baccel_\w+", expression)}
    assert found
    assert all(each in written for each in found)
