"""Pods: what the templates of all kinds have in common."""

from __future__ import annotations

from typing import Any

from k8s import nodes
from k8s.manifest import Document, present
from k8s.plan import Plan
from k8s.tpus import RESOURCE as TPU

USER = 1000  # of the image
SCRATCH = "/tmp"
CONTAINER = "train"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # Kubernetes puts no token over another mount


def labels(plan: Plan, component: str | None = None) -> dict[str, str]:
    """Returns the labels of a run's objects, or of one of its components.

    Their names: https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels
    """
    common = {
        "app.kubernetes.io/name": "rl",
        "app.kubernetes.io/instance": plan.name,
        "app.kubernetes.io/managed-by": "k8s.generate",
    }
    return common if component is None else {**common, "app.kubernetes.io/component": component}


def metadata(plan: Plan, component: str, name: str | None = None, **more: Any) -> Document:
    """Returns the metadata of an object of the run, which is called as the run where no name is given."""
    return present(name=name or plan.name, namespace=plan.namespace, labels=labels(plan, component), **more)


def resources(cpu: str, memory: str, scratch: str, **accelerators: str) -> Document:
    """Returns requests that are the limits too: an accelerator cannot be shared, and Pods that take no more
    than they asked for are the last to be evicted."""
    amounts = {"cpu": cpu, "memory": memory, "ephemeral-storage": scratch, **accelerators}
    return {"requests": amounts, "limits": amounts}


def training_resources(plan: Plan) -> Document:
    """Returns the resources of the Pod that learns."""
    accelerators = {nodes.GPU: str(plan.gpus)} if plan.gpus else {}
    if plan.tpu is not None:
        accelerators = {TPU: str(plan.tpu.chips_per_host)}
    return resources(plan.cpu, plan.memory, plan.scratch, **accelerators)


def literal(text: str) -> str:
    """Escapes a text that Kubernetes would change: it has variables for `$(NAME)`, and `$` for `$$`."""
    return text.replace("$", "$$")


def container(
    plan: Plan,
    name: str,
    required: Document,
    *,
    args: list[str] | None = None,
    variables: dict[str, str] | None = None,
    secret: str | None = None,
    claim: bool = False,
    read_only_claim: bool = False,
    shared_memory: bool = False,
    without_token: bool = False,
    **more: Any,
) -> Document:
    """Returns a container that can do little harm: no root, no privileges, an image that it cannot change.

    variables: of its environment, after a home and a place for temporary files that can be written to, and
        what was asked for.
    secret: name of one whose keys become variables.
    claim: whether the claim is mounted, where there is one.
    without_token: whether it has no key to the cluster where its Pod has one.
    more: other fields, by Kubernetes' names.
    """
    mounts: list[Document] = [{"name": "scratch", "mountPath": SCRATCH}]
    if shared_memory:
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})
    if without_token:
        mounts.append({"name": "no-token", "mountPath": TOKEN, "readOnly": True})
    if claim and plan.claim is not None:
        read_only = True if read_only_claim else None
        mounts.append(present(name="output", mountPath=plan.mount, readOnly=read_only))
    environment = {"HOME": SCRATCH, "TMPDIR": SCRATCH, **plan.env_vars, **(variables or {})}
    return present(
        name=name,
        image=plan.image,
        imagePullPolicy=plan.image_pull_policy,
        args=None if args is None else [literal(word) for word in args],
        env=[{"name": key, "value": literal(value)} for key, value in environment.items()],
        envFrom=None if secret is None else [{"secretRef": {"name": secret}}],
        resources=required,
        volumeMounts=mounts,
        securityContext={
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        **more,
    )


def template(
    plan: Plan,
    component: str,
    main: Document,
    *,
    beside: Document | None = None,
    restart: str = "Never",
    service_account: str | None = None,
    accelerator: bool = False,
    grace_seconds: int | None = None,
) -> Document:
    """Returns the template of Pods with one container; its volumes are those that are mounted.

    beside: a sidecar container, which starts before and ends after the other.
    service_account: whose rights the Pod has; without one it has no key to the cluster.
    accelerator: whether it goes where the accelerator is, and to the nodes that were asked for.
    """
    has_accelerator = accelerator and (plan.gpus > 0 or plan.tpu is not None)
    sidecars = [] if beside is None else [beside]
    spec = present(
        initContainers=sidecars or None,
        containers=[main],
        restartPolicy=restart,
        terminationGracePeriodSeconds=grace_seconds,
        serviceAccountName=service_account,
        automountServiceAccountToken=service_account is not None,
        imagePullSecrets=None if plan.image_pull_secret is None else [{"name": plan.image_pull_secret}],
        securityContext={
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        nodeSelector=(plan.node_selector or None) if accelerator else None,
        tolerations=nodes.tolerations(plan, has_accelerator) or None,
        affinity={"nodeAffinity": nodes.spot_affinity(plan)},
        volumes=_volumes(plan, [main, *sidecars]),
    )
    return {"metadata": {"labels": labels(plan, component)}, "spec": spec}


def _volumes(plan: Plan, containers: list[Document]) -> list[Document]:
    """Returns what the containers mount; the first one says how large the scratch space is."""
    sources: dict[str, Document] = {
        "scratch": {"emptyDir": {"sizeLimit": containers[0]["resources"]["limits"]["ephemeral-storage"]}},
        "shared-memory": {"emptyDir": {"medium": "Memory"}},
        "no-token": {"emptyDir": {}},
        "output": {"persistentVolumeClaim": {"claimName": plan.claim}},
    }
    mounted = {mount["name"] for container in containers for mount in container["volumeMounts"]}
    return [{"name": name, **source} for name, source in sources.items() if name in mounted]
