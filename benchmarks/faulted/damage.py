"""Files of a run that are truncated, changed, missing or no files, before the same command is given again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from faulted.cases import Case, Outcome, kind

# Name of the files -> patterns, below the run's folder; and whether the rows are those of an undisturbed run.
FILES: dict[str, tuple[list[str], bool]] = {
    "newest_checkpoint": (["checkpoints/step_*/*"], True),
    "all_checkpoints": (["checkpoints/step_*/*"], True),
    "best": (["checkpoints/best/*"], True),
    "hparams": (["hparams.json"], True),
    "rows": (["metrics.csv", "perf.csv"], False),
    "events": (["events.out.tfevents.*"], True),
    "notes": (["train.log", "command.txt", "versions.json", "heartbeat"], True),
}


def truncated(case: Case, content: bytes) -> bytes:
    return content[: case.rng.randrange(len(content))] if content else content


def flipped(case: Case, content: bytes) -> bytes:
    """One to four bytes are others: bits of them, or a letter for a letter, which is text still."""
    changed = bytearray(content)
    for _ in range(case.rng.choice([1, 1, 1, 4])):
        if changed:
            place = case.rng.randrange(len(changed))
            changed[place] ^= 1 << case.rng.randrange(8)
    return bytes(changed)


def replaced(case: Case, content: bytes) -> bytes:
    """Something else is there: nothing, zeros as after a power cut, other text, a part twice."""
    part = content[case.rng.randrange(len(content) + 1) :]
    other = [b"{}\n", b"[]", b'"x"', b"null\n", b"\xff\xfe"]
    return case.rng.choice([b"", bytes(len(content)), content + part, *other])


CHANGES: dict[str, Callable[[Case, bytes], bytes]] = {
    "truncated": truncated,
    "flipped": flipped,
    "replaced": replaced,
}


def chosen(case: Case, run_dir: Path, files: str) -> list[Path]:
    """The files that are damaged: one, or of all checkpoints one each."""
    if files == "all_checkpoints":
        folders = sorted((run_dir / "checkpoints").glob("step_*"))
        return [case.rng.choice(sorted(folder.iterdir())) for folder in folders]
    paths = sorted(path for pattern in FILES[files][0] for path in run_dir.glob(pattern))
    if files == "newest_checkpoint":
        newest = max(path.parent for path in paths)
        paths = [path for path in paths if path.parent == newest]
    return [case.rng.choice(paths)]


def harm(case: Case, path: Path, change: str) -> None:
    if change == "missing":
        path.unlink()
    elif change == "folder":  # or a link to nowhere
        path.unlink()
        case.rng.choice([path.mkdir, lambda: path.symlink_to("nowhere")])()
    else:
        path.write_bytes(CHANGES[change](case, path.read_bytes()))


def damaged(case: Case, files: str, change: str) -> Outcome:
    """The same command after damage, or a test of the run."""
    name = case.rng.choice(["ppo", "dqn"])
    run_dir = case.half(name)
    case.housed = case.rng.random() < 0.85
    for path in chosen(case, run_dir, files):
        harm(case, path, change)
    if case.rng.random() < 0.25:
        words = ["--training", "False", "--test_episodes", "2", "--output_dir", str(case.folder / "runs")]
        copy = case.folder / "tested"
        shutil.copytree(case.folder / "runs", copy, symlinks=True)
        case.ended(case.start([*words[:-1], str(copy)]), {0, 2})
    return case.goes_on(name, case.words(name), rows=FILES[files][1], codes={0, 2})


def _register(files: str, change: str) -> None:
    @kind(7, f"{files.replace('_', ' ')}: {change}", f"{files}_{change}")
    def do(case: Case) -> Outcome:
        return damaged(case, files, change)


for _files in FILES:
    for _change in (*CHANGES, "missing", "folder"):
        _register(_files, _change)


@kind(5)
def folder_removed(case: Case) -> Outcome:
    """The run's folder, or the one of its checkpoints, is removed while it trains"""
    name = case.rng.choice(["ppo", "dqn"])
    words, run_dir = case.words(name), case.folder / "runs" / "run_0"
    gone = run_dir / case.rng.choice(["", "checkpoints"])
    at = case.rng.choice(["the compiled", "a checkpoint to be written", "of an evaluation"])
    plan = {"at": at, "within": "train", "nth": case.rng.randint(2, 14), "do": {"unlink": str(gone)}}
    code = case.under(words, plan, {0, 2, 75})
    return case.goes_on(name, words, code, rows=False)
