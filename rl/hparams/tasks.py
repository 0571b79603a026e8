"""What each task asks for, whatever learns it: how long to train, how often to evaluate, how to see it.

Tables by what the algorithms learn from, because replay needs about a tenth of the steps that rollouts do,
populations play whole episodes, and the steps of those that learn from data are gradient updates. A set
begins with its task and says what it has otherwise: `A2CHParams.of(ROLLOUT["CartPole-v1"], lr=1e-3)`.
"""

from __future__ import annotations

from typing import Any

Table = dict[str, dict[str, Any]]


def _with_ids(table: Table) -> Table:
    """Returns the table with each environment's id among its own hparams."""
    return {env: {"env": env, **values} for env, values in table.items()}


# vpg, trpo, a2c, ppo, ppg, impala, appo, vmpo, pqn
ROLLOUT = _with_ids(
    {
        "CartPole-v1": dict(train_steps=500_000, eval_period=50_000),
        "CartPoleNoVel-v1": dict(train_steps=1_000_000, eval_period=100_000),
        "Acrobot-v1": dict(train_steps=500_000, eval_period=50_000, normalize_observation=True),
        "MountainCar-v0": dict(
            train_steps=1_000_000,
            eval_period=100_000,
            reward_augmentation="mountain_car_default",
            normalize_observation=True,
        ),
        "Pendulum-v1": dict(train_steps=1_000_000, eval_period=100_000, normalize_reward=True, gamma=0.95),
        "LunarLander-v3": dict(train_steps=999_424, eval_period=200_000, gamma=0.999),  # whole rollouts
        "LunarLanderContinuous-v3": dict(train_steps=999_424, eval_period=200_000, gamma=0.999),
        "SimpleSpread-v0": dict(train_steps=2_000_000, eval_period=200_000, log_period=20_000),
        "Identity-v0": dict(train_steps=8_192, log_period=1_000, num_envs=8, gamma=0.0),
    }
)

# dqn and its kin, r2d2, ddpg, td3, sac, rsac, sac_discrete
MUJOCO = dict(train_steps=1_000_000, eval_period=10_000)
REPLAY = _with_ids(
    {
        "CartPole-v1": dict(train_steps=50_000, eval_period=10_000),
        "Acrobot-v1": dict(train_steps=100_000, eval_period=20_000),
        "MountainCar-v0": dict(train_steps=120_000, eval_period=20_000, gamma=0.98),
        "MountainCarContinuous-v0": dict(
            train_steps=50_000, eval_period=5_000, reward_augmentation="mountain_car_energy"
        ),
        "Pendulum-v1": dict(train_steps=20_000, eval_period=2_000, log_period=2_000),
        "LunarLander-v3": dict(train_steps=100_000, eval_period=20_000),
        "LunarLanderContinuous-v3": dict(train_steps=300_000, eval_period=25_000),
        "BipedalWalker-v3": dict(train_steps=500_000, eval_period=25_000, gamma=0.98),
        "SimpleSpread-v0": dict(train_steps=1_000_000, eval_period=100_000, log_period=10_000, gamma=0.95),
        "SimpleTag-v0": dict(train_steps=1_000_000, eval_period=100_000, log_period=10_000, gamma=0.95),
        "HalfCheetah-v5": MUJOCO,
        "Hopper-v5": MUJOCO,
        "Walker2d-v5": MUJOCO,
        "Identity-v0": dict(
            train_steps=4_000, log_period=1_000, gamma=0.0, min_replay_size=100, num_envs=8, rollout_length=4
        ),
    }
)

# es, ars: train_steps are whole iterations of a population
PARAMETERS = _with_ids(
    {
        "CartPole-v1": dict(train_steps=49_600, eval_period=10_000, log_period=5_000, rollout_length=200),
        "Acrobot-v1": dict(train_steps=496_000, eval_period=100_000, log_period=50_000, rollout_length=500),
        "MountainCarContinuous-v0": dict(
            train_steps=495_504, eval_period=100_000, log_period=50_000, rollout_length=999
        ),
        "Pendulum-v1": dict(train_steps=10_000_000, eval_period=1_000_000, rollout_length=200),
        "Identity-v0": dict(
            train_steps=12_800, log_period=1_000, normalize_observation=False, rollout_length=20
        ),
    }
)

# what learns from data: the steps are gradient updates
_LOCOMOTION = dict(train_steps=1_000_000, eval_period=50_000, log_period=10_000)
OFFLINE = _with_ids(
    {
        "CartPole-v1": dict(train_steps=20_000, eval_period=5_000, log_period=1_000),
        "Pendulum-v1": dict(train_steps=20_000, eval_period=5_000, log_period=1_000),
        "HalfCheetah-v5": _LOCOMOTION,
        "Hopper-v5": _LOCOMOTION,
        "Identity-v0": dict(train_steps=1_000, log_period=250, gamma=0.0, updates_per_iteration=10),
    }
)
# What most papers on learning from MuJoCo's data share.
OFFLINE_LOCOMOTION: dict[str, Any] = dict(
    model=dict(hidden=(256, 256), activation="relu", init="torch"),
    train_steps=1_000_000,
    batch_size=256,
    gamma=0.99,
    tau=0.005,
    lr=3e-4,
)
CONTINUOUS: dict[str, Any] = dict(env_kwargs={"continuous": True})  # after Identity-v0's
OFFLINE_IDENTITY: dict[str, Any] = OFFLINE["Identity-v0"] | dict(
    model=dict(hidden=(32, 32), activation="relu", init="torch"), lr=3e-3, batch_size=64, tau=0.05
)
