"""Pods: what the templates of all kinds have in common."""

from __future__ import annotations

from kubernetes import client

from k8s import nodes
from k8s.plan import Plan
from k8s.tpus import RESOURCE as TPU

USER = 1000  # of the image
SCRATCH = "/tmp"
CONTAINER = "train"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # Kubernetes puts no token over another mount


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
    secret: str | None = None,
    claim: bool = False,
    read_only_claim: bool = False,
    shared_memory: bool = False,
    without_token: bool = False,
    **more: object,
) -> client.V1Container:
    """One that can do little harm: no root, no privileges, nothing of the image can be changed.

    secret: name of one whose keys become variables.
    claim: whether the claim is mounted, where there is one.
    without_token: whether it has no key to the cluster where its Pod has one.
    """
    mounts = [client.V1VolumeMount(name="scratch", mount_path=SCRATCH)]
    if shared_memory:
        mounts.append(client.V1VolumeMount(name="shared-memory", mount_path="/dev/shm"))
    if without_token:
        mounts.append(client.V1VolumeMount(name="no-token", mount_path=TOKEN, read_only=True))
    if claim and plan.claim is not None:
        read_only = True if read_only_claim else None
        mounts.append(client.V1VolumeMount(name="output", mount_path=plan.mount, read_only=read_only))
    env_from = None
    if secret is not None:
        env_from = [client.V1EnvFromSource(secret_ref=client.V1SecretEnvSource(name=secret))]
    return client.V1Container(
        name=name,
        image=plan.image,
        image_pull_policy=plan.image_pull_policy,
        args=None if args is None else [literal(each) for each in args],
        env=environment(plan),
        env_from=env_from,
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
    main: client.V1Container,
    *,
    beside: client.V1Container | None = None,
    restart: str = "Never",
    service_account: str | None = None,
    accelerator: bool = False,
    grace_seconds: int | None = None,
) -> client.V1PodTemplateSpec:
    """The template of Pods with one container; its volumes are those that are mounted.

    beside: a sidecar container, which starts before and ends after the other.
    service_account: whose rights the Pod has; without one it has no key to the cluster.
    accelerator: whether it goes where the accelerator is, and to the nodes that were asked for.
    """
    secrets = None
    if plan.image_pull_secret is not None:
        secrets = [client.V1LocalObjectReference(name=plan.image_pull_secret)]
    has_accelerator = accelerator and (plan.gpus > 0 or plan.tpu is not None)
    sidecars = [] if beside is None else [beside]
    return client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels(plan, component)),
        spec=client.V1PodSpec(
            init_containers=sidecars or None,
            containers=[main],
            restart_policy=restart,
            termination_grace_period_seconds=grace_seconds,
            service_account_name=service_account,
            automount_service_account_token=service_account is not None,
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
            affinity=client.V1Affinity(node_affinity=nodes.spot_affinity(plan)),
            volumes=_volumes(plan, [main, *sidecars]),
        ),
    )


def _volumes(plan: Plan, containers: list[client.V1Container]) -> list[client.V1Volume]:
    """What the containers mount; the first one says how large the scratch space is."""
    size = containers[0].resources.limits["ephemeral-storage"]
    known = {
        "scratch": {"empty_dir": client.V1EmptyDirVolumeSource(size_limit=size)},
        "shared-memory": {"empty_dir": client.V1EmptyDirVolumeSource(medium="Memory")},
        "no-token": {"empty_dir": client.V1EmptyDirVolumeSource()},
        "output": {
            "persistent_volume_claim": client.V1PersistentVolumeClaimVolumeSource(claim_name=plan.claim or "")
        },
    }
    mounted = {mount.name for each in containers for mount in each.volume_mounts}
    return [client.V1Volume(name=name, **source) for name, source in known.items() if name in mounted]
