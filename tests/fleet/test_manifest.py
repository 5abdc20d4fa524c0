"""Manifests of Kubernetes: valid by its own definitions, and no more rights than asked for."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import as_user
import pytest
import yaml
from jsonschema import Draft202012Validator

from pytest_accel.cli.main import main
from pytest_accel.core import closing_file
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, Fleet, save
from pytest_accel.fleet.kubernetes import manifest

CHECKOUT = Path(__file__).parents[2]
SCHEMA = json.loads((CHECKOUT / "tests/data/kubernetes-batch-1.33.json").read_text(encoding="utf-8"))
ASKED = ["fleet", "manifest", "--image=registry.example/accel:1", "--sku=h100-sxm"]
JOB = [*ASKED, "--nodes=gpu-001,gpu-002", "--claim=records", "--time-limit=10m"]
CRON = [*ASKED, "--count=4", "--host-path=/mnt/accel", "--cron=0 3 * * *", "--selector=a.b/c=d", "--namespace=ops"]


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """The one manifest that the command prints."""
    assert main(list(args)) == 0
    (found,) = yaml.safe_load_all(capsys.readouterr().out)
    return found


def errors(found: Any) -> list[str]:
    """Where a manifest contradicts the definitions of Kubernetes, and the rules among fields that these leave out."""
    schema = {**SCHEMA, "$ref": f"#/$defs/io.k8s.api.batch.v1.{found['kind']}"}
    wrong = [error.json_path for error in Draft202012Validator(schema).iter_errors(found)]
    job = found["spec"]["jobTemplate"]["spec"] if found["kind"] == "CronJob" else found["spec"]
    pod = job["template"]["spec"]
    mounted = {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    wrong += ["restartPolicy"] * (pod["restartPolicy"] != "Never")  # podFailurePolicy, backoffLimitPerIndex
    wrong += ["completionMode"] * (job["completionMode"] != "Indexed")  # backoffLimitPerIndex
    wrong += ["volumes"] * (mounted != {each["name"] for each in pod["volumes"]})
    named = [each["onExitCodes"]["containerName"] for each in job["podFailurePolicy"]["rules"] if "onExitCodes" in each]
    return wrong + ["containerName"] * (named != [each["name"] for each in pod["containers"]])


@pytest.mark.parametrize(
    "args",
    [JOB, CRON, [*JOB, "--priority=burn-in", "--pull-secret=regcred", "--cpu=16", "--memory=128Gi", "--deadline=30m"]],
)
def test_a_manifest_is_one_of_kubernetes(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, *args)
    assert errors(found) == []
    found["spec"]["completion"] = "4"
    assert errors(found) == ["$.spec"], "an unknown key is found"


def test_a_night_whose_pod_never_starts_does_not_hold_up_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    night = printed(capsys, *CRON)["spec"]
    assert night["concurrencyPolicy"] == "Forbid"
    assert 0 < night["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 24 * 3600


def test_a_job_has_a_pod_for_each_node_and_its_exit_status_is_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    job = printed(capsys, *JOB)["spec"]
    assert (job["completions"], job["parallelism"], job["backoffLimitPerIndex"]) == (2, 2, 0)
    assert [each["action"] for each in job["podFailurePolicy"]["rules"]] == ["Ignore", "FailIndex"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["pytest"]
    asked = {"--accel-sku=h100-sxm", "--accel-level=quick", "--accel-output=/results/$(JOB_NAME)"}
    assert asked <= set(container["args"])
    names = {each["name"] for each in container["env"]}
    assert {"NODE_NAME", "JOB_NAME", closing_file.VARIABLE} <= names
    assert "node.kubernetes.io/unschedulable" in {each["key"] for each in pod["tolerations"]}
    assert container["resources"] == {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": "8"}}
    assert job["activeDeadlineSeconds"] == 6 * 3600, "a pod that hangs holds its devices no longer"


def test_each_manifest_is_a_job_of_its_own_and_a_cronjob_keeps_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    name = printed(capsys, *JOB)["metadata"]["name"]
    assert re.fullmatch(r"accel-\d{8}-\d{6}", name)
    assert printed(capsys, *CRON)["metadata"]["name"] == "accel"


def test_what_a_cluster_asks_of_its_pods(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--priority=burn-in", "--pull-secret=regcred", "--cpu=16", "--memory=128Gi", "--deadline=30m"]
    job = printed(capsys, *JOB, *words)["spec"]
    pod = job["template"]["spec"]
    assert (pod["priorityClassName"], pod["imagePullSecrets"]) == ("burn-in", [{"name": "regcred"}])
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "16", "memory": "128Gi"}
    assert job["activeDeadlineSeconds"] == 1800
    assert main(JOB) == 0
    assert "note: --image names no digest" in capsys.readouterr().err
    assert main([*JOB, f"--image=r.example/accel@sha256:{'0' * 64}"]) == 0
    assert capsys.readouterr().err == ""


def test_whichever_nodes_are_free_are_not_those_under_repair(capsys: pytest.CaptureFixture[str]) -> None:
    pod = printed(capsys, *ASKED, "--count=4", "--claim=records")["spec"]["template"]["spec"]
    assert "node.kubernetes.io/unschedulable" not in {each["key"] for each in pod["tolerations"]}


def test_every_night_nodes_under_repair_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, *CRON)
    assert found["metadata"]["namespace"] == "ops"
    pod = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert found["spec"]["schedule"] == "0 3 * * *"
    assert "node.kubernetes.io/unschedulable" not in {each["key"] for each in pod["tolerations"]}
    assert pod["nodeSelector"] == {"a.b/c": "d"}


def test_a_pod_has_no_rights(capsys: pytest.CaptureFixture[str]) -> None:
    pod = printed(capsys, *JOB)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    assert not any("hostPath" in each for each in pod["volumes"])
    assert not {"hostPID", "hostNetwork", "hostIPC"} & {*pod}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([*ASKED, "--claim=a"], "--nodes --count is required"),
        ([*ASKED, "--count=4"], "--claim --host-path is required"),
        ([*ASKED, "--count=0", "--claim=a"], "at least 1"),
        ([*ASKED, "--nodes=$(reboot)", "--claim=a"], "is not the name of a node"),
        ([*ASKED, "--count=4", "--host-path=../x"], "is not the absolute path of a folder"),
        ([*JOB, "--memory=lots"], "an amount is written as 8 or 32Gi"),
        ([*JOB, "--name=Accel"], "a-z, 0-9"),
        ([*JOB, "--time-limit=1s"], "too short"),
    ],
)
def test_wrong_options_are_refused(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="4"):
        main(args)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "folder",
    [
        "/", "/mnt", "/var", "/var/lib", "/etc/accel", "/./etc/accel", "//etc/accel", "/mnt/../etc/accel",
        *("/var/run/accel", "/run/accel", "/proc/1/root", "/sys/fs", "/dev/nvidia0", "/root/accel", "/boot/accel"),
        *("/usr/lib", "/var/lib/kubelet", "/var/lib//kubelet/pods", "/var/./lib/containerd/x", "/var/lib/docker/"),
        *("/var/lib/etcd", "/var/log/pods", "/var/spool/cron", "/opt/cni/bin"),
    ],
)  # fmt: skip
def test_no_pod_writes_into_a_folder_of_the_system(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="4"):
        main([*ASKED, "--count=4", f"--host-path={folder}"])
    assert f"'{folder}' is not the absolute path of a folder for records" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["/mnt/accel", "/var/mnt/accel", "/opt/accel", "/shared/usr/accel", "/srv/var/lib"])
def test_a_folder_for_records_is_mounted_as_it_was_named(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    pod = printed(capsys, *ASKED, "--count=4", f"--host-path={folder}")["spec"]["template"]["spec"]
    mounted = [each["hostPath"] for each in pod["volumes"] if "hostPath" in each]
    assert mounted == [{"path": folder, "type": "Directory"}]


def summary(folder: Path, host: str, word: str, started: str) -> None:
    """Write what a run on `host` has left."""
    found = {
        "schema": 1, "started": started, "host": host, "state": "finished", "line": word, "word": word,
        "exit": {"ACCEPTED": 0, "REJECTED": 1}.get(word, 6),
        "sku": "h100-sxm", "simulated": False, "judged_again": False, "devices": [], "rejected": [],
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(found))


def test_the_newest_result_of_a_node_becomes_its_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary(tmp_path / "gpu-001", "gpu-001", "ACCEPTED", "2026-11-22T03:00:00+00:00")
    summary(tmp_path / "gpu-001-2", "gpu-001", "NOT JUDGED", "2026-11-23T03:00:00+00:00")
    summary(tmp_path / "gpu-002", "gpu-002", "REJECTED", "2026-11-23T03:00:00+00:00")
    assert main(["fleet", "labels", str(tmp_path)]) == 0
    label = (
        "kubectl label node {} --overwrite pytest-accel/result={} pytest-accel/sku=h100-sxm pytest-accel/day=2026-11-23"
    )
    assert capsys.readouterr().out.splitlines() == [
        label.format("gpu-001", "not-judged"),
        label.format("gpu-002", "rejected"),
        "kubectl taint node gpu-002 --overwrite pytest-accel/rejected=true:NoSchedule",
    ]
    summary(tmp_path / "gpu-002-2", "gpu-002", "ACCEPTED", "2026-11-23T05:00:00+00:00")
    summary(tmp_path / "gpu-003", "gpu-003", "ACCEPTED", "2026-11-23T03:00:00+00:00")
    assert main(["fleet", "labels", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        label.format("gpu-002 gpu-003", "accepted"),
        "kubectl taint node gpu-002 gpu-003 pytest-accel/rejected:NoSchedule- 2>/dev/null || true",
    ], "equal labels are one command, and the taint goes after the repair"
    (tmp_path / "nothing").mkdir()
    assert main(["fleet", "labels", str(tmp_path / "nothing")]) == 4


def test_a_rejected_host_whose_name_is_not_that_of_a_node_is_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kubelet writes the names of hosts in lower case."""
    hosts = {"upper": "GPU1", "evil": "gpu3; reboot", "short": "gpu4", "shouted": "GPU4"}
    for folder, host in hosts.items():
        summary(tmp_path / folder, host, "REJECTED", "2026-11-23T03:00:00+00:00")
    assert main(["fleet", "labels", str(tmp_path)]) == 6
    told = capsys.readouterr()
    assert [line.split()[:4] for line in told.out.splitlines()] == [
        ["kubectl", "label", "node", "gpu1"],
        ["kubectl", "taint", "node", "gpu1"],
    ]
    capitals = "2 hosts have names that differ in capitals only, and Kubernetes has one gpu4"
    assert set(told.err.splitlines()) == {
        f"GPU4 gets no label: {capitals}",
        "gpu3; reboot gets no label: that is not the name of a node of Kubernetes",
        f"gpu4 gets no label: {capitals}",
    }


