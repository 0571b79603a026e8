"""The bars beside what rl-baselines3-zoo states, in its own words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bars

from rl.hparams.merge import named
from rl.hparams.registry import registry

pytestmark = pytest.mark.slow  # of scripts that are run by hand

# Lines of benchmark.md at commit 22e3ff2 (algo, env, mean reward, steps): those of which there is a set here.
# ARS' HalfCheetah is "12M" there, 1.25e7 in its settings.
ZOO = """
a2c Acrobot-v1 -83.353 500k              a2c CartPole-v1 500.000 500k
a2c Pendulum-v1 -162.965 1M              ars Acrobot-v1 -82.884 500k
ars CartPole-v1 500.000 50k              ars HalfCheetah-v3 4815.192 12.5M
ars Hopper-v3 3343.919 7M                ars LunarLanderContinuous-v2 167.959 2M
ars MountainCarContinuous-v0 96.672 500k ars Walker2d-v3 2993.582 75M
ddpg LunarLanderContinuous-v2 230.217 300k
ddpg MountainCarContinuous-v0 93.512 300k
ddpg Pendulum-v1 -152.099 20k            dqn Acrobot-v1 -76.639 100k
dqn CartPole-v1 500.000 50k              dqn LunarLander-v2 154.382 100k
dqn MountainCar-v0 -100.849 120k         ppo Acrobot-v1 -73.506 1M
ppo BipedalWalker-v3 287.939 5M          ppo CartPole-v1 500.000 100k
ppo HalfCheetah-v3 5819.099 1M           ppo Hopper-v3 2410.435 1M
ppo LunarLander-v2 242.119 1M            ppo LunarLanderContinuous-v2 270.863 1M
ppo MountainCar-v0 -110.423 1M           ppo MountainCarContinuous-v0 88.343 20k
ppo Pendulum-v1 -172.225 100k            ppo Walker2d-v3 3478.798 1M
ppo CartPoleNoVel-v1 500.000 100k        ppo PendulumNoVel-v1 -217.933 100k
qrdqn Acrobot-v1 -69.135 100k            qrdqn CartPole-v1 500.000 50k
qrdqn LunarLander-v2 70.236 100k         qrdqn MountainCar-v0 -106.042 120k
sac BipedalWalker-v3 297.668 500k        sac HalfCheetah-v3 9535.451 1M
sac Hopper-v3 2325.547 1M                sac LunarLanderContinuous-v2 260.390 500k
sac MountainCarContinuous-v0 94.679 50k  sac Pendulum-v1 -156.995 20k
sac Walker2d-v3 3863.203 1M              td3 BipedalWalker-v3 305.990 1M
td3 HalfCheetah-v3 9655.666 1M           td3 Hopper-v3 3606.390 1M
td3 LunarLanderContinuous-v2 207.451 300k
td3 MountainCarContinuous-v0 93.483 300k td3 Pendulum-v1 -151.855 20k
td3 Walker2d-v3 4717.823 1M
"""
STRICTER = {"ppo_mountaincar", "qrdqn_lunarlander", "qrdqn_mountaincar"}  # another source says more


def zoo() -> dict[tuple[str, str], tuple[float, int]]:
    """(algo, environment without its version) -> (score, steps)."""
    words, found = ZOO.split(), {}
    for algo, env, score, steps in zip(*(iter(words),) * 4, strict=True):
        number = float(steps[:-1]) * {"k": 1e3, "M": 1e6}[steps[-1]]
        found[algo, env.rpartition("-")[0]] = float(score), int(number)
    return found


def sets() -> dict[tuple[str, str], str]:
    """(algo, environment without its version) -> the set named after both."""
    found = {}
    for name in registry.names():
        hparams = named(name)
        if hparams.env and name.startswith(f"{hparams.algo}_"):
            found.setdefault((hparams.algo, hparams.env.rpartition("-")[0]), name)
    return found


@pytest.mark.parametrize("pair", zoo(), ids="_".join)
def test_the_bar_is_the_score_that_the_zoo_states_within_its_steps(pair):
    score, steps = zoo()[pair]
    name = sets()[pair]
    bar = bars.bar_of(name)
    digits = 0 if score > 1000.0 else 1
    assert bar.steps == steps, name
    if name in STRICTER:
        assert bar.mean_return > score
    else:
        assert bar.source.split(",")[0] == "Z"
        assert bar.mean_return == round(score, digits)
