"""The generator's own flags, beside those of train.py; and the command that the Pods run."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from rl import cli
from rl.cli import parse
from rl.flags import Parser, boolean, flags_of, integer

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
SPOT = ("preferred", "required", "no")
ONLY = "only"
CLOUDS = ("any", "gke", "aks", "eks", "karpenter")

EXAMPLES = """examples:
  python -m k8s.generate --hparams ppo_pong --image IMG --output_dir gs://bucket/pong
  python -m k8s.generate --sys gpu --hparams ppo_pong --image IMG --pvc_size 50Gi --output_dir /data/pong
  python -m k8s.generate --hparams ppo_cartpole --copies 5 --image IMG --output_dir gs://bucket/seeds
  python -m k8s.generate --hparams impala_cartpole --num_workers 8 --image IMG --output_dir gs://bucket/impala
  python -m k8s.generate --sys tpu --tpu v5e-4 --hparams ppo_catch --image IMG --output_dir gs://bucket/catch
"""


def shown(text: str) -> bool | str:
    """Reads True, False or `only`: an argparse type."""
    try:
        return ONLY if text == ONLY else boolean(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"needs True, False or {ONLY}, not {text!r}") from None


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the flags that train.py does not have."""
    parser = Parser(
        prog="python -m k8s.generate",
        description="Writes Kubernetes manifests that run train.py; every flag of train.py is taken too, and "
        "checked as train.py does. docs/kubernetes.md explains what is written.",
        epilog=EXAMPLES,
    )
    add = parser.add_argument

    def number(flag: str, default: int | None, minimum: int, text: str) -> None:
        add(flag, type=integer(minimum, 2**31 - 1), default=default, metavar="N", help=text)

    def switch(flag: str, default: bool, text: str) -> None:
        add(flag, nargs="?", const=True, default=default, type=boolean, metavar="True|False", help=text)

    add("--image", metavar="IMG", help="image that k8s/Dockerfile was built to")
    add("--name", metavar="NAME", help="of all objects (default: from --hparams and --env)")
    add("--write_to", metavar="DIR", help="folder for the manifests (default manifests/NAME); - prints them")
    add("--namespace", metavar="NAME", help="default: the one that kubectl uses")
    add("--service_account", metavar="NAME", help="an existing one that may write to the output")
    pull = "default Always, IfNotPresent for an image by digest"
    add("--image_pull_policy", metavar="|".join(PULL_POLICIES), help=pull)
    add("--image_pull_secret", metavar="NAME", help="an existing secret, for a private registry")
    add("--env_var", metavar="NAME=VALUE", action="append", default=[], help="in all Pods; may be repeated")
    add("--env_secret", metavar="NAME", help="an existing secret: variables of the Pods that train")
    add("--cpu", metavar="CORES", default="4", help="for the Pod that trains (default 4)")
    add("--memory", metavar="BYTES", default="8Gi", help="for the Pod that trains (default 8Gi)")
    add("--scratch", metavar="BYTES", default="10Gi", help="disk for its temporary files (default 10Gi)")
    number("--gpus", None, 1, "NVIDIA GPUs, with --sys gpu (default 1)")
    add("--tpu", metavar="TYPE-NUMBER", help="slice, with --sys tpu: v5e-4, v6e-8, v4-8, v5p-8, ...")
    add("--spot", default="preferred", metavar="|".join(SPOT), help="nodes that may be taken away")
    add("--cloud", default="any", metavar="|".join(CLOUDS), help="whose spot nodes (default any)")
    selector = "of nodes for the Pods that train, and no others; may be repeated"
    add("--node_selector", metavar="LABEL=VALUE", action="append", default=[], help=selector)
    tolerated = "a taint of nodes that all Pods may go to; may be repeated"
    add("--toleration", metavar="KEY[=VALUE][:EFFECT]", action="append", default=[], help=tolerated)
    add("--pvc", metavar="NAME", help="an existing claim, mounted for the output")
    add("--pvc_size", metavar="BYTES", help="the same with a new claim of this size")
    add("--storage_class", metavar="NAME", help="of the new claim (default: the cluster's)")
    add("--mount", metavar="DIR", default="/data", help="where the claim is mounted (default /data)")
    number("--workers_per_pod", 4, 1, "processes that share a Pod, with --num_workers (default 4)")
    add("--worker_memory", metavar="BYTES", default="1Gi", help="for each of them (default 1Gi)")
    switch("--keep_cluster", False, "the Ray cluster stays after the run (default False)")
    # With 0 a Pod's object is gone before its processes are, and the next Pod would write beside them.
    number("--grace_seconds", 120, 1, "to save in, when a Pod is to end (default 120)")
    number("--hang_seconds", None, 0, "without progress, then it is tried again; 0: for ever (default 1800)")
    number("--ttl_seconds", None, 0, "how long a finished Job is kept (default 86400)")
    number("--backoff_limit", 6, 0, "failures before it is given up; lost nodes do not count (default 6)")
    text = "TensorBoard on the same output; only: it alone, as after training (default True)"
    choice = "True|False|only"
    add("--tensorboard", nargs="?", const=True, default=True, type=shown, metavar=choice, help=text)
    add("--tensorboard_service_account", metavar="NAME", help="an existing one that may read the output")
    add("--tensorboard_env_secret", metavar="NAME", help="an existing secret to read the output with")
    return parser


def split(argv: Sequence[str]) -> tuple[argparse.Namespace, argparse.Namespace]:
    """Returns the generator's flags, and those of train.py. What stands after `--` is train.py's.

    Raises:
        UsageError: an unknown flag (with the nearest of both), or a bad value.
    """
    parser = build_parser()
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    own, rest = parser.parse_known_args(words[:end])
    return own, parse([*rest, *words[end + 1 :]], flags_of(parser))


def pods_command(args: argparse.Namespace, kind: str, hang_timeout: int) -> list[str]:
    """Returns the command of a plan's kind.

    args: of train.py, as they were parsed.
    hang_timeout: the hparam of that name; 0: what it is.
    """
    changed = {"ray_address": "auto"} if kind == "ray" else {}
    if hang_timeout:
        # Before the others, which may end with a comma.
        changed["hparam_override"] = f"hang_timeout={hang_timeout},{args.hparam_override}".rstrip(", ")
    args = argparse.Namespace(**{**vars(args), **changed})
    # Copies that go on side by side are Pods, which --parallel has counted.
    return train_command(args, without=("parallel",) if kind == "copies" else ())


def train_command(args: argparse.Namespace, without: Collection[str] = ()) -> list[str]:
    """Returns `python train.py` with the flags whose values are not the defaults, in the order of --help.

    args: what `rl.cli.parse` made of what was typed.
    without: names of values that are left out.
    """
    command = ["python", "train.py"]
    for action in cli.build_parser()._actions:
        if action.dest in ("help", *without):
            continue
        value = getattr(args, action.dest)
        if value != action.default:
            command += [action.option_strings[0], str(value)]
    return command
