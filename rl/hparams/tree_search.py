"""Hyperparameters of algorithms that search trees before they act (`rl/agents/tree_search.py`)."""

from __future__ import annotations

from typing import Literal

from rl.hparams.hparams import Fraction, HParams, PositiveFloat, PositiveInt


class TreeSearchHParams(HParams):
    """How trees are searched: PUCT, or with Gumbel noise and sequential halving."""

    search: Literal["puct", "gumbel"] = "puct"  # "gumbel" improves the policy with few simulations too
    simulations: PositiveInt = 32  # of the search before each action of training
    c_puct: PositiveFloat = 1.25  # puct: weight of the prior in what is followed, beside the mean value
    noise_share: Fraction = 0.25  # puct: of the root's prior that is drawn anew
    noise_concentration: PositiveFloat = 0.5  # puct: of the Dirichlet distribution that it is drawn from
    temperature: PositiveFloat = 1.0  # puct: actions are drawn by visits to the power of 1 / temperature
    considered_moves: PositiveInt = 16  # gumbel: how many moves share the simulations at the root
    value_scale: PositiveFloat = 0.1  # gumbel: weight of completed values beside logits, c_scale
    # Values of a node's moves are rescaled by their range, or by this where it is more; not in puct of games.
    least_value_range: PositiveFloat = 1e-8
