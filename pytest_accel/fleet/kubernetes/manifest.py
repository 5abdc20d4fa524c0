"""Kubernetes manifests of a run on many nodes: an indexed Job, or a CronJob of it. Pure.

A manifest is data that PyYAML writes, never text that is put together. The pods run unprivileged: the kernel log, which
only a privileged one could read, is exported by others, such as node-problem-detector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
CONTAINER = "accel"
RESULTS = "/results"
USER = 10001
"""The user and group of the pods, as in scripts/Containerfile."""
SHM = "2Gi"
"""The size of /dev/shm, of which NCCL needs a gigabyte. Kubernetes gives 64 MB."""
GRACE_SECONDS = 60
"""Seconds between SIGTERM and SIGKILL, in which a run completes its record."""
KEPT_SECONDS = 7 * 24 * 3600
"""Seconds for which a finished Job, with its pods and their logs, is kept."""
LATEST_SECONDS = 3600
"""Seconds by which a nightly Job may start late; it is left out else."""
DEADLINE = 6 * 3600.0
"""Seconds after which a Job is ended. A pod that hangs in the driver would hold its devices for ever, and one that
never starts, since its node is gone, hold up all later nights."""
LONGEST_NAME = 46
"""Characters of the longest name, to which the time is added: a Job and its pods have names of at most 63."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class ManifestRequest:
    """What a manifest is made for. `nodes` are names, empty for any `count` nodes that have the resource."""

    image: str
    sku: str
    level: str
    nodes: tuple[str, ...]
    count: int
    gpus: int
    resource: str = "nvidia.com/gpu"
    name: str = "accel"
    namespace: str = ""
    cron: str = ""
    claim: str | None = None
    host_path: str | None = None
    selector: Sequence[tuple[str, str]] = ()
    time_limit: str | None = None
    deadline: float = DEADLINE
    cpu: str = "8"
    memory: str = "32Gi"
    """Processors and memory that a pod requests: a pod without requests is the first to be evicted."""
    priority: str | None = None
    """The name of the PriorityClass."""
    pull_secret: str | None = None
    stamp: str = ""
    """The end of the name of a Job, another one for each manifest: two Jobs cannot have one name."""


def is_name(text: str) -> bool:
    """Return True for a name that a Job and a CronJob may have."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


def is_node(text: str) -> bool:
    """Return True for a name that a node may have."""
    return _NODE.fullmatch(text) is not None


def text(manifests: Sequence[Manifest]) -> str:
    """Return manifests as one YAML file."""
    return yaml.safe_dump_all(manifests, sort_keys=False, width=120)


def manifest(wanted: ManifestRequest) -> Manifest:
    """Return the Job, or the CronJob if a schedule is wanted."""
    job = _job(wanted)
    if not wanted.cron:
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(wanted), "spec": job}
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
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _metadata(wanted), "spec": spec}


def _metadata(wanted: ManifestRequest) -> Manifest:
    namespace = {"namespace": wanted.namespace} if wanted.namespace else {}
    stamp = f"-{wanted.stamp}" if wanted.stamp and not wanted.cron else ""
    return {"name": f"{wanted.name}{stamp}", **namespace, "labels": _labels(wanted)}


def _labels(wanted: ManifestRequest) -> dict[str, str]:
    return {"app.kubernetes.io/name": PREFIX, "app.kubernetes.io/instance": wanted.name}


def _job(wanted: ManifestRequest) -> Manifest:
    """Return the spec of a Job with one pod a node, each of which fails by itself and is never tried again.

    A pod that Kubernetes itself ends, such as for a drain, does not count as failed.
    """
    pods = len(wanted.nodes) or wanted.count
    return {
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        "backoffLimitPerIndex": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    "action": "FailIndex",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [1]},
                },
            ]
        },
        "activeDeadlineSeconds": int(wanted.deadline),
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {"metadata": {"labels": _labels(wanted)}, "spec": _pod(wanted)},
    }


def _pod(wanted: ManifestRequest) -> Manifest:
    context = {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {**context, "seccompProfile": {"type": "RuntimeDefault"}},
        **({"priorityClassName": wanted.priority} if wanted.priority else {}),
        **({"imagePullSecrets": [{"name": wanted.pull_secret}]} if wanted.pull_secret else {}),
        **({"nodeSelector": dict(wanted.selector)} if wanted.selector else {}),
        "affinity": _affinity(wanted),
        "tolerations": _tolerations(wanted),
        "containers": [_container(wanted)],
        "volumes": [each["volume"] for each in _volumes(wanted)],
    }


def _affinity(wanted: ManifestRequest) -> Manifest:
    """Return the rule of one pod a node, and of the nodes that were named."""
    alike = {"labelSelector": {"matchLabels": _labels(wanted)}, "topologyKey": HOSTNAME}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alike]}}
    if not wanted.nodes:
        return apart
    named = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(wanted.nodes)}]}
    on = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    return {"nodeAffinity": on, **apart}


def _tolerations(wanted: ManifestRequest) -> list[Manifest]:
    """Return the taints that do not keep a pod away: those of accelerators, of acceptance, and of a rejection.

    A node that is cordoned may be in repair: it is measured where somebody names it, and not every night.
    """
    keys = [wanted.resource, ACCEPTANCE_TAINT, REJECTED_TAINT]
    keys += ["node.kubernetes.io/unschedulable"] if wanted.nodes and not wanted.cron else []
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]


def _container(wanted: ManifestRequest) -> Manifest:
    """Return the container. Its root is read-only; pytest needs no cache."""
    limit = [f"--accel-time-limit={wanted.time_limit}"] if wanted.time_limit else []
    return {
        "name": CONTAINER,
        "image": wanted.image,
        "command": ["pytest"],
        "args": [
            f"--accel-sku={wanted.sku}",
            f"--accel-level={wanted.level}",
            f"--accel-output={RESULTS}/$(JOB_NAME)",
            *limit,
            "-p",
            "no:cacheprovider",
        ],
        "env": [
            _field("NODE_NAME", "spec.nodeName"),
            _field("JOB_NAME", "metadata.labels['batch.kubernetes.io/job-name']"),
            {"name": closing_file.VARIABLE, "value": "/dev/termination-log"},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108  the pod's own
        ],
        "workingDir": "/tmp",  # noqa: S108
        "resources": {
            "requests": Manifest(cpu=wanted.cpu, memory=wanted.memory),
            "limits": {wanted.resource: str(wanted.gpus)},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [each["mount"] for each in _volumes(wanted)],
    }


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _volumes(wanted: ManifestRequest) -> list[Mapping[str, Manifest]]:
    """Return every volume with its mount."""
    shm = _volume("shm", "/dev/shm", {"emptyDir": {"medium": "Memory", "sizeLimit": SHM}})  # noqa: S108
    tmp = _volume("tmp", "/tmp", {"emptyDir": {}})  # noqa: S108
    if wanted.claim:
        results = _volume("results", RESULTS, {"persistentVolumeClaim": {"claimName": wanted.claim}})
    else:
        results = _volume("results", RESULTS, {"hostPath": {"path": wanted.host_path, "type": "Directory"}})
    return [shm, tmp, results]


def _volume(name: str, path: str, source: Manifest) -> dict[str, Manifest]:
    return {"volume": {"name": name, **source}, "mount": {"name": name, "mountPath": path}}
