"""Environment, agent, memory and runner of a run, put together by name."""

from __future__ import annotations

from typing import Any

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.agents.contracts import AsksExpert
from rl.envs.faults import watched
from rl.envs.make import chosen_backend, make_env
from rl.envs.of_data import check_data
from rl.hparams.hparams import HParams
from rl.hparams.league import LEAGUE
from rl.parallel.devices import Devices
from rl.runners.adapting import AdaptingRunner, check_adapts_here
from rl.runners.base import Runner
from rl.runners.curious import check_curious_here, curiosity_of
from rl.runners.from_data import Fingerprint, augmented_data, check_fits, data_beside, fingerprint
from rl.runners.from_expert import Manner, check_asked_here, expert_of
from rl.runners.goals import check_goals_here, goal_reward_of
from rl.runners.in_graph import InGraphRunner
from rl.runners.iteration import Iteration
from rl.runners.parts import make_memory, of_rows, reward_augmentation, start_mode
from rl.runners.searching import SearchRunner, check_searched_here
from rl.runners.self_play import SelfPlayRunner
from rl.runners.sync import SyncRunner
from rl.workers.plan import Workers, check_roles


def build_runner(hparams: HParams, seed: int, workers: Workers | None = None, strategy: Any = None) -> Runner:
    """Builds environment, agent, memory and runner from hparams; with `workers` the environments are theirs.

    strategy: of `tf.distribute`, whose devices share the environments; None: one device.

    Raises:
        UsageError: parts that do not fit together.
    """
    if hparams.offline:
        return _from_data(hparams, seed, workers, strategy)
    make_agent = get_algo(hparams.algo)
    check_roles(make_agent, hparams, workers)
    _check_here(hparams, make_agent.experience, workers, strategy)
    data = data_beside(hparams, workers, strategy)
    if workers is not None:
        from rl.workers.build_async import build_async

        return build_async(hparams, seed, workers)
    devices = Devices(strategy)
    own = devices.part(hparams, make_agent.experience)
    options = hparams.env_kwargs | hparams.train_env_kwargs
    limit, extended = hparams.max_episode_steps, hparams.previous_action_reward
    backend = hparams.env_backend
    played = hparams.num_envs
    wrappers = hparams.env_wrappers
    if devices.count > 1 and chosen_backend(hparams.env, backend, wrappers) == "graph":
        played //= devices.count  # each device plays its own; those of the host are played together
    frames, view = hparams.frame_stack, hparams.view
    made = hparams.env, backend, played, options, limit, extended, frames, wrappers, view
    env = watched(lambda: make_env(*made), hparams)
    own = of_rows(own, env.agents, make_agent.experience)
    with devices.scope():
        agent: Agent = make_agent(own, env.observation_space, env.action_space, seed)
        agent.rows_of_env = env.agents
        if data is not None:
            check_fits(hparams, data, agent)
        expert = expert_of(agent) if isinstance(agent, AsksExpert) else None
        if isinstance(agent, AsksExpert):
            agent.take_expert(expert)
        size = own.num_envs, hparams.rollout_length, env.frame_stack
        augment, curiosity = reward_augmentation(agent), curiosity_of(agent, seed)
        shown = None if data is None else augmented_data(data, augment, hparams.gamma)
        memory = make_memory(agent, *size, shown, goal_reward_of(agent, env))
        in_graph = env.backend == "graph"
        late = hparams.overlap and not in_graph
        iteration = Iteration(agent, memory, seed, augment, late=late, in_graph=in_graph, curiosity=curiosity)
    jit_compile = start_mode(agent, in_graph) == "xla"
    kind = _runner_class(hparams, in_graph, options)
    runner: Runner = kind(env, iteration, jit_compile, devices)
    runner.backend = env.backend
    if data is not None:
        runner.fingerprint = Fingerprint(fingerprint(data), hparams.data)
    if expert is not None:
        runner.manner = Manner(expert, str(hparams.flat()["expert"]))
    return runner


def _from_data(hparams: HParams, seed: int, workers: Workers | None, strategy: Any) -> Runner:
    """Returns the offline runner; arguments as in `build_runner`."""
    if hparams.data_chunk:  # what is imported reads files of a format that the rest need not know
        from rl.runners.chunked import build_chunked

        return build_chunked(hparams, seed, workers, strategy)
    from rl.runners.offline import build_offline

    return build_offline(hparams, seed, workers, strategy)


def _check_here(hparams: HParams, experience: str, workers: Workers | None, strategy: Any) -> None:
    """Raises UsageError where the hparams ask for something that these workers or devices do not support."""
    if hparams.demonstrated:
        check_data(hparams)
    if hparams.taught:
        check_asked_here(hparams, workers, strategy)
    if hparams.curiosity is not None:
        check_curious_here(hparams, experience, strategy)
    if hparams.searches:
        check_searched_here(hparams, workers)
    if hparams.adapts:
        check_adapts_here(hparams, workers)
    if hparams.memory_name == "hindsight":
        check_goals_here(hparams, experience, workers)


def _runner_class(hparams: HParams, in_graph: bool, options: dict[str, Any]) -> Any:
    """Returns the class of the runner. options: of the environment."""
    if hparams.searches:
        return SearchRunner
    if hparams.adapts:
        return AdaptingRunner
    if not in_graph:
        return SyncRunner
    return SelfPlayRunner if options.get("opponent") == LEAGUE else InGraphRunner
