"""Kubernetes manifests of a run on many nodes: an indexed Job, or a CronJob of it. Pure.

A manifest is data that PyYAML writes, never text that is put together. The pods run unprivileged: the kernel log, which
only a privileged one could read, is exported by others, such as node-problem-detector.
"""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import yaml

from pytest_accel.core import closing_file

Manifest = dict[str, Any]

PREFIX = "pytest-accel"
"""The prefix of our labels and taints."""
REJECTED_TAINT = f"{PREFIX}/rejected"
ACCEPTANCE_TAINT = f"{PREFIX}/acceptance"
"""The taint that an owner puts on nodes that were not accepted yet, so that nothing but this runs there."""
HOSTNAME = "kubernetes.io/hostname"
JOB = Path(__file__).with_name("job.yaml")
"""What is the same in the spec of every Job."""
LATEST_SECONDS = 3600
"""Seconds by which a nightly Job may start late; it is left out else."""
DEADLINE = 6 * 3600.0
"""Seconds after which a Job is ended. A pod that hangs in the driver would hold its devices for ever, and one that
never starts, since its node is gone, hold up all later nights."""
LONGEST_NAME = 46
"""Characters of the longest name, to which the time is added: a Job and its pods have names of at most 63."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def is_name(text: str) -> bool:
    """Return True for a name that a Job and a CronJob may have."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


def is_node(text: str) -> bool:
    """Return True for a name that a node may have."""
    return _NODE.fullmatch(text) is not None


def manifest(wanted: Namespace, stamp: str) -> Manifest:
    """Return the Job, or the CronJob if a schedule is wanted, given the options of `fleet manifest`.

    The name of a Job ends with `stamp`, another one for each manifest: two Jobs cannot have one name.
    """
    job = _job(wanted)
    if not wanted.cron:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": _metadata(wanted, f"{wanted.name}-{stamp}"),
            "spec": job,
        }
    spec = {
        "schedule": wanted.cron,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": LATEST_SECONDS,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 7,
        "jobTemplate": {
            "metadata": {"labels": _labels(wanted)},
            "spec": job,
        },
    }
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _metadata(wanted, wanted.name), "spec": spec}


def _metadata(wanted: Namespace, name: str) -> Manifest:
    namespace = {"namespace": wanted.namespace} if wanted.namespace else {}
    return {"name": name, **namespace, "labels": _labels(wanted)}


def _labels(wanted: Namespace) -> dict[str, str]:
    return {"app.kubernetes.io/name": PREFIX, "app.kubernetes.io/instance": wanted.name}


def _job(wanted: Namespace) -> Manifest:
    """Return the spec of a Job with one pod a node."""
    job: Manifest = yaml.safe_load(JOB.read_text(encoding="utf-8"))
    pods = len(wanted.nodes) or wanted.count
    job.update(completions=pods, parallelism=pods, activeDeadlineSeconds=int(wanted.deadline))
    job["template"]["metadata"] = {"labels": _labels(wanted)}
    pod = job["template"]["spec"]
    pod.update(affinity=_affinity(wanted), tolerations=_tolerations(wanted))
    if wanted.priority:
        pod["priorityClassName"] = wanted.priority
    if wanted.pull_secret:
        pod["imagePullSecrets"] = [{"name": wanted.pull_secret}]
    if wanted.selector:
        pod["nodeSelector"] = dict(wanted.selector)
    claim, path = {"claimName": wanted.claim}, {"path": wanted.host_path, "type": "Directory"}
    results = {"persistentVolumeClaim": claim} if wanted.claim else {"hostPath": path}
    pod["volumes"].append({"name": "results", **results})
    (container,) = pod["containers"]
    container["image"] = wanted.image
    container["args"] += [f"--accel-sku={wanted.sku}", f"--accel-level={wanted.level}"]
    container["args"] += [f"--accel-time-limit={wanted.time_limit}"] if wanted.time_limit else []
    container["env"].append({"name": closing_file.VARIABLE, "value": "/dev/termination-log"})
    requests = Manifest(cpu=wanted.cpu, memory=wanted.memory)
    container["resources"] = {"requests": requests, "limits": {wanted.resource: str(wanted.gpus)}}
    return job


def _affinity(wanted: Namespace) -> Manifest:
    """Return the rule of one pod a node, and of the nodes that were named."""
    alike = {"labelSelector": {"matchLabels": _labels(wanted)}, "topologyKey": HOSTNAME}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alike]}}
    if not wanted.nodes:
        return apart
    named = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(wanted.nodes)}]}
    on = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    return {"nodeAffinity": on, **apart}


def _tolerations(wanted: Namespace) -> list[Manifest]:
    """Return the taints that do not keep a pod away: those of accelerators, of acceptance, and of a rejection.

    A node that is cordoned may be in repair: it is measured where somebody names it, and not every night.
    """
    keys = [wanted.resource, ACCEPTANCE_TAINT, REJECTED_TAINT]
    keys += ["node.kubernetes.io/unschedulable"] if wanted.nodes and not wanted.cron else []
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
