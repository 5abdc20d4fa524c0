"""The shipped alert rules and the dashboard, in a real Prometheus that scrapes what we write."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import exported
import pytest
import yaml

from pytest_accel.core.run import Run
from pytest_accel.run.record import findings_of
from pytest_accel.views.exports.prometheus import FILES, METRICS, UNITS, WHAT, text

DASHBOARD = json.loads(FILES["dashboard"].read_text(encoding="utf-8"))
RULES = yaml.safe_load(FILES["alerts"].read_text(encoding="utf-8"))["groups"][0]["rules"]
PANELS = {
    f"{panel['title']}-{each['refId']}": each["expr"] for panel in DASHBOARD["panels"] for each in panel["targets"]
}
NAMES = {*METRICS, *(f"accel_{what}_{unit}" for what in WHAT for unit, _ in UNITS.values())}
SECONDS = 60.0
"""How long Prometheus may take to start, and to scrape."""


@pytest.mark.parametrize("expression", [*PANELS.values(), *(each["expr"] for each in RULES)], ids=str)
def test_every_query_is_about_metrics_that_we_write(expression: str) -> None:
    found = set(re.findall(r"\baccel_\w+", expression))
    assert found
    assert found <= NAMES


def test_the_dashboard_has_variables_for_all_that_it_uses() -> None:
    defined = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))) <= defined
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.fixture(scope="module")
def faulty() -> Run:
    return exported.faulty(("stream", "matmul", "soak"))


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install prometheus)")
    return found


@pytest.mark.slow
def test_promtool_accepts_the_rules_and_the_metrics(faulty: Run) -> None:
    promtool = tool("promtool")
    rules = subprocess.run([promtool, "check", "rules", str(FILES["alerts"])], capture_output=True, check=False)
    assert rules.returncode == 0, rules.stdout + rules.stderr
    written = text(faulty).encode()
    checked = subprocess.run([promtool, "check", "metrics"], input=written, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that Prometheus scrapes."""

    def log_message(self, *args: Any) -> None: ...

    def guess_type(self, path: Any) -> str:
        return "text/plain; version=0.0.4"


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        """The answer of its interface."""
        asked = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310  our own server
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def wait(self, path: str, ready: Any, **query: str) -> Any:
        """The first answer that is ready."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            try:
                if ready(found := self.get(path, **query)):
                    return found
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.2)
        pytest.fail(f"Prometheus did not answer {path} {query} in time")


def free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, faulty: Run) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the metrics of a rejected node, and has our rules."""
    program, folder = tool("prometheus"), tmp_path_factory.mktemp("prometheus")
    (folder / "metrics").write_text(text(faulty), encoding="utf-8")
    files = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    target = f"127.0.0.1:{files.server_address[1]}"
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(FILES["alerts"])],
        "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    port = free_port()
    words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *words, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            running = Prometheus(port)
            running.wait("query", lambda found: found["result"], query="accel_run_exit_status")
            yield running
        finally:
            process.terminate()
            process.wait(timeout=30)
            files.shutdown()
            files.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("name", PANELS)
def test_every_query_of_the_dashboard_answers(server: Prometheus, name: str) -> None:
    """With the variables as Grafana fills them in for "All"."""
    expression = PANELS[name].replace("$instance", ".*").replace("$metric", ".*")
    assert "$" not in expression
    assert server.query(expression), "no data"


@pytest.mark.slow
def test_the_table_of_findings_has_the_serial_numbers(server: Prometheus, faulty: Run) -> None:
    expression = PANELS["Findings that reject-A"].replace("$instance", ".*")
    series = [each["metric"] for each in server.query(expression)]
    found = {(each["device"], each["code"], each.get("serial")) for each in series}
    names = {device.uuid: (device.name, device.serial) for device in faulty.devices}
    expected = {
        (names[subject][0], each.code, names[subject][1])
        for (_, subject, _), each in findings_of(faulty).items()
        if each.severity.value in ("critical", "error")
    }
    assert found == expected


@pytest.mark.slow
def test_the_alerts_of_a_rejected_node_fire(server: Prometheus) -> None:
    wanted = {"AcceleratorNodeRejected", "AcceleratorFinding"}

    def firing(found: Any) -> bool:
        return wanted <= {each["labels"]["alertname"] for each in found["alerts"] if each["state"] == "firing"}

    alerts = server.wait("alerts", firing)["alerts"]
    summaries = {each["annotations"]["summary"].partition(" ")[2] for each in alerts}
    assert "gpu3: A203 memory-unrepairable" in summaries
    assert "AcceleratorRecordStale" not in {each["labels"]["alertname"] for each in alerts}
    health = [each["health"] for group in server.get("rules")["groups"] for each in group["rules"]]
    assert set(health) == {"ok"}
