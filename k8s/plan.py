"""What was asked for, checked: all that can be said before a manifest is built."""

from __future__ import annotations

import argparse
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from k8s.names import (
    checked_existing,
    checked_name,
    checked_namespace,
    derived_name,
    is_image,
    is_label_key,
    is_label_value,
)
from k8s.options import CLOUDS, ONLY, PULL_POLICIES, SPOT, pods_command
from k8s.quantities import checked_bytes, checked_cores
from k8s.tpus import Slice, slice_of
from k8s.variables import variables
from rl.cli import checked
from rl.errors import UsageError, nearest
from rl.hparams.hparams import HParams
from rl.hparams.merge import as_typed
from rl.workers.plan import Workers, division

DAY = 86_400  # seconds that finished Jobs are kept where nobody says how long
HANG = 1800  # seconds without progress after which a run is ended where nobody says how many
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MOST_COPIES = 100_000  # completions of an Indexed Job with backoffLimitPerIndex
MOST_WORKERS = 2**31 - 1  # what replicas count to
# What the image and the container runtime have there; a claim would hide it, or be hidden.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt/rl", "/opt/venv", "/proc", "/root", "/run"),
    *("/sbin", "/sys", "/tmp", "/usr", "/var/lib", "/var/run"),
)
_REMOTE = re.compile(r"([a-z][a-z0-9+.-]*)://[^/\s].*")
_OF_THE_POD = ("file", "ram")  # schemes of places that end with a Pod


def _one_of(*known: str) -> Callable[[str, str], str]:
    """Returns a check that a flag's value is one of these."""

    def check(flag: str, value: str) -> str:
        if value not in known:
            raise UsageError(f"unknown {flag} {value!r}: {nearest(value, known)}")
        return value

    return check


# Flags that are fields of a plan as they stand -> what checks the value, where there is one.
CHECKED: dict[str, Callable[[str, str], str]] = {
    "namespace": checked_namespace,
    "cpu": checked_cores,
    "memory": partial(checked_bytes, example="8Gi"),
    "scratch": partial(checked_bytes, example="10Gi"),
    "worker_memory": partial(checked_bytes, example="1Gi"),
    "spot": _one_of(*SPOT),
    "cloud": _one_of(*CLOUDS),
    **dict.fromkeys(
        (
            *("service_account", "image_pull_secret", "env_secret", "storage_class"),
            *("tensorboard_service_account", "tensorboard_env_secret"),
        ),
        checked_existing,
    ),
}
COUNTS = ("grace_seconds", "ttl_seconds", "backoff_limit", "workers_per_pod")  # checked where they were read


class Toleration(NamedTuple):
    """Tolerates a taint: of any value where it has none, of all effects where it has none."""

    key: str
    value: str | None
    effect: str | None


