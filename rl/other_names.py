"""What other libraries call things, for error messages that name ours."""

from __future__ import annotations

import re

# Of Stable-Baselines3, RLlib, CleanRL, Dopamine: in lower case -> the hparam here.
HPARAMS = {
    "learning_rate": "lr",
    "discount": "gamma",
    "discount_factor": "gamma",
    "n_envs": "num_envs",
    "num_env": "num_envs",
    "n_steps": "rollout_length",
    "num_steps": "rollout_length",
    "rollout_fragment_length": "rollout_length",
    "total_timesteps": "train_steps",
    "n_timesteps": "train_steps",
    "timesteps": "train_steps",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "update_epochs": "epochs",
    "n_minibatches": "minibatches",
    "num_minibatches": "minibatches",
    "minibatch_size": "minibatches",
    "ent_coef": "entropy_coef",
    "entropy_coeff": "entropy_coef",
    "vf_coef": "value_coef",
    "vf_loss_coeff": "value_coef",
    "clip_coef": "clip_range",
    "clip_param": "clip_range",
    "lambda": "gae_lambda",
    "lambda_": "gae_lambda",
    "buffer_size": "replay_capacity",
    "memory_size": "replay_capacity",
    "learning_starts": "min_replay_size",
    "min_replay_history": "min_replay_size",
    "gradient_steps": "updates_per_iteration",
    "target_update_interval": "target_update_period",
    "target_network_frequency": "target_update_period",
    "exploration_final_eps": "exploration_epsilon_end",
    "exploration_initial_eps": "exploration_epsilon_start",
    "epsilon": "exploration_epsilon_end",
    "net_arch": "model.hidden",
    "fcnet_hiddens": "model.hidden",
    "hidden_sizes": "model.hidden",
    "hidden": "model.hidden",
    "activation_fn": "model.activation",
    "deterministic": "eval_policy",
    "explore": "eval_policy",
}
FLAGS = {
    "--algo": "--hparams",
    "--algorithm": "--hparams",
    "--run": "--hparams",
    "--config": "--hparams",
    "--env-id": "--env",
    "--env_id": "--env",
    "--gym-id": "--env",
    "--total_timesteps": "--train_steps",
    "--total-timesteps": "--train_steps",
    "--timesteps": "--train_steps",
    "--steps": "--train_steps",
    "--log_dir": "--output_dir",
    "--logdir": "--output_dir",
    "--log-folder": "--output_dir",
    "--checkpoint_dir": "--output_dir",
    "--workers": "--num_workers",
    "--num-workers": "--num_workers",
    "--deterministic": "--eval_policy",
    "--stochastic": "--eval_policy",
    "--capture_video": "--record_video",
    "--capture-video": "--record_video",
}
_OLD_ATARI = re.compile(r"(\w+?)(-ram)?(?:NoFrameskip|Deterministic)?-v[04]")
_PETTING_ZOO = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*_v\d+")


def environment_meant(env_id: str, known: set[str]) -> str | None:
    """Words on an unknown environment's id that is another library's: an older Atari id, PettingZoo's."""
    atari = _OLD_ATARI.fullmatch(env_id)
    if atari and f"{atari[1]}{atari[2] or ''}-v5" in known:
        return f"did you mean {atari[1]}{atari[2] or ''}-v5?"
    if _PETTING_ZOO.fullmatch(env_id):
        return f"it looks like PettingZoo's: take pettingzoo:classic/{env_id}, or the module's name there"
    return None
