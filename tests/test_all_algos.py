"""Every registered algorithm, on every kind of action space it acts in, in-graph and on the host.

Nothing here names an algorithm: a new one is tested as soon as it is registered, by the set `<algo>_identity`
or else `<algo>`. What learns from data gets some that were played here, mostly rightly; what asks, an expert.
"""

from __future__ import annotations

import importlib
import itertools
import sys

import gymnasium
import numpy as np
import own_data
import own_experts
import pytest
import tensorflow as tf
import tiny_parts
import tiny_team
from gymnasium import spaces
from newcomer import NEWCOMER
from tpu_rules import broken_in_xla, broken_rules
from walked import iterations_of, save_restore_and_repeat, state, trained_until

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.agents.algos.registry import registry as algos
from rl.agents.linear_bandit import LinearBandit
from rl.cli import main
from rl.envs.registry import registry as envs
from rl.hparams.merge import resolve
from rl.hparams.registry import registry as hparams_sets
from rl.ops import loops, random
from rl.parallel import devices
from rl.registry import import_user_modules
from rl.runners.iteration import Iteration

IDENTITY = "Identity-v0"
TINY = {
    # action space: its options, good return, steps of training for each step of the algorithm's set
    spaces.Discrete: ({}, 18.0, 1),  # 20 at best, 5 at random
    spaces.Box: ({"continuous": True}, 19.0, 4),  # 20 at best, 13.3 for standing still
}
BACKENDS = ("graph", "gym")
RECURRENT = ("lstm", "gru")
# Those that take long to compile: `make test` has one of the cases of each in all.
HEAVY = {"alphazero", "dreamer", "maml", "mbmpo", "mbpo", "muzero", "pearl", "rsac", "world_models"}


@pytest.fixture(autouse=True)
def _tiny_environments():
    """Registered for these tests alone."""
    envs.register(tiny_parts.Parts)
    gymnasium.register(tiny_parts.ENV_ID, entry_point=tiny_parts.PartsGym, max_episode_steps=20)
    envs.register(tiny_team.TinyTeam)
    yield
    for name in (tiny_parts.ENV_ID, tiny_team.ENV_ID):
        envs._entries().pop(name)
        gymnasium.registry.pop(name, None)


def cases():
    """(algorithm, kind of action space) for all that are registered now."""
    kinds = {name: tiny_team.GOOD.get(get_algo(name).hparams_type.view, TINY) for name in algos.names()}
    kinds |= {name: get_algo(name).action_spaces for name in kinds if particular(name)}
    return [(name, each) for name in kinds for each in kinds[name] if each in get_algo(name).action_spaces]


def particular(algo):
    """Whether an algorithm plays environments of one sort alone: then its set `<algo>_identity` names one."""
    name = f"{algo}_identity"
    return name in hparams_sets and hparams_sets.get(name)().env != IDENTITY


def sees_itself(algo):
    """Whether an algorithm plays environments of one agent."""
    return get_algo(algo).hparams_type.view == "rows"


ALONE = [name for name in algos.names() if sees_itself(name) and not particular(name)]


def played(backend):
    """Where an algorithm plays. What plays in-graph is evaluated by a traced function: one for LiteRT takes
    longer to convert than it plays here, and the walk on the host has it."""
    return {"env_backend": backend} | ({"act_backend": "compiled"} if backend == "graph" else {})


def settings(algo, kind, backend):
    """(named set, overrides) for an algorithm on the tiny environment of its kind."""
    if particular(algo):
        return f"{algo}_identity", played(backend)
    if not sees_itself(algo):
        return algo, tiny_team.settings(get_algo(algo).hparams_type, kind) | played(backend)
    name = f"{algo}_identity" if f"{algo}_identity" in hparams_sets else algo
    options, _, factor = TINY[kind]
    steps = hparams_sets.get(name)().train_steps if name.endswith("_identity") else 8_000
    there = {"env": IDENTITY, "env_kwargs": options, "train_steps": factor * steps}
    return name, with_others(algo, there | played(backend))


def offline(algo):
    """Whether an algorithm learns from data."""
    return get_algo(algo).hparams_type().offline


def taught(algo):
    """Whether an algorithm learns from an expert that it asks."""
    return get_algo(algo).hparams_type().taught


