"""What trains with workers: KubeRay's RayJob with a cluster of its own, or with one that stays.

The learner is the Ray job's process on the head; workers, buffers and other learners are actors of one CPU on
worker Pods. The head offers Ray no CPU, so that none of them is put beside the learner.
"""

from __future__ import annotations

import shlex

from k8s import pods, tensorboard
from k8s.manifest import Document
from k8s.plan import Plan
from k8s.quantities import times
from k8s.variables import STOP_WAIT

API = "ray.io/v1"
VERSION = "2.60.0"  # the least one that k8s/Dockerfile installs; KubeRay wants to know it for a token
CLUSTER_LABEL = "ray.io/cluster"
GROUP = "workers"
OVERHEAD = 1  # of memory of a worker Pod, in units of a worker's: Ray's own processes and its object store
PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}  # of the head
SUBMITTERS = 1000  # Pods that may be lost one after another
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}


def ray_objects(plan: Plan) -> list[Document]:
    """Returns a RayJob; with `keep_cluster` a RayCluster before it, which it is sent to."""
    spec: Document = {
        # It becomes an argument of a Pod, and passes through two shells: one there, one that `ray job submit`
        # quotes for.
        "entrypoint": pods.literal(shlex.join(plan.command)),
        "submissionMode": "K8sJobMode",
        # The submitter follows the job that there is, as often as its Pod is lost; by KubeRay's default of 2
        # the third loss would end the run.
        "submitterConfig": {"backoffLimit": SUBMITTERS},
        "submitterPodTemplate": _submitter(plan),
    }
    job = {"apiVersion": API, "kind": "RayJob", "metadata": pods.metadata(plan, "training"), "spec": spec}
    if not plan.keep_cluster:
        spec |= {
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 0,  # of the cluster, accelerator and all; nothing else goes by it
            "backoffLimit": plan.backoff_limit,
            "rayClusterSpec": _cluster(plan),
        }
        return [job]
    name = f"{plan.name}-ray"
    # KubeRay takes neither backoffLimit nor a time to live for a cluster that is not the job's own.
    spec |= {"shutdownAfterJobFinishes": False, "clusterSelector": {CLUSTER_LABEL: name}}
    metadata = pods.metadata(plan, "ray", name)
    return [{"apiVersion": API, "kind": "RayCluster", "metadata": metadata, "spec": _cluster(plan)}, job]


def worker_pods(plan: Plan) -> tuple[int, int]:
    """Returns the number of worker Pods, and of processes that each has room for."""
    count = -(-plan.processes // plan.workers_per_pod)
    return count, -(-plan.processes // count)


def _cluster(plan: Plan) -> Document:
    count, processes = worker_pods(plan)
    return {
        # Whoever reaches Ray can run anything: KubeRay makes a token, and gives it to the cluster's own Pods.
        "rayVersion": VERSION,
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": False,
        "headGroupSpec": {
            "rayStartParams": {"dashboard-host": "0.0.0.0", "num-cpus": "0"},
            "template": _head(plan),
        },
        "workerGroupSpecs": [
            {
                "groupName": GROUP,
                "replicas": count,
                "minReplicas": count,
                "maxReplicas": count,
                "rayStartParams": {"num-cpus": str(processes)},
                "template": _worker(plan, processes),
            }
        ],
    }


def _head(plan: Plan) -> Document:
    container = pods.container(
        plan,
        "ray-head",
        pods.training_resources(plan),
        # Deleting a RayJob has Ray stop it, which by default kills what has not ended after 3 s.
        variables={**QUIET, STOP_WAIT: str(plan.grace_seconds)},
        secret=plan.env_secret,
        claim=True,
        shared_memory=True,
        lifecycle={"preStop": {"exec": {"command": ["python", "-m", "k8s.stop_learner"]}}},
        ports=[{"name": name, "containerPort": port} for name, port in PORTS.items()],
    )
    return pods.template(
        plan,
        "training",
        container,
        beside=tensorboard.sidecar(plan),
        service_account=plan.service_account,
        accelerator=True,
        grace_seconds=plan.grace_seconds,
    )


def _worker(plan: Plan, processes: int) -> Document:
    container = pods.container(
        plan,
        "ray-worker",
        pods.resources(str(processes), times(plan.worker_memory, processes + OVERHEAD), plan.scratch),
        variables=QUIET,
        secret=plan.env_secret,
        claim=plan.processes_mount,
        shared_memory=True,
    )
    return pods.template(plan, "worker", container, service_account=plan.service_account)


def _submitter(plan: Plan) -> Document:
    """Returns the Pod that sends the command to the head, then follows its output: it has none of the
    trainer's rights."""
    container = pods.container(plan, "ray-job-submitter", pods.resources("500m", "1Gi", "1Gi"))
    return pods.template(plan, "submitter", container)
