"""What trains without workers: a Job, an Indexed Job of copies, a JobSet on a TPU slice of many machines."""

from __future__ import annotations

from collections.abc import Sequence

from k8s import pods, tensorboard
from k8s.manifest import Document
from k8s.plan import Plan
from rl.heartbeat import START, VARIABLE
from rl.systems.slice.hosts import CONTROL_PORT, MESH_PORT, SERVER_PORT

IN_VAIN = (2, 3)  # exit codes of train.py after which the same command fails again: wrong input, NaN
ASKED_TO_STOP = 143  # it has saved, on SIGTERM
HEARTBEAT = f"{pods.SCRATCH}/heartbeat"  # a file; not in the run's folder, which may be remote
LOOK = 30  # seconds between two looks there, each a Python that starts: on a busy node that may take a while
LATER = 4  # looks that a run which has not begun has to end by itself
HOSTS = "hosts"
JOBSET = "jobset.x-k8s.io/v1alpha2"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_POOL = "cloud.google.com/gke-nodepool"
# What the machines of a slice reach each other by. 8471 is libtpu's, too: the port of the "slice builder" in
# src/xpk/core of Google's xpk. Names say what a port is for; a NetworkPolicy has to let all of them through.
SLICE_PORTS = {
    "tpu-server": SERVER_PORT,
    "tpu-slice": 8471,
    "tpu-mesh": MESH_PORT,
    "tpu-control": CONTROL_PORT,
}


def job(plan: Plan) -> Document:
    """Returns a Job; where there are copies, an Indexed one, whose index is the copy's."""
    if plan.kind == "copies":
        attempts = {
            "completionMode": "Indexed",
            "completions": plan.copies,
            "parallelism": plan.copies_at_once,
            "backoffLimitPerIndex": plan.backoff_limit,
            "podFailurePolicy": _failure_policy("FailIndex", "Ignore"),
        }
    else:
        attempts = {
            "backoffLimit": plan.backoff_limit,
            "podFailurePolicy": _failure_policy("FailJob", "Ignore"),
        }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pods.metadata(plan, "training"),
        "spec": {
            **attempts,
            # Only one process may write a run: the next Pod waits until the last one has ended.
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": plan.ttl_seconds,
            "template": _template(plan),
        },
    }


def jobset(plan: Plan) -> Document:
    """Returns a JobSet (0.10 or later) of one Indexed Job with a Pod for each machine of the slice.

    The machines compute together: all end with one exit code, and when one is lost, all start again from the
    last checkpoint. So every failure fails the Job, and the JobSet tells by the Job's message which ones
    count: a machine that is lost without notice does, since the others end before Kubernetes knows why.
    Google Kubernetes Engine tells each container its place (TPU_WORKER_ID, TPU_WORKER_HOSTNAMES) where a Job
    is Indexed, runs several Pods at once, gives them a subdomain and asks for TPUs (Google's words, quoted by
    https://github.com/abatilo/gke-tpu-env-injector).
    """
    assert plan.tpu is not None, "a JobSet is for a TPU slice"
    machines = {
        "completionMode": "Indexed",
        "completions": plan.tpu.hosts,
        "parallelism": plan.tpu.hosts,
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": _failure_policy("FailJob", "FailJob"),
        "template": _template(plan),
    }
    again = "RestartJobSetAndIgnoreMaxRestarts"
    return {
        "apiVersion": JOBSET,
        "kind": "JobSet",
        # One slice is one node pool; all Pods go to the same one.
        "metadata": pods.metadata(plan, "training", annotations={EXCLUSIVE: NODE_POOL}),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": plan.name},
            "failurePolicy": {
                "maxRestarts": plan.backoff_limit,
                "rules": [
                    _on_message("inVain", "FailJobSet", *(f"exit code {code} matching" for code in IN_VAIN)),
                    _on_message("lostNode", again, "condition DisruptionTarget"),
                    _on_message("stopped", again, f"exit code {ASKED_TO_STOP} matching"),
                ],
            },
            "ttlSecondsAfterFinished": plan.ttl_seconds,
            "replicatedJobs": [{"name": HOSTS, "replicas": 1, "template": {"spec": machines}}],
        },
    }


def _on_message(name: str, action: str, *patterns: str) -> Document:
    """Returns a JobSet's rule for a Job whose podFailurePolicy has failed it with one of these messages."""
    return {
        "name": name,
        "action": action,
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": list(patterns),
    }


def _template(plan: Plan) -> Document:
    more: Document = {}
    if plan.kind == "hosts":  # of a slice's machines all but one only serve: none is watched
        more["ports"] = [{"name": name, "containerPort": port} for name, port in SLICE_PORTS.items()]
    elif plan.hang_seconds:
        variables = {VARIABLE: HEARTBEAT, START: str(plan.hang_seconds)}
        more = {"variables": variables, **_probes(plan.hang_seconds)}
    train = pods.container(
        plan,
        pods.CONTAINER,
        pods.training_resources(plan),
        args=list(plan.command),
        secret=plan.env_secret,
        claim=True,
        **more,
    )
    return pods.template(
        plan,
        "training",
        train,
        beside=tensorboard.sidecar(plan),
        service_account=plan.service_account,
        accelerator=True,
        grace_seconds=plan.grace_seconds,
    )


def _probes(seconds: int) -> Document:
    """Returns what ends a container whose run makes no progress, or has not begun, for so many seconds.

    One that has not begun ends by itself (`rl.heartbeat.limit_start`): what the probe sends at that time ends
    the process with 143, which does not count as a failure. The probe is for one that cannot even do that.
    """
    command = ["python", "-m", "rl.heartbeat", HEARTBEAT, "--seconds", str(seconds)]
    look = {"exec": {"command": command}, "periodSeconds": LOOK, "timeoutSeconds": LOOK}
    return {
        "startupProbe": {**look, "failureThreshold": -(-seconds // LOOK) + LATER},
        # Killed at once: the exit code 143 of one that was asked to stop would not count as a failure.
        "livenessProbe": {**look, "failureThreshold": 3, "terminationGracePeriodSeconds": 1},
    }


def _failure_policy(in_vain: str, taken_away: str) -> Document:
    """Returns a podFailurePolicy: what is done about a Pod that would fail again, and about one that was
    pre-empted, evicted, or whose node was drained or lost
    (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions)."""
    lost = {"type": "DisruptionTarget", "status": "True"}
    return {
        "rules": [
            _on_exit_code(IN_VAIN, in_vain),
            {"action": taken_away, "onPodConditions": [lost]},
            _on_exit_code([ASKED_TO_STOP], taken_away),  # a node that shuts down does not always say so
        ]
    }


def _on_exit_code(codes: Sequence[int], action: str) -> Document:
    codes_of = {"containerName": pods.CONTAINER, "operator": "In", "values": list(codes)}
    return {"action": action, "onExitCodes": codes_of}
