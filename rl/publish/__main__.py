"""Writes a trained policy and a card of it into a folder, and pushes that to a hub where one is named."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl.cli import answered
from rl.errors import UsageError
from rl.flags import Parser, integer, policy_flags
from rl.imports import import_tensorflow
from rl.publish.card import Facts, card
from rl.registry import import_user_modules
from rl.report.runs import films, find_runs, is_own, is_policy_alone, versions
from rl.storage.address import check_run, output_beside
from rl.storage.files import commit_folder, new_output, write_text_atomic

EXAMPLES = """examples:
  python -m rl.publish runs/ppo_cartpole --to published
  python -m rl.publish runs/ppo_cartpole --repo me/ppo-cartpole     needs huggingface_hub and a login
"""
WRITES = ("README.md", "checkpoints", "hparams.json", "metrics.csv", "videos")  # into the folder
NOT_PUSHED = 1  # exit code: the folder is there, the hub did not take it
_REPO = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of all flags."""
    parser = Parser(
        prog="python -m rl.publish",
        description="Writes a trained policy with a model card: its result over episodes that are played "
        "for it, hyperparameters, versions, the newest film; rl.load reads the folder.",
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    policy_flags(parser)
    add("--to", metavar="DIR", help="output folder (default: published, in the run's folder)")
    text = "episodes that it plays for the card, which training never played (default 100)"
    add("--episodes", type=integer(2), default=100, metavar="N", help=text)
    add(
        "--repo", metavar="USER/NAME", help="Hugging Face's hub: the model there that the folder is pushed to"
    )
    add("--force", action="store_true", help="replace what is there")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2 for a mistake in what was typed)."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        import_user_modules(args.user_modules)
        target = _checked(args)
        import_tensorflow()
        _write(args, target)
        print(target)
        return 0 if args.repo is None else _push(args.repo, target)

    return answered(work)


def _checked(args: argparse.Namespace) -> Path:
    """Returns where to write. Raises UsageError for what can be known to be wrong before TensorFlow is
    there."""
    if args.repo is not None and not _REPO.fullmatch(args.repo):
        raise UsageError(f"--repo {args.repo}: needs USER/NAME, such as me/ppo-cartpole")
    if args.repo is not None and importlib.util.find_spec("huggingface_hub") is None:
        raise UsageError(
            "--repo: huggingface_hub is not installed: ./setup.sh uv pip install huggingface_hub"
        )
    check_run(args.run, "run")
    return output_beside(args.run, args.to, "published", WRITES, is_policy_alone, args.force)


def _write(args: argparse.Namespace, target: Path) -> None:
    from rl.api import load
    from rl.saved_run import reading
    from rl.storage.checkpoint import CheckpointManager

    policy = load(args.run, args.which, env=args.env)
    env = policy.agent.hparams.env
    returns = policy.evaluate(args.episodes).returns if env else None
    step = policy.origin["step"]
    with new_output(target) as folder:
        with reading(args.run) as storage:
            (run,) = find_runs(storage.folder)[:1]
            for name in ("hparams.json", "metrics.csv"):
                if is_own(storage.folder, storage.folder / name):
                    shutil.copyfile(storage.folder / name, folder / name)
            film = _newest_film(storage.folder, folder)
            facts = Facts(run, step, returns, versions(storage.folder), film, args.repo)
        meta = {"return_mean": None if returns is None else float(returns.mean())}
        # As the last checkpoint, which is "best" too where there is no other: train.py tests the last one.
        CheckpointManager(folder / "checkpoints").save(policy.agent.policy_variables, step, meta)
        write_text_atomic(folder / "README.md", card(facts))
        commit_folder(folder, target)


def _newest_film(run_dir: Path, folder: Path) -> str | None:
    """Copies a run's newest film; returns its path in the folder, None where there is none."""
    for film in films(run_dir)[-1:]:
        (folder / "videos").mkdir()
        shutil.copyfile(film, folder / "videos" / film.name)
        return f"videos/{film.name}"
    return None


def _push(repo: str, folder: Path) -> int:
    """Pushes a folder to Hugging Face's hub; returns the exit code."""
    import huggingface_hub

    api: Any = huggingface_hub.HfApi()
    try:
        api.create_repo(repo, exist_ok=True)
        print(api.upload_folder(repo_id=repo, folder_path=str(folder)))
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        print(f"error: {folder} is written, but {repo} did not take it: {text}", file=sys.stderr)
        return NOT_PUSHED
    return 0


if __name__ == "__main__":
    sys.exit(main())
