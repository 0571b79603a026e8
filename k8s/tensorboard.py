"""TensorBoard on the output of a run, and the claim that holds it."""

from __future__ import annotations

from kubernetes import client

from k8s import pods
from k8s.plan import Plan

PORT = 6006
COMPONENT = "tensorboard"
IMPORTS = 300  # seconds that TensorBoard may take to start: it imports TensorFlow


def name_of(plan: Plan) -> str:
    """Of the Deployment and the Service."""
    return f"{plan.name}-{COMPONENT}"


def deployment(plan: Plan) -> client.V1Deployment:
    """One Pod that shows what all copies write."""
    port = client.V1ContainerPort(name="http", container_port=PORT)
    check = client.V1HTTPGetAction(path="/", port="http")
    container = pods.container(
        plan,
        COMPONENT,
        pods.resources("1", "2Gi", "1Gi"),
        args=["tensorboard", "--logdir", plan.output_dir, "--bind_all", "--port", str(PORT)],
        claim=True,
        read_only_claim=True,
        ports=[port],
        startup_probe=client.V1Probe(http_get=check, period_seconds=5, failure_threshold=IMPORTS // 5),
        readiness_probe=client.V1Probe(http_get=check, period_seconds=10, timeout_seconds=5),
    )
    near = pods.labels(plan, "training") if plan.claim is not None else None
    return client.V1Deployment(
        api_version="apps/v1",
        kind="Deployment",
        metadata=pods.metadata(plan, COMPONENT, name_of(plan)),
        spec=client.V1DeploymentSpec(
            replicas=1,
            # A claim may let only one Pod in: the old one goes first.
            strategy=client.V1DeploymentStrategy(type="Recreate"),
            selector=client.V1LabelSelector(match_labels=pods.labels(plan, COMPONENT)),
            template=pods.template(plan, COMPONENT, container, restart="Always", near=near),
        ),
    )


def service(plan: Plan) -> client.V1Service:
    """Reached from inside the cluster, and by `kubectl port-forward`."""
    return client.V1Service(
        api_version="v1",
        kind="Service",
        metadata=pods.metadata(plan, COMPONENT, name_of(plan)),
        spec=client.V1ServiceSpec(
            type="ClusterIP",
            selector=pods.labels(plan, COMPONENT),
            ports=[client.V1ServicePort(name="http", port=PORT, target_port="http")],
        ),
    )


def claim(plan: Plan) -> client.V1PersistentVolumeClaim:
    """Disk for the output. Where several Pods write, they may be on several nodes."""
    mode = "ReadWriteMany" if plan.shared_claim else "ReadWriteOnce"
    return client.V1PersistentVolumeClaim(
        api_version="v1",
        kind="PersistentVolumeClaim",
        metadata=pods.metadata(plan, "output", plan.claim),
        spec=client.V1PersistentVolumeClaimSpec(
            access_modes=[mode],
            storage_class_name=plan.storage_class,
            resources=client.V1VolumeResourceRequirements(requests={"storage": plan.claim_size}),
        ),
    )