def with_others(algo, overrides):
    """The overrides, for an algorithm that learns from others with data or an expert of that environment."""
    env, kwargs, kind = overrides["env"], overrides.get("env_kwargs", {}), get_algo(algo).hparams_type()
    if kind.taught:
        return overrides | {"expert": own_experts.tiny(env, **kwargs)}
    needed = kind.offline or kind.demonstrated
    return overrides | ({"data": own_data.tiny(env, **kwargs)} if needed else {})


def ids(each):
    return getattr(each, "__name__", each)


def backends(name):
    """Where an algorithm is walked: what learns from data plays nothing; what searches or adapts, and
    `TinyTeam`, are in-graph alone."""
    kind = get_algo(name).hparams_type
    alone = offline(name) or kind.searches or kind.adapts or not sees_itself(name)
    return ("graph",) if alone else BACKENDS


def family(name):
    """What an algorithm shares with its siblings: the last base that it has before `Agent`."""
    bases = get_algo(name).__mro__
    return bases[bases.index(Agent) - 1]


def first_of_each(cases, key):
    """Params of cases, of which `make test` runs the first of each key, `make test-all` the others too; those
    of key None are of the others."""
    seen, params = {None}, []
    for case in cases:
        params.append(pytest.param(*case, marks=pytest.mark.slow if key(*case) in seen else []))
        seen.add(key(*case))
    return params


def is_shown_to_xla(algo):
    """Whether the walk compiles an algorithm's loop by XLA, too: the first one's of those that learn from the
    same. tests/systems/test_tpu_rules.py, which is slow, does so with every one, in every environment."""
    quick = [each for each in algos.names() if each not in HEAVY]
    return algo == next((x for x in quick if get_algo(x).experience == get_algo(algo).experience), None)


def walk():
    """(algorithm, kind of action space, backend): all in-graph with the first kind, the others in one of each
    experience where it is no algorithm's first; on the host one of each experience but sequences, with its
    first kind."""
    first_kind = dict(reversed(cases()))
    walked = {(get_algo(name).experience, kind) for name, kind in first_kind.items()}

    def differs(name, kind, backend):
        if name in HEAVY:
            return name
        if backend != "graph":
            experience = get_algo(name).experience
            return None if particular(name) or taught(name) or experience == "sequence" else experience
        if kind is first_kind[name]:
            return name
        case = get_algo(name).experience, kind
        return None if case in walked else case

    return first_of_each([(*case, backend) for case in cases() for backend in backends(case[0])], differs)


def few_updates(algo):
    """Overrides for a walk that does not ask how well an algorithm learns."""
    few = {"updates_per_iteration": 2, "epochs": 1, "minibatches": 2, "simulations": 4}
    return {name: value for name, value in few.items() if name in get_algo(algo).hparams_type.model_fields}


DISCRETE = [name for name, kind in cases() if kind is spaces.Discrete and name in ALONE]


def test_every_algorithm_acts_in_a_space_that_is_walked():
    assert {name for name, _ in cases()} == set(algos.names())


