"""What trains without workers: a Job, an Indexed Job of copies, a JobSet on a TPU slice of many machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubernetes import client

from k8s import pods, tensorboard
from k8s.plan import Plan
from rl.heartbeat import VARIABLE
from rl.systems.hosts import CONTROL_PORT, MESH_PORT, SERVER_PORT

IN_VAIN = (2, 3)  # exit codes of train.py after which the same command fails again: wrong input, NaN
ASKED_TO_STOP = 143  # it has saved, on SIGTERM
HEARTBEAT = f"{pods.SCRATCH}/heartbeat"  # a file; not in the run's folder, which may be remote
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


def job(plan: Plan) -> client.V1Job:
    """A Job; where there are copies, an Indexed one, whose index is the copy's."""
    copies = plan.kind == "copies"
    spec = client.V1JobSpec(
        template=_template(plan),
        ttl_seconds_after_finished=plan.ttl_seconds,
        # Only one process may write a run: the next Pod waits until the last one has ended.
        pod_replacement_policy="Failed",
        pod_failure_policy=_failure_policy("FailIndex" if copies else "FailJob"),
    )
    if copies:
        spec.completion_mode = "Indexed"
        spec.completions, spec.parallelism = plan.copies, plan.copies_at_once
        spec.backoff_limit_per_index = plan.backoff_limit
    else:
        spec.backoff_limit = plan.backoff_limit
    return client.V1Job(
        api_version="batch/v1", kind="Job", metadata=pods.metadata(plan, "training"), spec=spec
    )


def jobset(plan: Plan) -> dict[str, Any]:
    """A JobSet (0.10 or later) of one Indexed Job with a Pod for each machine of the slice.

    The machines compute together: all end with one exit code, and when one is lost, all start again from the
    last checkpoint. So every failure fails the Job, and the JobSet tells by the Job's message which ones
    count: a machine that is lost without notice does, since the others end before Kubernetes knows why.
    Google Kubernetes Engine tells each container its place (TPU_WORKER_ID, TPU_WORKER_HOSTNAMES) where a Job
    is Indexed, runs several Pods at once, gives them a subdomain and asks for TPUs (Google's words, quoted by
    https://github.com/abatilo/gke-tpu-env-injector).
    """
    assert plan.tpu is not None, "a JobSet is for a TPU slice"
    spec = client.V1JobSpec(
        template=_template(plan),
        completion_mode="Indexed",
        completions=plan.tpu.hosts,
        parallelism=plan.tpu.hosts,
        backoff_limit=0,
        pod_replacement_policy="Failed",
        pod_failure_policy=client.V1PodFailurePolicy(
            rules=[
                _on_exit_code(IN_VAIN, "FailJob"),
                _on_disruption("FailJob"),
                _on_exit_code([ASKED_TO_STOP], "FailJob"),
            ]
        ),
    )

    def rule(name: str, action: str, *messages: str) -> dict[str, Any]:
        return {
            "name": name,
            "action": action,
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": list(messages),
        }

    return {
        "apiVersion": JOBSET,
        "kind": "JobSet",
        # One slice is one node pool; all Pods go to the same one.
        "metadata": plain(pods.metadata(plan, "training", annotations={EXCLUSIVE: NODE_POOL})),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": plan.name},
            "failurePolicy": {
                "maxRestarts": plan.backoff_limit,
                "rules": [
                    rule("inVain", "FailJobSet", *(f"exit code {code} matching" for code in IN_VAIN)),
                    rule("lostNode", "RestartJobSetAndIgnoreMaxRestarts", "condition DisruptionTarget"),
                    rule(
                        "stopped", "RestartJobSetAndIgnoreMaxRestarts", f"exit code {ASKED_TO_STOP} matching"
                    ),
                ],
            },
            "ttlSecondsAfterFinished": plan.ttl_seconds,
            "replicatedJobs": [{"name": HOSTS, "replicas": 1, "template": {"spec": plain(spec)}}],
        },
    }


def plain(model: Any) -> Any:
    """A model as YAML and JSON have it."""
    return client.ApiClient().sanitize_for_serialization(model)


def _template(plan: Plan) -> client.V1PodTemplateSpec:
    ports = None
    if plan.kind == "hosts":
        ports = [client.V1ContainerPort(name=name, container_port=port) for name, port in SLICE_PORTS.items()]
    train = pods.container(
        plan,
        pods.CONTAINER,
        pods.training_resources(plan),
        args=list(plan.command),
        secret=plan.env_secret,
        claim=True,
        ports=ports,
    )
    if plan.kind != "hosts" and plan.hang_seconds:  # of a slice's machines all but one only serve
        _watch(train, plan.hang_seconds)
    return pods.template(
        plan,
        "training",
        train,
        beside=tensorboard.sidecar(plan),
        service_account=plan.service_account,
        accelerator=True,
        grace_seconds=plan.grace_seconds,
    )


def _watch(container: client.V1Container, seconds: int) -> None:
    """Ends a container whose run makes no progress for so many seconds, or has not begun by then."""
    container.env.append(client.V1EnvVar(name=VARIABLE, value=HEARTBEAT))
    command = ["python", "-m", "rl.heartbeat", HEARTBEAT, "--seconds", str(seconds)]
    look = client.V1ExecAction(command=command)
    period = 30  # each look is a Python that starts; on a busy node that may take a while
    often = {"_exec": look, "period_seconds": period, "timeout_seconds": period}
    container.startup_probe = client.V1Probe(**often, failure_threshold=-(-seconds // period))
    # Killed at once: the exit code 143 of one that was asked to stop would not count as a failure.
    container.liveness_probe = client.V1Probe(
        **often, failure_threshold=3, termination_grace_period_seconds=1
    )


def _failure_policy(in_vain: str) -> client.V1PodFailurePolicy:
    """What would fail again is not tried again; a Pod that was taken away is, and does not count."""
    rules = [
        _on_exit_code(IN_VAIN, in_vain),
        _on_disruption("Ignore"),
        _on_exit_code([ASKED_TO_STOP], "Ignore"),  # a node that shuts down does not always say so
    ]
    return client.V1PodFailurePolicy(rules=rules)


def _on_exit_code(codes: Sequence[int], action: str) -> client.V1PodFailurePolicyRule:
    requirement = client.V1PodFailurePolicyOnExitCodesRequirement(
        container_name=pods.CONTAINER, operator="In", values=list(codes)
    )
    return client.V1PodFailurePolicyRule(action=action, on_exit_codes=requirement)


def _on_disruption(action: str) -> client.V1PodFailurePolicyRule:
    """Pre-emption, eviction, a drained or lost node:
    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions"""
    condition = client.V1PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    return client.V1PodFailurePolicyRule(action=action, on_pod_conditions=[condition])
