"""Folders of runs that nobody has trained."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rl.hparams.hparams import HParams
from rl.hparams.merge import difference, resolve


@pytest.fixture
def run_folder(tmp_path):
    """Writes `run_folder("some/run_0", "ppo_cartpole", seed, returns, lr=...)`: a run with an evaluation of
    each return, 1,000 steps and 2 seconds apart."""

    def write(name, hparams_set, seed, returns, workers=False, **overrides):
        folder, hparams = tmp_path / name, resolve(hparams_set, overrides)
        folder.mkdir(parents=True)
        unlike = {key: list(pair) for key, pair in difference(hparams, HParams()).items()}
        saved = {
            "name": hparams_set,
            "seed": seed,
            "workers": workers,
            "hparams": hparams.to_dict(),
            "difference_from_default": unlike,
        }
        (folder / "hparams.json").write_text(json.dumps(saved))
        steps = 1_000 * (1 + np.arange(len(returns)))
        rows = [f"{step},{value},0.5" for step, value in zip(steps, returns, strict=True)]
        (folder / "metrics.csv").write_text("\n".join(["step,eval/return_mean,train/loss", *rows, ""]))
        rows = [f"{step},0.5,{1000 / 1.5}" for step in steps]
        (folder / "perf.csv").write_text(
            "\n".join(["step,perf/eval_seconds,perf/steps_per_second", *rows, ""])
        )
        (folder / "versions.json").write_text('{"python": "3.11.7", "git_commit": null}')
        (folder / "command.txt").write_text(f"python train.py --hparams {hparams_set}  # 2026-01-01\n")
        return folder

    return write
