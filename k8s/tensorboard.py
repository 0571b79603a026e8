"""TensorBoard on the output of a run, and the claim that holds it."""

from __future__ import annotations

import hashlib
from typing import Any

from kubernetes import client

from k8s import pods
from k8s.plan import Plan

PORT = 6006
COMPONENT = "tensorboard"
OUTPUT = "k8s.generate/output"  # label: which output a Pod shows
IMPORTS = 300  # seconds that TensorBoard may take to start: it imports TensorFlow


def name_of(plan: Plan) -> str:
    """Of the Deployment and the Service."""
    return f"{plan.name}-{COMPONENT}"


def deployment(plan: Plan) -> client.V1Deployment:
    """One Pod that shows what all copies write, with rights of its own: it only reads."""
    check = client.V1HTTPGetAction(path="/", port="http")
    container = _container(
        plan,
        secret=plan.tensorboard_env_secret,
        startup_probe=client.V1Probe(http_get=check, period_seconds=5, failure_threshold=IMPORTS // 5),
        readiness_probe=client.V1Probe(http_get=check, period_seconds=10, timeout_seconds=5),
    )
    template = pods.template(
        plan, COMPONENT, container, restart="Always", service_account=plan.tensorboard_service_account
    )
    # A selector cannot be changed: another run of the same name, whose output is another, is refused instead
    # of shown in place of this one.
    shown = {OUTPUT: hashlib.sha256(plan.output_dir.encode()).hexdigest()[:16]}
    template.metadata.labels.update(shown)
    return client.V1Deployment(
        api_version="apps/v1",
        kind="Deployment",
        metadata=pods.metadata(plan, COMPONENT, name_of(plan)),
        spec=client.V1DeploymentSpec(
            replicas=1,
            # A claim may let only one Pod in: the old one goes first.
            strategy=client.V1DeploymentStrategy(type="Recreate"),
            selector=client.V1LabelSelector(match_labels={**pods.labels(plan, COMPONENT), **shown}),
            template=template,
        ),
    )


def sidecar(plan: Plan) -> client.V1Container | None:
    """TensorBoard in the Pod that trains, where it belongs there; training does not wait for it."""
    if plan.tensorboard != "beside":
        return None
    return _container(plan, without_token=plan.service_account is not None, restart_policy="Always")


def _container(plan: Plan, **more: Any) -> client.V1Container:
    return pods.container(
        plan,
        COMPONENT,
        pods.resources("1", "2Gi", "1Gi"),
        args=["tensorboard", "--logdir", plan.output_dir, "--bind_all", "--port", str(PORT)],
        claim=True,
        read_only_claim=True,
        ports=[client.V1ContainerPort(name="http", container_port=PORT)],
        **more,
    )


def service(plan: Plan) -> client.V1Service:
    """Reached from inside the cluster, and by `kubectl port-forward`."""
    component = "training" if plan.tensorboard == "beside" else COMPONENT
    return client.V1Service(
        api_version="v1",
        kind="Service",
        metadata=pods.metadata(plan, COMPONENT, name_of(plan)),
        spec=client.V1ServiceSpec(
            type="ClusterIP",
            selector=pods.labels(plan, component),
            # A number: older clusters find no names of ports in sidecars.
            ports=[client.V1ServicePort(name="http", port=PORT, target_port=PORT)],
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
