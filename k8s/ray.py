"""What trains with workers: KubeRay's RayJob with a cluster of its own, or with one that stays.

The learner is the Ray job's process on the head; workers, buffers and other learners are actors of one CPU on
worker Pods. The head offers Ray no CPU, so that none of them is put beside the learner.
"""

from __future__ import annotations

import shlex
from typing import Any

from kubernetes import client

from k8s import pods, tensorboard
from k8s.jobs import plain
from k8s.plan import Plan
from k8s.quantities import times

API = "ray.io/v1"
VERSION = "2.60.0"  # the least one that k8s/Dockerfile installs; KubeRay wants to know it for a token
CLUSTER_LABEL = "ray.io/cluster"
GROUP = "workers"
OVERHEAD = 1  # of memory of a worker Pod, in units of a worker's: Ray's own processes and its object store


def ray_objects(plan: Plan) -> list[dict[str, Any]]:
    """A RayJob; with `keep_cluster` a RayCluster before it, which it is sent to."""
    spec: dict[str, Any] = {
        # It becomes an argument of a Pod, and passes through two shells: one there, one that `ray job submit`
        # quotes for.
        "entrypoint": pods.literal(shlex.join(plan.command)),
        "submissionMode": "K8sJobMode",
        "submitterPodTemplate": plain(_submitter(plan)),
    }
    head = {"apiVersion": API, "kind": "RayJob", "metadata": plain(pods.metadata(plan, "training"))}
    if not plan.keep_cluster:
        spec |= {
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": plan.ttl_seconds,
            "backoffLimit": plan.backoff_limit,
            "rayClusterSpec": _cluster(plan),
        }
        return [{**head, "spec": spec}]
    name = f"{plan.name}-ray"
    # KubeRay takes neither backoffLimit nor a time to live for a cluster that is not the job's own.
    spec |= {"shutdownAfterJobFinishes": False, "clusterSelector": {CLUSTER_LABEL: name}}
    cluster = {
        "apiVersion": API,
        "kind": "RayCluster",
        "metadata": plain(pods.metadata(plan, "ray", name)),
        "spec": _cluster(plan),
    }
    return [cluster, {**head, "spec": spec}]


def worker_pods(plan: Plan) -> tuple[int, int]:
    """Number of worker Pods, and of processes that each has room for."""
    count = -(-plan.processes // plan.workers_per_pod)
    return count, -(-plan.processes // count)


def _cluster(plan: Plan) -> dict[str, Any]:
    count, each = worker_pods(plan)
    return {
        # Whoever reaches Ray can run anything: KubeRay makes a token, and gives it to the cluster's own Pods.
        "rayVersion": VERSION,
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": False,
        "headGroupSpec": {
            "rayStartParams": {"dashboard-host": "0.0.0.0", "num-cpus": "0"},
            "template": plain(_head(plan)),
        },
        "workerGroupSpecs": [
            {
                "groupName": GROUP,
                "replicas": count,
                "minReplicas": count,
                "maxReplicas": count,
                "rayStartParams": {"num-cpus": str(each)},
                "template": plain(_worker(plan, each)),
            }
        ],
    }


def _head(plan: Plan) -> client.V1PodTemplateSpec:
    stop = client.V1LifecycleHandler(_exec=client.V1ExecAction(command=["python", "-m", "k8s.stop_learner"]))
    container = pods.container(
        plan,
        "ray-head",
        pods.training_resources(plan),
        secret=plan.env_secret,
        claim=True,
        shared_memory=True,
        lifecycle=client.V1Lifecycle(pre_stop=stop),
        ports=[
            client.V1ContainerPort(name="gcs-server", container_port=6379),
            client.V1ContainerPort(name="dashboard", container_port=8265),
            client.V1ContainerPort(name="client", container_port=10001),
        ],
    )
    return pods.template(
        plan,
        "training",
        _quiet(container),
        beside=tensorboard.sidecar(plan),
        service_account=plan.service_account,
        accelerator=True,
        grace_seconds=plan.grace_seconds,
    )


def _worker(plan: Plan, processes: int) -> client.V1PodTemplateSpec:
    required = pods.resources(str(processes), times(plan.worker_memory, processes + OVERHEAD), plan.scratch)
    container = pods.container(
        plan,
        "ray-worker",
        required,
        secret=plan.env_secret,
        claim=plan.processes_mount,
        shared_memory=True,
    )
    return pods.template(plan, "worker", _quiet(container), service_account=plan.service_account)


def _submitter(plan: Plan) -> client.V1PodTemplateSpec:
    """Sends the command to the head, then follows its output: takes none of the trainer's rights."""
    required = pods.resources("500m", "1Gi", "1Gi")
    return pods.template(plan, "submitter", pods.container(plan, "ray-job-submitter", required))


def _quiet(container: client.V1Container) -> client.V1Container:
    container.env.append(client.V1EnvVar(name="RAY_USAGE_STATS_ENABLED", value="0"))
    return container
