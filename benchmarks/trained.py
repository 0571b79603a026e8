"""What was trained: fingerprints of the hparams of judged runs, and what of a set has changed since."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import shared
from bars import WITH_WORKERS, given
from shared import ROOT

from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import named
from rl.report.runs import NOT_LEARNING

FILE = "learning_hparams.json"  # fingerprint -> hparams as they were trained
RESULT = ":!rl/hparams/measured.csv"  # git's word for all but that: learning.py writes it as it goes on
OF_WORKERS = {"sync_workers", "max_staleness"}  # without workers nothing depends on these
LENGTH = 10  # hexadecimal digits of a fingerprint

Values = dict[str, Any]


def values(hparams: HParams) -> Values:
    """The hparams that learning depends on, train_steps among them."""
    return {key: value for key, value in hparams.to_dict().items() if key not in NOT_LEARNING}


def fingerprint(hparams: HParams | Values) -> str:
    """A short SHA-256 of what learning depends on."""
    found = values(hparams) if isinstance(hparams, HParams) else hparams
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:LENGTH]


def revived(found: Values) -> Values:
    """Values of a run as the present code reads them: hparams that are newer count with their defaults.

    Raises:
        UsageError: they are of hparams that are no more.
    """
    return values(HParams.from_dict(dict(found)))


def read(folder: Path, file: str = FILE) -> dict[str, Values]:
    """Fingerprint -> values, of the results in a folder."""
    path = folder / file
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(folder: Path, new: Mapping[str, Values], fingerprints: Sequence[str], file: str = FILE) -> None:
    """Adds values, and leaves only those that a line of the results has; a line for each."""
    known = {**read(folder, file), **new}
    kept = {each: known[each] for each in fingerprints if each in known}
    lines = [f"{json.dumps(each)}: {json.dumps(known[each], sort_keys=True)}" for each in kept]
    shared.write(folder / file, "{\n" + ",\n".join(lines) + "\n}\n")


def stale(row: Mapping[str, Any], known: Mapping[str, Values]) -> str:
    """Why a line of the results is not of the set as it is now; empty where it is.

    What its command changed (`--train_steps`) counts as it did then; what it learned from, as it is now.
    """
    found = known.get(row.get("fingerprint") or "")
    if found is None:
        return "what was trained was not kept"
    try:
        now = named(WITH_WORKERS.sub("", row["hparams"]))
    except UsageError:
        return "there is no such set any more"
    now.assign(given(row["hparams"]))
    steps = re.search(r" --train_steps (\d+)", row["command"])
    if steps:
        now.train_steps = int(steps[1])
    try:
        before, after = revived(found), values(now)
    except UsageError:
        return "the set has changed since"
    counted = (before.keys() | after.keys()) - (set() if WITH_WORKERS.search(row["hparams"]) else OF_WORKERS)
    changed = sorted(key for key in counted if before.get(key) != after.get(key))
    return f"the set has changed since ({', '.join(changed)})" if changed else ""


def version() -> str:
    """The commit of this checkout, `-dirty` where what trains differs from it; empty outside of one."""
    answers = []
    for words in (
        ["rev-parse", "--short=7", "HEAD"],
        ["status", "--porcelain", "--", "rl", "train.py", RESULT],
    ):
        command = ["git", "--no-optional-locks", "-C", str(ROOT), *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            return ""
        answers.append(done.stdout.strip())
    return answers[0] + ("-dirty" if answers[1] else "")


def version_of_run(run_dir: Path, last: str) -> str:
    """The commits that made a run, the first one first, joined by "+".

    last: of the process that ended it. For each before, with other versions, the run has a
        `versions_to_step_N.json`, whose `-dirty` is of any file of the checkout.
    """
    earlier = run_dir.glob("versions_to_step_*.json")
    commits = []
    for path in sorted(earlier, key=lambda path: int(path.stem.rpartition("_")[2])):
        found = json.loads(path.read_text(encoding="utf-8")).get("git_commit")
        if found:
            commits.append(re.sub(r"^([0-9a-f]{7})[0-9a-f]+", r"\1", found))
    return "+".join(filter(None, dict.fromkeys([*commits, last])))
