"""What can be said of a run's environment before TensorFlow, which takes seconds, is imported."""

from __future__ import annotations

from typing import Any

from rl.agents.algos.registry import action_spaces_of
from rl.envs.gym_ids import IN_GRAPH, gym_has, gym_look, gym_spec, pictures_of_ale
from rl.envs.make import chosen_backend, eval_envs_of
from rl.envs.of_data import check_data, check_expert
from rl.report.video import headless_setup
from rl.spaces import check_action_space


def check_environment(hparams: Any, training: bool = True, workers: bool = False) -> None:
    """Finds the environment, looks at it as evaluation has it, and asks whether the algorithm can act in it;
    finds the data that it learns from in place of it, and the run that it asks.

    Raises:
        UsageError: there are no data, or no such run; no backend has that id, or not the one that is to
            train; it cannot be made; the algorithm cannot act in it.
    """
    backend, chosen, wrappers = hparams.env_backend, "", hparams.env_wrappers
    if training and (hparams.offline or hparams.demonstrated or hparams.data):
        check_data(hparams)
    if training and hparams.taught:
        check_expert(hparams)
    if not hparams.env:  # all there is are data
        return
    if training and not hparams.offline:
        chosen = chosen_backend(hparams.env, "host" if workers and backend == "auto" else backend, wrappers)
    headless_setup()
    space = None
    if gym_has(hparams.env) and not pictures_of_ale(hparams.env, hparams.env_kwargs):
        if str(gym_spec(hparams.env).entry_point).startswith(IN_GRAPH):
            return
        look = gym_look(hparams.env, hparams.env_kwargs, wrappers)
        if look is None and chosen == "graph":  # options: what is in-graph knows the nearest ones
            return
        space = None if look is None else look.action_space
    if space is None:  # not made by Gymnasium, or it cannot be made, which this says
        env = eval_envs_of(hparams, 1)
        env.close()
        space = env.action_space
    check_action_space(hparams, action_spaces_of(hparams.algo), space)
