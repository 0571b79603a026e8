"""Writes the manifests of a run: `python -m k8s.generate --help`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from k8s.options import ONLY, split
from rl.errors import UsageError
from rl.imports import needing_packages
from rl.registry import import_user_modules

if TYPE_CHECKING:
    from k8s.manifest import Document
    from k8s.plan import Plan

CLAIM, NETWORK, TRAIN, TENSORBOARD = FILES = (
    "10-claim.yaml",
    "15-network.yaml",
    "20-train.yaml",
    "30-tensorboard.yaml",
)


# Of annotations, in which `kubectl apply` keeps the whole object: TotalAnnotationSizeLimitB of apimachinery.
APPLIED = 256 * 1024  # bytes


def documents(plan: Plan) -> dict[str, list[Document]]:
    """Returns file name -> the objects in it, in the order in which they are to be applied.

    Raises:
        UsageError: one of them is larger than kubectl applies.
    """
    from k8s import jobs, network, ray, tensorboard

    files: dict[str, list[Document]] = {}
    if plan.tensorboard != ONLY:  # else all but TensorBoard is in the cluster
        if plan.claim_size is not None:
            files[CLAIM] = [tensorboard.claim(plan)]
        if plan.kind in ("ray", "hosts"):
            files[NETWORK] = [network.policy(plan)]
        if plan.kind == "ray":
            files[TRAIN] = ray.ray_objects(plan)
        else:
            files[TRAIN] = [jobs.jobset(plan) if plan.kind == "hosts" else jobs.job(plan)]
    if plan.tensorboard != "no":
        files[TENSORBOARD] = [tensorboard.service(plan)]
    if plan.tensorboard in ("apart", ONLY):
        files[TENSORBOARD].insert(0, tensorboard.deployment(plan))
    for objects in files.values():
        for document in objects:
            _check_size(document)
    return files


def _check_size(document: Document) -> None:
    """Go's JSON is what is kept: it escapes three characters that Python's does not."""
    text = json.dumps(document, separators=(",", ":"))
    size = len(text) + 5 * sum(text.count(letter) for letter in "<>&") + 100  # the annotation has a name, too
    if size > APPLIED:
        raise UsageError(
            f"the manifests would be refused: {_described(document)}: has {size} bytes, of which kubectl "
            f"applies {APPLIED} at most: shorten flags and variables"
        )


def advice(plan: Plan, folder: str, files: Sequence[str]) -> str:
    """Returns what to type next."""
    kubectl = "kubectl" if plan.namespace is None else f"kubectl -n {plan.namespace}"
    selector = f"app.kubernetes.io/instance={plan.name}"
    logs = {
        "job": f"{kubectl} logs -f job/{plan.name}",
        "copies": f"{kubectl} logs -f -l {selector},batch.kubernetes.io/job-completion-index=0 --tail=-1",
        "hosts": f"{kubectl} logs -f -l {selector},batch.kubernetes.io/job-completion-index=0 --tail=-1",
        "ray": f"{kubectl} logs -f job/{plan.name}",
    }[plan.kind]
    lines = [f"apply        kubectl apply -f {shlex.quote(folder)}"]
    if TRAIN in files:
        lines.append(f"watch        {kubectl} get pods -w -l {selector}")
        lines.append(f"logs         {logs}")
    if TENSORBOARD in files:
        port = f"{kubectl} port-forward service/{plan.name}-tensorboard 6006:6006"
        lines.append(f"TensorBoard  {port}, then http://localhost:6006")
    if plan.tensorboard == "beside":
        lines.append(f"afterwards   the same command with --tensorboard {ONLY}: now it ends with training")
    elif TENSORBOARD in files and _cannot_read(plan):
        lines.append("             it has none of the trainer's rights: --tensorboard_service_account NAME,")
        lines.append("             --tensorboard_env_secret NAME give it what it needs to read the output")
    # A claim is left out: its data would go with it.
    kept = [f"{folder}/{name}" for name in files if name != CLAIM] if CLAIM in files else [folder]
    lines.append(f"remove       kubectl delete {' '.join(f'-f {shlex.quote(path)}' for path in kept)}")
    return "\n".join(lines)


def _cannot_read(plan: Plan) -> bool:
    """Tells whether TensorBoard is likely to lack what the trainer needs for the output."""
    trainer = plan.service_account or plan.env_secret
    return bool(
        plan.claim is None
        and trainer
        and not (plan.tensorboard_service_account or plan.tensorboard_env_secret)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2 for a mistake in what was typed)."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        _check_decoded(argv)
        own, train = split(argv)
        import_user_modules(train.user_modules)
        with needing_packages():
            from k8s.plan import make_plan

            plan = make_plan(own, train)
        _check_yaml()
        from k8s.manifest import as_yaml

        files = documents(plan)
        texts = {name: as_yaml(objects) for name, objects in files.items()}
        if own.write_to == "-":
            sys.stdout.write("".join(texts.values()))
            return 0
        name = f"{plan.name}-tensorboard" if plan.tensorboard == ONLY else plan.name
        folder = Path(own.write_to or os.path.join("manifests", name))
        _write(folder, texts)
    except UsageError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    for name, objects in files.items():
        print(f"wrote {folder / name}: {', '.join(_described(each) for each in objects)}")
    print(advice(plan, str(folder), list(files)))
    return 0


def _check_decoded(words: Sequence[str]) -> None:
    """Raises UsageError for bytes that are no text."""
    for word in words:  # Python keeps such bytes as half characters, which no file takes
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{word!r} is no UTF-8: type it anew") from None


def _check_yaml() -> None:
    import importlib.util

    if importlib.util.find_spec("yaml") is None:
        raise UsageError("pyyaml is not installed: ./setup.sh --extra k8s")


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Replaces the manifests in `folder`; others that an earlier call has left there would be applied too."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = sorted(path.name for path in folder.iterdir() if path.name not in FILES)
        if strange:
            raise UsageError(
                f"--write_to {folder}: {strange[0]} is there and would be applied too: name another folder"
            )
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {folder} ({error.strerror}): choose another --write_to") from error


def _described(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


if __name__ == "__main__":
    sys.exit(main())
