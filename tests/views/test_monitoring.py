"""The shipped alert rules and the dashboard, by Prometheus' own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import pytest_accel
from pytest_accel.views import exports

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


@pytest.mark.slow
def test_promtool_accepts_the_rules() -> None:
    rules = subprocess.run([tool("promtool"), "check", "rules", str(FILES["alerts"])], capture_output=True, check=False)
    assert rules.returncode == 0, rules.stdout + rules.stderr


# -- the rules, by `promtool test rules`

NODE = 'accel_fleet_node_rejected{sku="h100-sxm",node="n1",devices="gpu3"}'
LOST = 'accel_fleet_lost_ratio{kind="KIND",place="n1 gpu3",node="n1",sku="h100-sxm",metric="stream.triad"}'
SHARES = 'accel_fleet_nodes{sku="h100-sxm",state="no result"}', 'accel_fleet_nodes_expected{sku="h100-sxm"}'
CASES = [
    # a permanent loss is told for as long as it lasts, weeks later too
    ({LOST.replace("KIND", "behind"): "0.05x{60}"}, {"2h": ["AcceleratorSlow"], "59d": ["AcceleratorSlow"]}),
    # a slow one from the night on which it is beyond noise, and until the device is exchanged
    (
        {LOST.replace("KIND", "losses"): "_x{10} 0.021+0.00001x{20} stale"},
        {"9d": [], "11d": ["AcceleratorSlow"], "29d": ["AcceleratorSlow"], "31d": []},
    ),
    # noise as published is no finding of the store, so there is no series of it
    ({'accel_fleet_findings_by_kind{kind="behind"}': "0x{60}"}, {"2h": [], "59d": []}),
    # a rejected node is told until it is drained
    ({NODE: "1x{1} stale"}, {"10m": [], "1h": ["AcceleratorNodeRejected"], "25h": []}),
    ({SHARES[0]: "150x{4}", SHARES[1]: "1000x{4}"}, {"1h": [], "7h": ["AcceleratorNodesWithoutVerdict"]}),
    ({SHARES[0]: "50x{4}", SHARES[1]: "1000x{4}"}, {"1h": [], "7h": []}),
    ({"accel_fleet_night_timestamp_seconds": "0x{4}"}, {"2d": [], "3d": ["AcceleratorNightMissing"]}),
]
"""Series, whose values are five minutes apart and as many as {days} have, and what fires at which times."""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("series", "firing"), CASES)
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


@pytest.mark.parametrize("expression", [*PANELS.values(), *(each["expr"] for each in RULES)], ids=str)
def test_every_query_is_about_metrics_that_we_write(expression: str) -> None:
    rooms = Path(pytest_accel.__file__).parent / "fleet"
    written = "".join((rooms / room / "metrics.py").read_text() for room in ("jobs", "nights"))
    found = {re.sub(r"(median)_\w+", r"\1_", each) for each in re.findall(r"\baccel_\w+", expression)}
    assert found
    assert all(each in written for each in found)
