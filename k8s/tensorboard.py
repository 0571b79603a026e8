"""TensorBoard on the output of a run, and the claim that holds it."""

from __future__ import annotations

import hashlib
from typing import Any

from k8s import pods
from k8s.manifest import Document, present
from k8s.plan import Plan

PORT = 6006
COMPONENT = "tensorboard"
OUTPUT = "k8s.generate/output"  # label: which output a Pod shows
IMPORTS = 300  # seconds that TensorBoard may take to start: it imports TensorFlow


def name_of(plan: Plan) -> str:
    """Returns the name of the Deployment and the Service."""
    return f"{plan.name}-{COMPONENT}"


def deployment(plan: Plan) -> Document:
    """Returns the Deployment of a Pod that shows what all copies write; its rights are its own, to read."""
    check = {"httpGet": {"path": "/", "port": "http"}}
    container = _container(
        plan,
        secret=plan.tensorboard_env_secret,
        startupProbe={**check, "periodSeconds": 5, "failureThreshold": IMPORTS // 5},
        readinessProbe={**check, "periodSeconds": 10, "timeoutSeconds": 5},
    )
    template = pods.template(
        plan, COMPONENT, container, restart="Always", service_account=plan.tensorboard_service_account
    )
    # A selector cannot be changed: another run of the same name, whose output is another, is refused instead
    # of shown in place of this one.
    shown = {
        **pods.labels(plan, COMPONENT),
        OUTPUT: hashlib.sha256(plan.output_dir.encode()).hexdigest()[:16],
    }
    template["metadata"]["labels"] = shown
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pods.metadata(plan, COMPONENT, name_of(plan)),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # a claim may let only one Pod in: the old one goes first
            "selector": {"matchLabels": shown},
            "template": template,
        },
    }


def sidecar(plan: Plan) -> Document | None:
    """Returns TensorBoard's container in the Pod that trains, for which training does not wait; None where
    TensorBoard is not there."""
    if plan.tensorboard != "beside":
        return None
    return _container(plan, without_token=plan.service_account is not None, restartPolicy="Always")


def _container(plan: Plan, **more: Any) -> Document:
    return pods.container(
        plan,
        COMPONENT,
        pods.resources("1", "2Gi", "1Gi"),
        args=["tensorboard", "--logdir", plan.output_dir, "--bind_all", "--port", str(PORT)],
        claim=True,
        read_only_claim=True,
        ports=[{"name": "http", "containerPort": PORT}],
        **more,
    )


def service(plan: Plan) -> Document:
    """Returns the Service by which TensorBoard is reached from inside the cluster, and by
    `kubectl port-forward`."""
    component = "training" if plan.tensorboard == "beside" else COMPONENT
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pods.metadata(plan, COMPONENT, name_of(plan)),
        "spec": {
            "type": "ClusterIP",
            "selector": pods.labels(plan, component),
            # A number: older clusters find no names of ports in sidecars.
            "ports": [{"name": "http", "port": PORT, "targetPort": PORT}],
        },
    }


def claim(plan: Plan) -> Document:
    """Returns the claim of disk for the output. Where several Pods write, they may be on several nodes."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": pods.metadata(plan, "output", plan.claim),
        "spec": present(
            accessModes=["ReadWriteMany" if plan.shared_claim else "ReadWriteOnce"],
            storageClassName=plan.storage_class,
            resources={"requests": {"storage": plan.claim_size}},
        ),
    }
