"""What is hardly meant of a run, said before it begins: of its hparams, its environment, its data."""

from __future__ import annotations

import contextlib
import logging

from rl.envs.graph.tasks import TaskEnv
from rl.envs.gym_ids import left_out
from rl.envs.make import eval_envs_of
from rl.envs.of_data import data_hint
from rl.envs.registry import registry as graph_envs
from rl.errors import UsageError
from rl.hparams.hints import action_hint, hints, picture_hint, task_hint, text_hint
from rl.hparams.hparams import HParams

log = logging.getLogger("rl")


def tell_hints(hparams: HParams) -> None:
    """Warns of what is hardly meant; to be called once, where a run begins and not where it goes on."""
    told = hints(hparams)
    if not hparams.env:
        told.append("no environment is named (--env): what is learned from the data is not evaluated")
    told += filter(None, [data_hint(hparams)])
    with contextlib.suppress(UsageError):
        told += filter(None, [text_hint(hparams.env, left_out(hparams))] if hparams.env else [])
    if hparams.env in graph_envs:
        made_by = graph_envs.get(hparams.env)
        has_tasks = isinstance(made_by, type) and issubclass(made_by, TaskEnv)
        told += filter(None, [task_hint(hparams, has_tasks)])
    if hparams.env and hparams.model.name == "mlp":
        with contextlib.suppress(UsageError):  # for whoever builds the run to say
            env = eval_envs_of(hparams, 1)
            env.close()
            both = picture_hint(hparams, env.observation_space), action_hint(hparams, env.action_space)
            told += filter(None, both)
    for hint in told:
        log.warning("%s", hint)
