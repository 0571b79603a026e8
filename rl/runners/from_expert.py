"""The trained run that labels observations as an expert (hparam `expert`): found, read and checked."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import tensorflow as tf

from rl.agents.agent import Agent
from rl.envs.of_data import check_expert, schooling
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import difference
from rl.parallel.devices import Devices
from rl.runners.from_data import alike
from rl.saved_run import read_saved, read_weights, reading, saved_agent


def check_asked_here(hparams: HParams, workers: Any, strategy: Any) -> None:
    """Raises UsageError where there is no expert, or where workers or other learners would need it too."""
    check_expert(hparams)
    expert = hparams.flat()["expert"]
    if workers is not None:
        raise UsageError(f"expert={expert}: workers bring no answers, leave --num_workers out")
    if Devices(strategy).count > 1:
        raise UsageError(f"expert={expert}: an expert is asked on one device, show it one of them")


def expert_of(agent: Agent[Any]) -> Agent[Any]:
    """Reads the best policy, by its evaluations, of the run that an agent's hparam `expert` names.

    Raises:
        UsageError: there is none; it was trained on another environment, or its spaces are others; it
            depends on more than an observation.
    """
    hparams = agent.hparams
    address = str(hparams.flat()["expert"])
    instead = f"name a run of {hparams.env} ({schooling(hparams.env)} trains one)"
    with reading(address) as storage:
        saved = read_saved(storage.folder) or {"hparams": {"env": hparams.env}}
        if saved["hparams"]["env"] != hparams.env:
            raise UsageError(f"expert={address} was trained on {saved['hparams']['env']}: {instead}")
        expert = saved_agent(storage.folder, env=hparams.env)
        read_weights(expert, storage.folder, "best")
    for its, ours, acts in (
        (expert.observation_space, agent.observation_space, False),
        (expert.action_space, agent.action_space, True),
    ):
        if not alike(its, ours, acts):
            raise UsageError(f"expert={address} was trained on {its}, here is {ours}: {instead}")
    if tf.nest.flatten(expert.starting_state(1)):  # noise in training may have a state, too
        raise UsageError(
            f"expert={address}: {expert.hparams.algo} with model {expert.hparams.model.name} remembers what "
            f"was before, and here single observations are asked about: {instead}, one without memory"
        )
    return expert


class Manner:
    """Keeps in checkpoints what decides how an expert answers, beside its weights, which they hold as well.

    Args:
        expert: who is asked.
        address: of the run that it comes from.
    """

    def __init__(self, expert: Agent[Any], address: str):
        hparams, self._address = expert.hparams, address
        # Differences from the defaults alone: a later version may know more hparams of models.
        model = {name: str(ours) for name, (_, ours) in difference(hparams, type(hparams)()).items()
                 if name.startswith("model.") and name != "model.precision"}  # fmt: skip
        told = json.dumps([hparams.algo, hparams.eval_policy, model], sort_keys=True)
        self._expected = float(zlib.crc32(told.encode()) >> 8)  # 24 bits, which a float32 holds exactly
        self.variable = tf.Variable(self._expected, dtype=tf.float32, trainable=False, name="expert_manner")

    def check(self, address: str) -> None:
        """Raises UsageError where the run at that address, which was read into `variable`, asked an expert
        who answered otherwise. Checkpoints of earlier versions do not say (NaN)."""
        found = float(self.variable.numpy())
        if math.isnan(found):
            self.variable.assign(self._expected)
        elif found != self._expected:
            raise UsageError(
                f"the run in {address} asked another expert than {self._address} is now (its algorithm, "
                "model or eval_policy has changed): bring that one back, or choose another --output_dir"
            )