@dataclass(frozen=True)
class Plan:
    """Says all of one run on a cluster that its manifests depend on.

    kind: "job"; "copies": an Indexed Job; "hosts": a JobSet, one Pod for each host of a TPU slice; "ray".
    tensorboard: "no"; "apart": a Deployment; "beside": in the Pod that trains; "only": nothing but it.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    output_dir: str
    image: str
    namespace: str | None
    service_account: str | None
    image_pull_policy: str
    image_pull_secret: str | None
    cpu: str
    memory: str
    scratch: str
    gpus: int
    tpu: Slice | None
    spot: str
    cloud: str
    node_selector: dict[str, str]
    tolerations: tuple[Toleration, ...]
    claim: str | None  # name of the claim that is mounted
    claim_size: str | None  # None: it exists
    storage_class: str | None
    mount: str
    shared_claim: bool  # whether several Pods write to it at once
    env_vars: dict[str, str]
    env_secret: str | None
    grace_seconds: int
    hang_seconds: int  # without progress, after which a Pod is ended; 0: never
    ttl_seconds: int
    backoff_limit: int
    tensorboard: str
    tensorboard_service_account: str | None
    tensorboard_env_secret: str | None
    copies: int
    copies_at_once: int
    processes: int  # of the run, beside the learner: workers, buffers and other learners
    processes_mount: bool  # whether they write into the output as well
    workers_per_pod: int
    worker_memory: str
    keep_cluster: bool


def make_plan(own: argparse.Namespace, train: argparse.Namespace) -> Plan:
    """Returns the plan of what was typed, once it is checked.

    own: the generator's flags; train: those of train.py.

    Raises:
        UsageError: train.py would refuse its flags, or a value or combination of ours is wrong.
    """
    if train.sys == "gcp":
        train = argparse.Namespace(**{**vars(train), "sys": "tpu"})  # its older name
    _check_refused(own, train)
    hparams, name = checked(train, here=False), _name(own, train)
    train = argparse.Namespace(**vars(train))  # in Pods, where a file of the user's is not
    train.hparams, train.hparam_override = as_typed(train.hparams, train.hparam_override)
    if not is_image(own.image):
        raise UsageError(f"--image {own.image!r}: needs REGISTRY/NAME:TAG, such as ghcr.io/me/rl:1")
    tpu = None if own.tpu is None else slice_of(own.tpu)
    kind = _kind(train, tpu)
    if kind == "ray":  # train.py looks at this once TensorFlow is there
        division(hparams, Workers(train.num_workers), hparams.sync_workers)
    claim, mount = _claim(own, name), _mount(own)
    _check_output(train, claim, mount)
    _check_folders(train, hparams, claim, mount)
    buffers = bool(train.num_workers and hparams.buffer_shards and hparams.save_buffers)
    shared = buffers or kind in ("copies", "hosts")
    hang_seconds = HANG if own.hang_seconds is None else own.hang_seconds
    hang_seconds = hang_seconds if train.training and not train.test_only else 0
    given = {name: getattr(own, name) for name in (*CHECKED, *COUNTS)}
    given["ttl_seconds"] = DAY if own.ttl_seconds is None else own.ttl_seconds
    for flag, check in CHECKED.items():
        if given[flag] is not None:
            check(f"--{flag}", given[flag])
    return Plan(
        name=name,
        kind=kind,
        command=tuple(pods_command(train, kind, _hang_timeout(own, hparams, kind, hang_seconds))),
        output_dir=train.output_dir,
        image=own.image,
        image_pull_policy=_pull_policy(own),
        gpus=own.gpus or int(train.sys == "gpu"),
        tpu=tpu,
        node_selector=_node_selector(own.node_selector, tpu),
        tolerations=tuple(_toleration(text) for text in own.toleration),
        claim=claim,
        claim_size=own.pvc_size,
        mount=mount,
        shared_claim=shared,
        env_vars=variables(own.env_var, kind),
        hang_seconds=hang_seconds,
        tensorboard=_tensorboard(own, claim is not None, shared),
        copies=train.copies,
        copies_at_once=min(train.parallel or train.copies, train.copies),
        processes=train.num_workers and train.num_workers + hparams.num_learners - 1 + hparams.buffer_shards,
        processes_mount=buffers,
        keep_cluster=own.keep_cluster,
        **given,
    )


def _check_folders(train: argparse.Namespace, hparams: HParams, claim: str | None, mount: str) -> None:
    """Raises UsageError where data or another run that is needed are not named, or in no Pod, or what is
    recorded would be lost."""
    data, expert = hparams.data, hparams.flat().get("expert")
    folders = (
        ("--record_data ", train.record_data, "would be lost with the Pod", False),
        ("data=", data, "is in no Pod", hparams.offline or hparams.demonstrated),
        ("expert=", expert, "is in no Pod", hparams.taught),
        ("start_from=", hparams.start_from, "is in no Pod", False),
    )
    for what, folder, why, needed in folders:
        if needed and not folder:
            raise UsageError(
                f"{hparams.algo} needs the hparam {what.rstrip('=')}: --hparam_override {what}..."
            )
        remote = what in ("expert=", "start_from=") and "://" in str(folder)  # data are read from folders
        if folder and not remote and (claim is None or not _below(folder, mount)):
            where = f"give --pvc NAME (or --pvc_size 50Gi) and a folder under {mount}"
            raise UsageError(f"{what}{folder} {why}: {where}")


def _check_refused(own: argparse.Namespace, train: argparse.Namespace) -> None:
    """Raises UsageError for what no Pod can do, what is missing, and what does not go together."""
    tpu, missing = train.sys == "tpu", train.output_dir is None
    refused = {
        "--list: python train.py --list shows the names; nothing was written": train.list is not None,
        "--suggest: python train.py --suggest says it; nothing was written": train.suggest is not None,
        "--render: a Pod has no display; --record_video writes the episodes as mp4 instead": train.render,
        "--copy: the index of a Job's Pod says which copy it trains; leave it out": train.copy is not None,
        "--ray_address: workers join the cluster that is written here; leave it out": train.ray_address
        is not None,
        "--image is missing: name the image that k8s/Dockerfile was built to": not own.image,
        "--output_dir is missing: name where the run is kept, such as gs://BUCKET/FOLDER": missing,
        "--sys tpu needs --tpu TYPE-NUMBER, such as --tpu v5e-4": tpu and own.tpu is None,
        f"--tpu {own.tpu} is for --sys tpu, not --sys {train.sys}": own.tpu is not None and not tpu,
        f"--gpus {own.gpus} is for --sys gpu, not --sys {train.sys}": own.gpus and train.sys != "gpu",
        "--keep_cluster is for workers: give --num_workers N with it": own.keep_cluster and not _ray(train),
        "--ttl_seconds is for Jobs: a cluster of workers goes when its run has ended; leave it out": (
            own.ttl_seconds is not None and _ray(train)
        ),
        "--hang_seconds 0: learners of workers end when they hang; leave it out": (
            own.hang_seconds == 0 and _ray(train)
        ),
        "--pvc names a claim that exists, --pvc_size asks for a new one: take one of them": (
            own.pvc is not None and own.pvc_size is not None
        ),
        "--storage_class is for a new claim: give --pvc_size with it": (
            own.storage_class is not None and own.pvc_size is None
        ),
        f"--num_workers {train.num_workers}: needs {MOST_WORKERS} at most": train.num_workers > MOST_WORKERS,
        f"--copies {train.copies}: a Job has {MOST_COPIES} Pods at most; write several Jobs": (
            train.copies > MOST_COPIES and not _ray(train)
        ),
    }
    for message, wrong in refused.items():
        if wrong:
            raise UsageError(message)


def _ray(train: argparse.Namespace) -> bool:
    """Tells whether it is a run with workers."""
    return bool(train.num_workers and train.training and not train.test_only)


def _name(own: argparse.Namespace, train: argparse.Namespace) -> str:
    if own.name is not None:
        return checked_name("--name", own.name)
    hparams = posixpath.basename(train.hparams).removesuffix(".toml")
    return derived_name(hparams if train.env is None else f"{hparams}-{train.env}")


def _kind(train: argparse.Namespace, tpu: Slice | None) -> str:
    hosts = 1 if tpu is None else tpu.hosts
    if hosts > 1 and tpu is not None:
        refused = (
            ("--num_workers", train.num_workers, 0),
            ("--copies", train.copies, 1),
            ("--parallel", train.parallel or 1, 1),
        )
        for flag, value, least in refused:
            if value > least:
                raise UsageError(
                    f"{flag} {value} and --tpu {tpu.name}, which is {hosts} machines: take a slice of one"
                )
        return "hosts"
    if _ray(train):
        return "ray"
    return "copies" if train.copies > 1 else "job"


def _hang_timeout(own: argparse.Namespace, hparams: HParams, kind: str, hang_seconds: int) -> int:
    """Returns the seconds after which a run that no probe looks at ends by itself; 0: what it says itself.
    Learners of workers say so, by what their workers take, unless a number was typed."""
    if "hang_timeout" in hparams.model_fields_set:
        return 0
    return {"hosts": hang_seconds, "ray": own.hang_seconds or 0}.get(kind, 0)


def _mount(own: argparse.Namespace) -> str:
    path = posixpath.normpath(own.mount)
    path = f"/{path.lstrip('/')}" if path.startswith("/") else path  # POSIX keeps two slashes apart
    taken = any(_below(path, each) or _below(each, path) for each in _SYSTEM)
    if not path.startswith("/") or path == "/" or ":" in path or taken:
        raise UsageError(f"--mount {own.mount!r}: needs a folder of its own from the root, such as /data")
    return path


def _claim(own: argparse.Namespace, name: str) -> str | None:
    if own.pvc is not None:
        return checked_existing("--pvc", own.pvc)
    if own.pvc_size is None:
        return None
    checked_bytes("--pvc_size", own.pvc_size, "50Gi")
    return f"{name}-data"


def _check_output(train: argparse.Namespace, claim: str | None, mount: str) -> None:
    output_dir = train.output_dir
    if claim is not None:
        if not _below(output_dir, mount):
            raise UsageError(
                f"--output_dir {output_dir}: the claim is mounted at {mount}: name a folder there, such as "
                f"{mount}/{posixpath.basename(output_dir.rstrip('/')) or 'run'}"
            )
        return
    match = _REMOTE.fullmatch(output_dir)
    if match is None or match[1] in _OF_THE_POD:
        raise UsageError(
            f"--output_dir {output_dir} would be lost with the Pod: give gs://BUCKET/FOLDER, or --pvc NAME "
            f"(or --pvc_size 50Gi) and a folder under {mount}"
        )
    if match[1] != "gs" and not train.user_modules:
        raise UsageError(
            f"--output_dir {output_dir}: the image's TensorFlow writes to gs:// alone; give gs://BUCKET/... "
            f"or, with --user_modules, the module that adds {match[1]}://"
        )


def _below(path: str, folder: str) -> bool:
    """Tells whether an absolute path is `folder` or in it."""
    path = posixpath.normpath(path)
    return path == folder or path.startswith(f"{folder}/")


def _pull_policy(own: argparse.Namespace) -> str:
    if own.image_pull_policy is None:
        # A tag may have been pushed anew since a node has pulled it; a digest is one image for ever.
        return "IfNotPresent" if "@" in own.image else "Always"
    return _one_of(*PULL_POLICIES)("--image_pull_policy", own.image_pull_policy)


def _tensorboard(own: argparse.Namespace, claim: bool, shared: bool) -> str:
    for flag in ("tensorboard_service_account", "tensorboard_env_secret"):
        if getattr(own, flag) is not None and (claim or not own.tensorboard):
            why = "a claim is read without" if claim else "--tensorboard is False"
            raise UsageError(f"--{flag}: {why}: leave it out")
    if own.tensorboard == ONLY:
        return ONLY
    if not own.tensorboard:
        return "no"
    # A claim that one Pod writes to may let in Pods of one node only, and that has to be the trainer's.
    return "beside" if claim and not shared else "apart"


def _toleration(text: str) -> Toleration:
    rest, colon, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    if not is_label_key(key) or not is_label_value(value) or (colon and effect not in EFFECTS):
        raise UsageError(f"--toleration {text!r}: needs KEY[=VALUE][:EFFECT], effect {', '.join(EFFECTS)}")
    return Toleration(key, value if equals else None, effect or None)


def _node_selector(given: list[str], tpu: Slice | None) -> dict[str, str]:
    labels: dict[str, str] = {} if tpu is None else dict(tpu.node_labels)
    for pair in given:
        key, equals, value = pair.partition("=")
        if not (equals and is_label_key(key) and is_label_value(value)):
            raise UsageError(f"--node_selector {pair!r}: needs LABEL=VALUE, such as disktype=ssd")
        if labels.setdefault(key, value) != value:
            raise UsageError(f"--node_selector {pair}: {key} is {labels[key]} already")
    return labels