def test_a_label_hides_no_rejection_and_nothing_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary(tmp_path / "gpu-001", "gpu-001", "REJECTED", "2026-11-22T03:00:00+00:00")
    summary(tmp_path / "gpu-001-2", "gpu-001", "HELD", "2026-11-23T03:00:00+00:00")
    summary(tmp_path / "gpu-001-3", "gpu-001", "ACCEPTED", "2999-01-01T00:00:00+00:00")
    summary(tmp_path / "gpu-002", "gpu-002", "ACCEPTED", "2026-11-22T03:00:00+00:00")
    summary(tmp_path / "gpu-002-2", "gpu-002", "REJECTED", "2026-11-23T03:00:00+00:00")
    (tmp_path / "gpu-002-2/summary.json").write_text("{")
    assert main(["fleet", "labels", str(tmp_path)]) == 6
    told = capsys.readouterr()
    assert [line.split()[3:6:2] for line in told.out.splitlines()] == [
        ["gpu-001", "pytest-accel/result=rejected"],
        ["gpu-001", "pytest-accel/rejected=true:NoSchedule"],
    ]
    assert told.err == "gpu-002-2/summary.json is damaged\n"


def test_a_node_that_was_not_expected_gets_no_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary(tmp_path / "gpu-001", "gpu-001", "ACCEPTED", "2026-11-22T03:00:00+00:00")
    summary(tmp_path / "gpu-009", "gpu-009", "REJECTED", "2026-11-22T03:00:00+00:00")
    save(Fleet("1", "2026-11-21T00:00:00+00:00", "0", (), 10, expected=(ExpectedNode("gpu-001"),)), tmp_path)
    assert main(["fleet", "labels", str(tmp_path)]) == 6
    told = capsys.readouterr()
    assert [line.split()[1:4] for line in told.out.splitlines()] == [
        ["label", "node", "gpu-001"],
        ["taint", "node", "gpu-001"],
    ], "that of gpu-001 is removed"
    assert told.err == "gpu-009 gets no label: not among the expected nodes; REJECTED\n"


