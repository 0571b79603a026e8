"""Hyperparameters and named sets of PPO (`rl/agents/algos/ppo.py`)."""

from __future__ import annotations

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register


class PPOHParams(HParams):
    """PPO for discrete, multi-discrete and continuous actions."""

    algo: str = "ppo"
    rollout_length: PositiveInt = 128
    max_grad_norm: PositiveFloat | None = 0.5

    epochs: PositiveInt = 4  # passes over each rollout
    minibatches: PositiveInt = 4  # per epoch; of a recurrent model groups of environments
    clip_range: PositiveFloat = 0.2  # of the policy ratio around 1
    clip_value_range: PositiveFloat | None = None  # of the value around its old one; None: not clipped
    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    value_coef: Coefficient = 0.5  # weight of the value loss, half the mean square
    gae_lambda: Fraction = 0.95  # generalised advantage estimation's lambda (Schulman et al. 2016)
    normalize_advantage: bool = True  # advantages of a batch get mean 0 and deviation 1
    target_kl: PositiveFloat | None = None  # stop a rollout's updates above it; None: never
    log_std_init: float = 0.0  # continuous actions: logarithm of the initial standard deviation

    def check(self) -> None:
        """Raises UsageError unless the rollout splits into equal minibatches."""
        super().check()
        size = self.num_envs * self.rollout_length
        if size % self.minibatches:
            raise UsageError(
                f"hparam minibatches={self.minibatches} does not divide "
                f"num_envs * rollout_length = {self.num_envs} * {self.rollout_length} = {size}"
            )


@register
def ppo() -> PPOHParams:
    """PPO on any environment with discrete or continuous actions: give --env ID."""
    hparams = PPOHParams()
    hparams.rollout_length = 32
    hparams.epochs = 10
    hparams.value_coef = 1.0  # of half the square
    return hparams


@register
def ppo_cartpole() -> PPOHParams:
    """PPO on CartPole-v1."""
    hparams = PPOHParams()
    hparams.env = "CartPole-v1"
    hparams.train_steps = 100_000
    hparams.eval_period = 25_000
    hparams.num_envs = 8
    hparams.rollout_length = 32
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.gae_lambda = 0.8
    hparams.gamma = 0.98
    hparams.epochs = 5
    hparams.minibatches = 2
    return hparams


@register
def ppo_mountaincar() -> PPOHParams:
    """PPO on MountainCar-v0, shaped reward in training."""
    hparams = PPOHParams()
    hparams.env = "MountainCar-v0"
    hparams.reward_augmentation = "mountain_car_default"
    hparams.normalize_observation = True
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    hparams.num_envs = 16
    hparams.rollout_length = 64
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.gae_lambda = 0.98
    hparams.epochs = 10
    hparams.minibatches = 4
    return hparams


@register
def ppo_pendulum() -> PPOHParams:
    """PPO on Pendulum-v1."""
    hparams = PPOHParams()
    hparams.env = "Pendulum-v1"
    hparams.normalize_reward = True
    hparams.train_steps = 100_000
    hparams.eval_period = 50_000
    hparams.num_envs = 8
    hparams.rollout_length = 256
    hparams.gamma = 0.95
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.epochs = 10
    hparams.minibatches = 16
    return hparams


@register
def ppo_acrobot() -> PPOHParams:
    """PPO on Acrobot-v1."""
    hparams = PPOHParams()
    hparams.env = "Acrobot-v1"
    hparams.normalize_observation = True
    hparams.train_steps = 999_424  # whole rollouts
    hparams.eval_period = 200_000
    hparams.num_envs = 16
    hparams.rollout_length = 256
    hparams.lr = 3e-3
    hparams.lr_schedule = "linear"
    hparams.gae_lambda = 0.94
    hparams.epochs = 4
    hparams.minibatches = 16
    return hparams


@register
def ppo_mountaincar_continuous() -> PPOHParams:
    """PPO on MountainCarContinuous-v0, shaped reward in training."""
    hparams = PPOHParams()
    hparams.env = "MountainCarContinuous-v0"
    hparams.reward_augmentation = "mountain_car_default"
    hparams.normalize_observation = True
    hparams.normalize_reward = True
    hparams.train_steps = 19_968  # whole rollouts, within 20,000
    hparams.eval_period = 5_000
    hparams.num_envs = 4
    hparams.rollout_length = 64
    hparams.epochs = 10
    hparams.minibatches = 8
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.entropy_coef = 0.004
    return hparams


@register
def ppo_cartpole_no_velocity() -> PPOHParams:
    """Recurrent PPO on CartPole without velocities: what is not seen has to be remembered."""
    hparams = PPOHParams()
    hparams.env = "CartPoleNoVel-v1"
    hparams.model.name = "lstm"
    hparams.model.hidden = (64,)
    hparams.normalize_observation = True
    hparams.normalize_reward = True
    hparams.train_steps = 100_000
    hparams.eval_period = 10_000
    hparams.num_envs = 8
    hparams.rollout_length = 64
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.gae_lambda = 0.9
    hparams.gamma = 0.98
    hparams.epochs = 10
    hparams.minibatches = 2
    return hparams


@register
def ppo_pendulum_no_velocity() -> PPOHParams:
    """Recurrent PPO on Pendulum without velocities."""
    hparams = PPOHParams()
    hparams.env = "PendulumNoVel-v1"
    hparams.model.name = "lstm"
    hparams.normalize_reward = True
    hparams.train_steps = 100_000
    hparams.eval_period = 10_000
    hparams.num_envs = 8
    hparams.rollout_length = 128
    hparams.gamma = 0.9
    hparams.lr = 2e-3
    hparams.lr_schedule = "linear"
    hparams.epochs = 10
    hparams.minibatches = 4
    return hparams


