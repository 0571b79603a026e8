"""The tree search that hyperparameters choose (`rl.ops.search`, `rl.ops.gumbel_search`)."""

from __future__ import annotations

import tensorflow as tf

from rl.hparams.tree_search import TreeSearchHParams
from rl.ops import random, search
from rl.ops.gumbel_search import gumbel
from rl.types import Nest, Tensor


def found_by(
    hparams: TreeSearchHParams,
    recurrent: search.Recurrent,
    root: Nest,
    prior: Tensor,
    value: Tensor,
    seeds: list[Tensor],
    explores: bool,
    within_unit: bool,
) -> search.Found:
    """Returns what the search named by `hparams.search` finds in the positions `root` [B, ...].

    Args:
        hparams: which search, and how.
        recurrent: see `rl.ops.search.Recurrent`.
        root: the positions.
        prior: [B, A] of their moves, 0: illegal.
        value: [B] of the positions.
        seeds: of noise, and of what `recurrent` draws.
        explores: whether there is noise at the root.
        within_unit: whether values are within [-1, 1] already; otherwise puct rescales them.
    """
    noise_seed, search_seed = seeds
    if hparams.search == "gumbel":
        noise = random.gumbel(noise_seed, prior.shape) if explores else tf.zeros_like(prior)
        options = hparams.considered_moves, hparams.value_scale, hparams.least_value_range
        return gumbel(recurrent, root, prior, value, hparams.simulations, noise, search_seed, *options)
    if explores:
        prior = search.noisy(prior, hparams.noise_share, hparams.noise_concentration, noise_seed)
    known, weight, least = None if within_unit else value, hparams.c_puct, hparams.least_value_range
    return search.puct(recurrent, root, prior, hparams.simulations, search_seed, weight, known, least)


def acting_logits(hparams: TreeSearchHParams, acting: Tensor) -> Tensor:
    """Returns logits of the shares `acting` [N, A] to the power of 1 / `temperature`; a share of 0 stays
    0."""
    logits = tf.math.log(tf.maximum(acting, 1e-30)) / hparams.temperature
    return tf.where(acting > 0.0, logits, search.NEVER)