def test_a_report_knows_the_expected_nodes_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary(tmp_path / "gpu-001", "gpu-001", "ACCEPTED", "2026-11-22T03:00:00+00:00")
    words = ["fleet", "report", str(tmp_path)]
    assert main(words) == 0
    assert "a node that left no record is not in this report" in capsys.readouterr().out
    assert main([*words, "--nodes=gpu-001,gpu-002"]) == 6
    told = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in told] == ["no result", "accepted", "2 nodes: 1 no result, 1 accepted"]


def test_the_containerfile_and_the_pods_agree_on_the_user() -> None:
    lines = (CHECKOUT / "scripts/Containerfile").read_text(encoding="utf-8")
    user = yaml.safe_load(manifest.JOB.read_text())["template"]["spec"]["securityContext"]["runAsUser"]
    assert re.findall(r"^USER (.*)$", lines, re.MULTILINE) == [f"{user}:{user}"]
    assert shlex.split(re.findall(r"^ENTRYPOINT \[(.*)\]$", lines, re.MULTILINE)[0]) == ["pytest"]


@pytest.mark.slow
def test_the_last_message_of_a_container_is_the_closing_line(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    message.write_text("")
    env = {closing_file.VARIABLE: str(message)}
    ran = as_user.pytest(tmp_path, "--accel-simulate=h100-sxm", "-k", "inventory_node", sku=None, paths=(), env=env)
    assert message.read_text(encoding="utf-8") == ran.closing