@register
def ppo_lunarlander() -> PPOHParams:
    """PPO on LunarLander-v3."""
    hparams = PPOHParams()
    hparams.env = "LunarLander-v3"
    hparams.normalize_observation = True
    hparams.normalize_reward = True
    hparams.train_steps = 999_424  # whole rollouts
    hparams.eval_period = 200_000
    hparams.num_envs = 16
    hparams.rollout_length = 512
    hparams.gamma = 0.999
    hparams.gae_lambda = 0.98
    hparams.entropy_coef = 0.003
    hparams.lr = 6e-4
    hparams.lr_schedule = "linear"
    hparams.epochs = 6
    hparams.minibatches = 64
    return hparams


@register
def ppo_lunarlander_continuous() -> PPOHParams:
    """PPO on LunarLanderContinuous-v3 (rl-baselines3-zoo's settings)."""
    hparams = PPOHParams()
    hparams.env = "LunarLanderContinuous-v3"
    hparams.value_coef = 1.0  # zoo's 0.5 of the whole square is twice that of its half
    hparams.train_steps = 999_424  # whole rollouts
    hparams.eval_period = 200_000
    hparams.num_envs = 16
    hparams.rollout_length = 1_024
    hparams.gamma = 0.999
    hparams.gae_lambda = 0.98
    hparams.entropy_coef = 0.01
    hparams.epochs = 4
    hparams.minibatches = 256
    return hparams


@register
def ppo_bipedalwalker() -> PPOHParams:
    """PPO on BipedalWalker-v3 (rl-baselines3-zoo's settings); not measured here."""
    hparams = PPOHParams()
    hparams.env = "BipedalWalker-v3"
    hparams.value_coef = 1.0  # zoo's 0.5 of the whole square
    hparams.normalize_observation = True
    hparams.normalize_reward = True
    hparams.train_steps = 5_000_000
    hparams.eval_period = 500_000
    hparams.num_envs = 32
    hparams.rollout_length = 2_048
    hparams.gamma = 0.999
    hparams.clip_range = 0.18
    hparams.epochs = 10
    hparams.minibatches = 1_024
    return hparams


def _mujoco(env: str) -> PPOHParams:
    """What rl-baselines3-zoo's settings for MuJoCo have in common."""
    hparams = PPOHParams()
    hparams.env = env
    hparams.model.hidden = (256, 256)
    hparams.model.activation = "relu"
    hparams.model.init = "torch"  # zoo's ortho_init=False: PyTorch's own initial weights
    hparams.normalize_observation = True
    hparams.normalize_reward = True
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    hparams.num_envs = 1
    hparams.rollout_length = 512
    hparams.log_std_init = -2.0
    return hparams


@register
def ppo_halfcheetah() -> PPOHParams:
    """PPO on HalfCheetah-v5 (rl-baselines3-zoo's settings); not measured here."""
    hparams = _mujoco("HalfCheetah-v5")
    hparams.gamma = 0.98
    hparams.gae_lambda = 0.92
    hparams.lr = 2.0633e-5
    hparams.clip_range = 0.1
    hparams.entropy_coef = 0.000401762
    hparams.value_coef = 1.16192  # zoo's 0.58096 of the whole square is twice that of its half
    hparams.max_grad_norm = 0.8
    hparams.epochs = 20
    hparams.minibatches = 8
    return hparams


@register
def ppo_hopper() -> PPOHParams:
    """PPO on Hopper-v5 (rl-baselines3-zoo's settings); not measured here."""
    hparams = _mujoco("Hopper-v5")
    hparams.gamma = 0.999
    hparams.gae_lambda = 0.99
    hparams.lr = 9.80828e-5
    hparams.entropy_coef = 0.00229519
    hparams.value_coef = 1.671342  # zoo's 0.835671 of the whole square
    hparams.max_grad_norm = 0.7
    hparams.epochs = 5
    hparams.minibatches = 16
    return hparams


@register
def ppo_walker2d() -> PPOHParams:
    """PPO on Walker2d-v5 (rl-baselines3-zoo's settings); not measured here."""
    hparams = _mujoco("Walker2d-v5")
    hparams.lr = 5.05041e-5
    hparams.clip_range = 0.1
    hparams.entropy_coef = 0.000585045
    hparams.value_coef = 1.743846  # zoo's 0.871923 of the whole square
    hparams.max_grad_norm = 1.0
    hparams.epochs = 20
    hparams.minibatches = 16
    return hparams


@register
def ppo_catch() -> PPOHParams:
    """PPO on Catch-v0: a test of learning from images that takes seconds."""
    hparams = PPOHParams()
    hparams.env = "Catch-v0"
    hparams.train_steps = 40_000
    hparams.num_envs = 16
    hparams.rollout_length = 32
    hparams.lr = 2.5e-3
    hparams.entropy_coef = 0.01
    return hparams


@register
def ppo_identity() -> PPOHParams:
    """PPO on Identity-v0: the smallest test that anything is learned."""
    hparams = PPOHParams()
    hparams.env = "Identity-v0"
    hparams.train_steps = 8_192
    hparams.num_envs = 8
    hparams.rollout_length = 32
    hparams.gamma = 0.0
    hparams.lr = 3e-3
    hparams.log_period = 1_000
    return hparams
