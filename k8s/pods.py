"""Pods: what the templates of all kinds have in common."""

from __future__ import annotations

from kubernetes import client

from k8s import nodes
from k8s.plan import Plan
from k8s.tpus import RESOURCE as TPU

USER = 1000  # of the image
SCRATCH = "/tmp"
CONTAINER = "train"


def labels(plan: Plan, component: str | None = None) -> dict[str, str]:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels"""
    found = {
        "app.kubernetes.io/name": "rl",
        "app.kubernetes.io/instance": plan.name,
        "app.kubernetes.io/managed-by": "k8s.generate",
    }
    return found if component is None else {**found, "app.kubernetes.io/component": component}


def metadata(plan: Plan, component: str, name: str | None = None, **more: object) -> client.V1ObjectMeta:
    """Of an object of the run."""
    return client.V1ObjectMeta(
        name=name or plan.name, namespace=plan.namespace, labels=labels(plan, component), **more
    )


def resources(cpu: str, memory: str, scratch: str, **accelerators: str) -> client.V1ResourceRequirements:
    """Requests that are the limits too: an accelerator cannot be shared, and Pods that take no more than they
    asked for are the last to be evicted."""
    amounts = {"cpu": cpu, "memory": memory, "ephemeral-storage": scratch, **accelerators}
    return client.V1ResourceRequirements(requests=amounts, limits=dict(amounts))


def training_resources(plan: Plan) -> client.V1ResourceRequirements:
    """Of the Pod that learns."""
    accelerators = {nodes.GPU: str(plan.gpus)} if plan.gpus else {}
    if plan.tpu is not None:
        accelerators = {TPU: str(plan.tpu.chips_per_host)}
    return resources(plan.cpu, plan.memory, plan.scratch, **accelerators)


def literal(text: str) -> str:
    """Escapes a text that Kubernetes would change: it has variables for `$(NAME)`, and `$` for `$$`."""
    return text.replace("$", "$$")


def environment(plan: Plan) -> list[client.V1EnvVar]:
    """A home and a place for temporary files that can be written to, and what was asked for."""
    found = {"HOME": SCRATCH, "TMPDIR": SCRATCH, **plan.env_vars}
    return [client.V1EnvVar(name=name, value=literal(value)) for name, value in found.items()]


def container(
    plan: Plan,
    name: str,
    required: client.V1ResourceRequirements,
    *,
    args: list[str] | None = None,
    claim: bool = False,
    read_only_claim: bool = False,
    shared_memory: bool = False,
    **more: object,
) -> client.V1Container:
    """One that can do little harm: no root, no privileges, nothing of the image can be changed.

    claim: whether the claim is mounted, where there is one.
    """
    mounts = [client.V1VolumeMount(name="scratch", mount_path=SCRATCH)]
    if shared_memory:
        mounts.append(client.V1VolumeMount(name="shared-memory", mount_path="/dev/shm"))
    if claim and plan.claim is not None:
        read_only = True if read_only_claim else None
        mounts.append(client.V1VolumeMount(name="output", mount_path=plan.mount, read_only=read_only))
    secret = None
    if plan.env_secret is not None:
        secret = [client.V1EnvFromSource(secret_ref=client.V1SecretEnvSource(name=plan.env_secret))]
    return client.V1Container(
        name=name,
        image=plan.image,
        args=None if args is None else [literal(each) for each in args],
        env=environment(plan),
        env_from=secret,
        resources=required,
        volume_mounts=mounts,
        security_context=client.V1SecurityContext(
            allow_privilege_escalation=False,
            capabilities=client.V1Capabilities(drop=["ALL"]),
            read_only_root_filesystem=True,
        ),
        **more,
    )


def template(
    plan: Plan,
    component: str,
    only: client.V1Container,
    *,
    restart: str = "Never",
    accelerator: bool = False,
    grace_seconds: int | None = None,
    near: dict[str, str] | None = None,
) -> client.V1PodTemplateSpec:
    """The template of Pods with one container; its volumes are those that the container mounts.

    accelerator: whether it goes where the accelerator is, and to the nodes that were asked for.
    near: labels of Pods on whose node it had better be.
    """
    mounted = {mount.name for mount in only.volume_mounts}
    size = only.resources.limits["ephemeral-storage"]
    volumes = [client.V1Volume(name="scratch", empty_dir=client.V1EmptyDirVolumeSource(size_limit=size))]
    if "shared-memory" in mounted:
        memory = client.V1EmptyDirVolumeSource(medium="Memory")
        volumes.append(client.V1Volume(name="shared-memory", empty_dir=memory))
    if "output" in mounted:
        source = client.V1PersistentVolumeClaimVolumeSource(claim_name=plan.claim)
        volumes.append(client.V1Volume(name="output", persistent_volume_claim=source))
    secrets = None
    if plan.image_pull_secret is not None:
        secrets = [client.V1LocalObjectReference(name=plan.image_pull_secret)]
    has_accelerator = accelerator and (plan.gpus > 0 or plan.tpu is not None)
    return client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels(plan, component)),
        spec=client.V1PodSpec(
            containers=[only],
            restart_policy=restart,
            termination_grace_period_seconds=grace_seconds,
            service_account_name=plan.service_account,
            automount_service_account_token=plan.service_account is not None,
            image_pull_secrets=secrets,
            security_context=client.V1PodSecurityContext(
                run_as_non_root=True,
                run_as_user=USER,
                run_as_group=USER,
                fs_group=USER,
                fs_group_change_policy="OnRootMismatch",
                seccomp_profile=client.V1SeccompProfile(type="RuntimeDefault"),
            ),
            node_selector=(plan.node_selector or None) if accelerator else None,
            tolerations=nodes.tolerations(plan, has_accelerator) or None,
            affinity=client.V1Affinity(
                node_affinity=nodes.spot_affinity(plan),
                pod_affinity=None if near is None else nodes.near(near),
            ),
            volumes=volumes,
        ),
    )
