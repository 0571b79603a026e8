"""What other libraries call things, for error messages that name ours."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple


class Ours(NamedTuple):
    """What stands here for a name of another library."""

    name: str  # the hyperparameter here; empty: none, and the note says what to do
    note: str = ""  # why a value cannot be copied as it is; empty: it can


# Of Stable-Baselines3, RLlib, tf-agents, CleanRL, Dopamine, rlpyt: the name in lower case, then `Ours`. Of
# several rows of a name the first counts whose hyperparameter the algorithm has. docs/migration.md has the
# same rows, with what else differs.
_ROWS = (
    ("learning_rate", "lr", ""),
    ("discount", "gamma", ""),
    ("discount_factor", "gamma", ""),
    ("n_envs", "num_envs", ""),
    ("num_env", "num_envs", ""),
    ("n_steps", "n_step", ""),
    ("n_steps", "rollout_length", ""),
    ("num_steps", "rollout_length", ""),
    ("rollout_fragment_length", "rollout_length", ""),
    ("total_timesteps", "train_steps", ""),
    ("n_timesteps", "train_steps", ""),
    ("timesteps", "train_steps", ""),
    ("n_epochs", "epochs", ""),
    ("num_epochs", "epochs", ""),
    ("update_epochs", "epochs", ""),
    ("num_sgd_iter", "epochs", ""),
    ("batch_size", "minibatches", "how many, not how large"),
    ("minibatch_size", "minibatches", "how many, not how large"),
    ("sgd_minibatch_size", "minibatches", "how many, not how large"),
    ("n_minibatches", "minibatches", ""),
    ("num_minibatches", "minibatches", ""),
    ("ent_coef", "entropy_coef", ""),
    ("ent_coef", "temperature", "a fixed one needs learn_temperature=false, too"),
    ("entropy_coeff", "entropy_coef", ""),
    ("entropy_coeff_schedule", "anneal", "the value at the end alone: anneal={entropy_coef:0}"),
    ("entropy_loss_coeff", "entropy_coef", ""),
    ("vf_coef", "value_coef", "of half the mean square: double Stable-Baselines3's, keep CleanRL's"),
    ("vf_loss_coeff", "value_coef", "of half the mean square: double the one of RLlib's PPO"),
    ("value_loss_coeff", "value_coef", ""),
    ("clip_coef", "clip_range", ""),
    ("clip_param", "clip_range", ""),
    ("ratio_clip", "clip_range", ""),
    ("lambda", "gae_lambda", ""),
    ("lambda_", "gae_lambda", ""),
    ("q_lambda", "trace_lambda", ""),
    ("norm_adv", "normalize_advantage", ""),
    ("clip_range_vf", "clip_value_range", ""),
    ("clip_vloss", "clip_value_range", "a number, that of clip_coef, not true"),
    ("vf_clip_param", "clip_value_range", "of the value, not of its squared error"),
    ("anneal_lr", "lr_schedule", "linear, not true"),
    ("linear_lr_schedule", "lr_schedule", "linear, not true"),
    ("target_kl", "max_kl", ""),
    ("buffer_size", "replay_capacity", ""),
    ("memory_size", "replay_capacity", ""),
    ("replay_size", "replay_capacity", ""),
    ("learning_starts", "min_replay_size", "random actions until then need random_steps"),
    ("min_replay_history", "min_replay_size", ""),
    ("min_steps_learn", "min_replay_size", ""),
    ("train_freq", "rollout_length", "the updates that follow are updates_per_iteration"),
    ("train_frequency", "rollout_length", "the updates that follow are updates_per_iteration"),
    ("update_period", "rollout_length", "one update for each needs num_envs=1 and updates_per_iteration=1"),
    ("gradient_steps", "updates_per_iteration", "-1 is num_envs * rollout_length"),
    ("replay_ratio", "updates_per_iteration", "times num_envs * rollout_length / batch_size"),
    ("target_update_interval", "target_update_period", "in gradient updates, not in environment steps"),
    ("target_update_interval", "", "leave it out: without target_update_period, targets follow by tau"),
    ("target_network_frequency", "target_update_period", "in gradient updates, not in environment steps"),
    ("target_network_frequency", "", "leave it out: without target_update_period, targets follow by tau"),
    ("target_network_update_freq", "target_update_period", "in gradient updates, not in environment steps"),
    ("target_network_update_freq", "", "leave it out: without target_update_period, targets follow by tau"),
    ("target_update_tau", "tau", ""),
    ("exploration_initial_eps", "exploration_epsilon_start", ""),
    ("exploration_final_eps", "exploration_epsilon_end", ""),
    ("exploration_fraction", "exploration_steps", "in environment steps: times train_steps"),
    ("start_e", "exploration_epsilon_start", ""),
    ("end_e", "exploration_epsilon_end", ""),
    ("eps_init", "exploration_epsilon_start", ""),
    ("eps_final", "exploration_epsilon_end", ""),
    ("eps_steps", "exploration_steps", ""),
    ("eps_eval", "evaluation_epsilon", ""),
    ("epsilon", "exploration_epsilon_end", "it falls from exploration_epsilon_start in exploration_steps"),
    (
        "epsilon_greedy",
        "exploration_epsilon_end",
        "to keep it constant, exploration_epsilon_start is the same",
    ),
    ("epsilon_train", "exploration_epsilon_end", ""),
    ("epsilon_eval", "evaluation_epsilon", ""),
    ("epsilon_decay_period", "exploration_steps", "from the first step on, in steps of all environments"),
    ("action_noise", "exploration_noise", "a number, its standard deviation; none at all is 0"),
    ("target_policy_noise", "target_noise", ""),
    ("policy_noise", "target_noise", ""),
    ("noise_clip", "target_noise_clip", ""),
    ("policy_delay", "policy_update_period", ""),
    ("info_keywords", "info_keys", ""),
    ("policy_frequency", "policy_update_period", ""),
    ("policy_frequency", "", "leave it out: every update is one of the policy, too"),
    ("policy_lr", "lr", ""),
    ("actor_lr", "lr", ""),
    ("q_lr", "critic_lr", ""),
    ("alpha_lr", "temperature_lr", ""),
    ("alpha", "temperature", "a fixed one needs learn_temperature=false, too"),
    ("initial_alpha", "temperature", ""),
    ("autotune", "learn_temperature", ""),
    ("n_critics", "critics", ""),
    ("n_critics", "", "leave it out: sac and td3 have two critics, ddpg one"),
    ("twin_q", "", "leave it out: sac and td3 have two critics, ddpg one"),
    ("n_quantiles", "quantiles", ""),
    ("top_quantiles_to_drop_per_net", "dropped_quantiles", ""),
    ("n_sampled_goal", "hindsight_goals", ""),
    ("double_q", "double", ""),
    ("double_dqn", "double", ""),
    ("sigma0", "noisy_sigma", ""),
    ("num_atoms", "atoms", ""),
    ("n_atoms", "atoms", ""),
    ("v_min", "value_min", ""),
    ("v_max", "value_max", ""),
    ("vmax", "value_max", "its negative is value_min"),
    ("kappa", "huber_delta", ""),
    ("delta_clip", "huber_delta", ""),
    ("num_tau_samples", "fractions", ""),
    ("num_tau_prime_samples", "target_fractions", ""),
    ("num_quantile_samples", "policy_fractions", ""),
    ("quantile_embedding_dim", "cosines", ""),
    ("update_horizon", "n_step", ""),
    ("n_step_update", "n_step", ""),
    ("n_step_return", "n_step", ""),
    ("replay_scheme", "prioritized", "true for prioritized, false for uniform"),
    ("prioritized_replay", "prioritized", ""),
    ("pri_alpha", "priority_exponent", ""),
    ("pri_beta_init", "importance_sampling_exponent", ""),
    ("pri_beta_final", "importance_sampling_exponent_end", ""),
    ("policy", "model.name", "mlp for MlpPolicy, nature_cnn for CnnPolicy"),
    ("policy_kwargs", "model.hidden", "that is its net_arch; its activation_fn is model.activation"),
    ("net_arch", "model.hidden", "of a dict, pi is model.hidden, vf or qf model.value_hidden"),
    ("fcnet_hiddens", "model.hidden", ""),
    ("hidden_sizes", "model.hidden", ""),
    ("hidden", "model.hidden", ""),
    ("fc_layer_params", "model.hidden", ""),
    ("actor_fc_layers", "model.hidden", ""),
    ("activation_fn", "model.activation", "by name, such as relu"),
    ("fcnet_activation", "model.activation", ""),
    ("ortho_init", "model.init", "orthogonal for true, torch for false"),
    ("use_lstm", "model.name", "lstm, not true"),
    ("lstm_cell_size", "model.recurrent_units", ""),
    ("lstm_hidden_size", "model.recurrent_units", ""),
    ("stack_size", "frame_stack", ""),
    ("deterministic", "eval_policy", "greedy for true, sample for false"),
    ("explore", "eval_policy", "sample for true, greedy for false"),
    ("normalize", "normalize_observation", "and normalize_reward"),
    ("observation_filter", "normalize_observation", "true for MeanStdFilter"),
    ("normalize_observations", "normalize_observation", ""),
    ("normalize_rewards", "normalize_reward", ""),
    ("env_config", "env_kwargs", ""),
    ("env_wrapper", "env_wrappers", "a list, each module:Class"),
    ("max_steps_per_episode", "max_episode_steps", ""),
    ("num_envs_per_env_runner", "num_envs", "times the number of workers where sync_workers=true"),
    ("train_batch_size_per_learner", "batch_size", ""),
    ("train_batch_size_per_learner", "rollout_length", "divided by num_envs"),
    ("train_batch_size", "batch_size", ""),
    ("train_batch_size", "rollout_length", "divided by num_envs"),
    ("grad_clip", "max_grad_norm", ""),
    ("clip_grad_norm", "max_grad_norm", ""),
    ("gradient_clipping", "max_grad_norm", "of all gradients together, not of each"),
    ("num_steps_sampled_before_learning_starts", "min_replay_size", ""),
    ("evaluation_interval", "eval_period", "in environment steps"),
    ("eval_interval", "eval_period", "in environment steps"),
    ("eval_freq", "eval_period", "in steps of all environments together"),
    ("log_interval", "log_period", "in environment steps"),
    ("save_freq", "checkpoint_period", "in seconds"),
    ("num_parallel_environments", "num_envs", ""),
    ("batch_b", "num_envs", ""),
    ("batch_t", "rollout_length", ""),
    ("collect_steps_per_iteration", "rollout_length", "divided by num_envs"),
    ("num_iterations", "train_steps", "in environment steps, not in iterations"),
    ("training_steps", "train_steps", "of all iterations together"),
    ("initial_collect_steps", "min_replay_size", "random actions until then need random_steps"),
    ("max_length", "replay_capacity", "of all environments together: times num_envs"),
    ("sample_batch_size", "batch_size", ""),
    ("importance_ratio_clipping", "clip_range", ""),
    ("lambda_value", "gae_lambda", ""),
    ("entropy_regularization", "entropy_coef", ""),
    ("value_pred_loss_coef", "value_coef", "of half the mean square: double it"),
    ("value_clipping", "clip_value_range", ""),
    ("use_rms_prop", "optimizer", "rmsprop for true, adam for false"),
    ("replay_buffer_class", "memory", "hindsight for HerReplayBuffer"),
    ("optimize_memory_usage", "", "leave it out: each observation is stored once"),
    ("handle_timeout_termination", "", "leave it out: time limits always bootstrap"),
    ("stats_window_size", "", "leave it out: a row is of the episodes since the last row (log_period)"),
    ("tensorboard_log", "", "leave it out: TensorBoard reads the run's folder (--output_dir)"),
    ("use_sde", "", "leave it out: there is no state-dependent exploration here"),
    ("sde_sample_freq", "", "leave it out: there is no state-dependent exploration here"),
    ("verbose", "", "leave it out"),
    ("progress_bar", "", "leave it out"),
    ("device", "", "it is the flag --sys"),
    ("n_eval_episodes", "", "it is the flag --eval_episodes"),
    ("cuda", "", "it is the flag --sys gpu"),
    ("torch_deterministic", "", "leave it out"),
    ("exp_name", "", "it is the flag --output_dir"),
    ("wandb_project_name", "", "it is the variable WANDB_PROJECT, with --track wandb"),
    ("kl_coeff", "", "leave it out: ppo has no KL penalty here (use_kl_loss=False there)"),
    ("kl_target", "", "leave it out: ppo has no KL penalty here (use_kl_loss=False there)"),
    (
        "num_env_runners",
        "",
        "it is the flag --num_workers; what waits for all, as PPO there, needs sync_workers=true",
    ),
    ("framework", "", "leave it out"),
)


def _by_name() -> dict[str, tuple[Ours, ...]]:
    found: dict[str, tuple[Ours, ...]] = {}
    for name, ours, note in _ROWS:
        found[name] = (*found.get(name, ()), Ours(ours, note))
    return found


HPARAMS = _by_name()
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
    "--n-timesteps": "--train_steps",
    "--n_timesteps": "--train_steps",
    "--num_timesteps": "--train_steps",
    "--device": "--sys",
    "--resume": "--output_dir",
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


def hparam_meant(name: str, known: Collection[str], shown: str = "{}") -> str | None:
    """Returns words on an unknown hyperparameter that is another library's; None where it is none of theirs.

    Args:
        name: as it was typed; of a dotted one its last part counts, too.
        known: the hyperparameters of the algorithm. Where none of them is meant, the words say so, since one
            whose name merely looks alike would be something else.
        shown: how the one that is meant is to be typed, with {} for its name.
    """
    rows = HPARAMS.get(name.lower()) or HPARAMS.get(name.lower().rpartition(".")[2])
    if rows is None:
        return None
    found = next((each for each in rows if not each.name or each.name in known), None)
    if found is None:
        return f"this algorithm has none (in others here it is {' or '.join(each.name for each in rows)})"
    if not found.name:
        return found.note
    return f"did you mean {shown.format(found.name)}?" + (f" ({found.note})" if found.note else "")


def environment_meant(env_id: str, known: set[str]) -> str | None:
    """Returns words on an unknown environment's id that is another library's: an older Atari id,
    PettingZoo's."""
    atari = _OLD_ATARI.fullmatch(env_id)
    if atari and f"{atari[1]}{atari[2] or ''}-v5" in known:
        return f"did you mean {atari[1]}{atari[2] or ''}-v5?"
    if _PETTING_ZOO.fullmatch(env_id):
        return f"it looks like PettingZoo's: take pettingzoo:classic/{env_id}, or the module's name there"
    return None