@pytest.fixture
def traced(monkeypatch):
    """What runners compile from now on, as concrete functions."""
    found, concrete = [], devices.concrete

    def noting(*arguments, **options):
        found.append(concrete(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(devices, "concrete", noting)
    return found


def is_in_use(function):
    """Not that of an expert that was trained before, and is gone."""
    return all(variable() is not None for variable in function.graph._weak_variables)


def assert_a_tpu_takes(loop, by_xla):
    """Holds a compiled loop, of graph or XLA, to the rules of tests/tpu_rules.py; where `by_xla`, what XLA
    makes of it as well."""
    assert broken_rules(loop) == []
    if not by_xla:
        return
    signature = loop.structured_input_signature[0]
    function = tf.function(lambda *inputs: loop(*inputs), signature, jit_compile=True, autograph=False)
    arguments = tf.constant(1), tf.constant(loops.MetricPack.empty())
    assert broken_in_xla(function, *arguments) == []


@pytest.mark.parametrize(("algo", "kind", "backend"), walk(), ids=ids)
def test_it_learns_and_is_saved_and_restored_whole_and_repeats_itself(
    build, tmp_path, traced, algo, kind, backend
):
    """And what trains in-graph or from data is what a TPU takes."""
    name, overrides = settings(algo, kind, backend)
    # How well a particular one learns, its own tests and bars say; a heavy one, its walk on the host.
    left_to_the_host = algo in HEAVY and backend == "graph" and len(backends(algo)) > 1
    unbarred = left_to_the_host or particular(algo)
    if unbarred:
        overrides |= few_updates(algo)
    runner, before = save_restore_and_repeat(build, tmp_path, name, overrides)
    agent = runner.agent
    if unbarred:
        windows = [runner.run(min(8, iterations_of(runner) // 8))]
    else:
        good = TINY[kind][1] if sees_itself(algo) else tiny_team.GOOD[agent.hparams.view][kind]
        windows = trained_until(runner, good, 8)
    assert sum(sums["updates"] for sums in windows) > 0
    assert all(np.isfinite(value) for sums in windows for value in sums.values()), windows
    after = state(runner)
    for key, value in after.items():
        assert np.isfinite(value).all() or value.dtype.kind != "f", key
    assert all((after[key] != before[key]).any() for key in agent.policy_variables if key.endswith("kernel"))
    if backend == "graph":
        assert_a_tpu_takes(next(filter(is_in_use, traced)), by_xla=is_shown_to_xla(algo))


def test_it_learns_in_bfloat16_too(build):
    name, overrides = settings("iqn", spaces.Discrete, "graph")
    runner = build(name, **overrides, **{"model.precision": "bfloat16"})
    trained_until(runner, TINY[spaces.Discrete][1])


def parts_cases():
    """(algorithm, kind of action space, kind of observation, backend, how it is compiled). Dicts are where
    masks are, too; updates from data run eagerly."""
    found = []
    for name in ALONE:
        if issubclass(get_algo(name), LinearBandit):  # joins parts without a network
            continue
        kind = spaces.Discrete if spaces.Discrete in get_algo(name).action_spaces else spaces.Box
        ways = ("eager",) if offline(name) else ("graph", "xla")
        found += [(name, kind, "tuple", "graph", each) for each in ways]
        if kind is spaces.Box:
            found += [(name, spaces.Box, "dict", each, "graph") for each in backends(name) if each == "gym"]

    def differs(name, *case):
        if name in HEAVY or taught(name) or offline(name):  # of the last, the walk of legal actions has some
            return None
        return None if "xla" in case else (family(name), case[1:])  # which takes 14 s to compile

    return first_of_each(found, differs)


def parts_settings(algo, backend, form, actions):
    """(named set, overrides) for an algorithm where observations have parts of all kinds."""
    name, overrides = settings(algo, spaces.Box if actions == "box" else spaces.Discrete, backend)
    overrides |= {"env": tiny_parts.ENV_ID, "env_kwargs": {"form": form, "actions": actions}}
    return name, with_others(algo, overrides) | {"model.part_hidden": (8,)}


@pytest.mark.parametrize(
    ("algo", "backend"),
    first_of_each(
        [(name, backend) for name in DISCRETE for backend in backends(name)],
        lambda name, backend: None if name in HEAVY else (backend == "graph" and family(name), backend),
    ),
)
def test_it_learns_with_legal_actions_alone(build, monkeypatch, algo, backend):
    """Half of the legal actions are right. Gymnasium's form of the environment raises at an illegal one."""
    learn = Iteration.learn

    def learn_and_count(self, trajectory, seed, *rest):
        mask = tf.cast(trajectory.observation["action_mask"][:-1], tf.float32)  # [T, B, A]
        chosen = tf.gather(mask, trajectory.action, axis=-1, batch_dims=2)
        illegal = tf.reduce_sum((1.0 - chosen) * trajectory.mask)
        return learn(self, trajectory, seed, *rest) | {"illegal": illegal}

    monkeypatch.setattr(Iteration, "learn", learn_and_count)
    name, overrides = parts_settings(algo, backend, "dict", "masked")
    runner = build(name, **overrides)
    windows = trained_until(runner, 17.0)  # 20 at best, 10 at random
    if not offline(algo):
        assert sum(sums["transitions"] for sums in windows) >= 100
        assert sum(sums["illegal"] for sums in windows) == 0.0
    assert all(np.isfinite(value) for sums in windows for value in sums.values()), windows


@pytest.mark.parametrize(
    "algo", [each for each in ALONE if spaces.MultiDiscrete in get_algo(each).action_spaces]
)
def test_each_of_several_discrete_actions_is_legal(algo):
    space, count = spaces.MultiDiscrete([2, 5, 3]), 200
    shown = spaces.Dict({"action_mask": spaces.MultiBinary(10), "noise": spaces.Box(-1.0, 1.0, (3,))})
    agent = get_algo(algo)(resolve(algo, {"env": "Test-v0", "num_envs": count}), shown, space, 0)
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2, (count, 10))
    mask[:, [0, 2, 9]] |= ~np.stack([mask[:, :2].any(1), mask[:, 2:7].any(1), mask[:, 7:].any(1)], 1)
    noise = tf.constant(rng.normal(size=(count, 3)), tf.float32)
    observation = {"action_mask": tf.constant(mask, tf.int32), "noise": noise}
    for training in (True, False):
        now = (random.key(0), tf.constant(0, tf.int64), training)
        action = agent.act(observation, agent.initial_state(count), *now)[0].numpy()
        for column, first in enumerate((0, 2, 7)):
            assert mask[np.arange(count), first + action[:, column]].all()
            assert len(set(action[:, column])) == space.nvec[column]


@pytest.mark.parametrize(("algo", "kind", "form", "backend", "way"), parts_cases(), ids=ids)
def test_it_takes_observations_with_parts_of_all_kinds(build, algo, kind, form, backend, way):
    name, overrides = parts_settings(algo, backend, form, "box" if kind is spaces.Box else "discrete")
    if offline(algo):
        overrides |= {"updates_per_iteration": 4}
    runner = build(name, **overrides, compile=way)
    agent = runner.agent
    before = {key: np.array(each.numpy()) for key, each in agent.policy_variables.items()}
    # Long enough for updates: the longer training of continuous actions would make it four times that.
    sums = runner.run(4 if offline(algo) else iterations_of(runner) // (8 * TINY[kind][2]))
    assert sums["updates"] > 0 and all(np.isfinite(value) for value in sums.values()), sums
    kernels = [key for key in before if key.endswith("kernel")]
    assert len([key for key in kernels if "part_" in key]) >= 4
    assert all((agent.policy_variables[key].numpy() != before[key]).any() for key in kernels)


def recurrent_cases():
    """(algorithm, model, backend): each model and each backend of every algorithm; `make test` runs one case
    of each family, but of what learns from sequences (walked above), and teams (test_joint_sequences.py)."""
    names = [name for name in algos.names() if get_algo(name).recurrent]
    found = [(name, *rest) for name in names for rest in itertools.product(RECURRENT, BACKENDS)]
    found = [(name, model, backend) for name, model, backend in found if backend in backends(name)]
    walked = {name for name in names if offline(name) or get_algo(name).experience == "sequence"}
    return first_of_each(found, lambda name, *_: family(name) if name in {*ALONE} - walked else None)


@pytest.mark.parametrize(("algo", "model", "backend"), recurrent_cases())
def test_with_memory_it_is_saved_and_restored_whole_and_repeats_itself(build, tmp_path, algo, model, backend):
    name, overrides = settings(algo, get_algo(algo).action_spaces[0], backend)
    overrides |= {"model.name": model, "model.hidden": (8,), "model.recurrent_units": 8} | few_updates(algo)
    runner, _ = save_restore_and_repeat(build, tmp_path, name, overrides)
    assert tf.nest.flatten(runner.agent.initial_state(1))


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    """A module with an algorithm and its hparams, in a folder of the user's; what it registers is undone."""
    name = "newcomer_of_a_test"
    (tmp_path / f"{name}.py").write_text(NEWCOMER.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    algos._entries().pop(name, None)
    hparams_sets._entries().pop(f"{name}_identity", None)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()


def test_a_newcomer_is_walked_as_soon_as_it_is_registered(newcomer, build):
    assert newcomer not in algos
    import_user_modules([newcomer])
    assert (newcomer, spaces.Discrete) in cases()
    assert settings(newcomer, spaces.Discrete, "graph")[0] == f"{newcomer}_identity"
    for backend in BACKENDS:
        name, overrides = settings(newcomer, spaces.Discrete, backend)
        runner = build(name, **overrides)
        first, second = runner.run(1), runner.run(4)
        assert second["loss"] / second["updates"] < first["loss"]


@pytest.mark.slow
def test_a_newcomer_is_trained_and_tested_from_the_command_line(
    newcomer, command, tmp_path, monkeypatch, capsys
):
    words = ["--user_modules", newcomer]
    listed = command(*words, "--list", "algos", cwd=tmp_path)
    assert f"{newcomer}  The newcomer's first line." in listed.stdout
    words += ["--hparams", f"{newcomer}_identity", "--hparam_override", "preference=0.9,compile=graph"]
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--output_dir", "out", "--test_episodes", "2"]) == 0
    assert (tmp_path / "out/run_0/checkpoints/step_000000000512").is_dir()
    assert "return, last checkpoint" in capsys.readouterr().out
