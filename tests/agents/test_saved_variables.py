"""A variable of an algorithm's own that no checkpoint would hold is told, not lost."""

from __future__ import annotations

import pytest
import tensorflow as tf

from rl.agents.algos.registry import get_algo
from rl.agents.contracts import check_built
from rl.envs.make import make_eval_envs
from rl.errors import UsageError
from rl.hparams.merge import resolve


def test_a_variable_of_an_algorithm_that_no_checkpoint_holds_is_told_in_a_line():
    class Baseline(get_algo("vpg")):
        def build(self):
            super().build()
            self.baseline = tf.Variable(0.0)

    class Saved(Baseline):
        @property
        def variables(self):
            return super().variables | {"baseline": self.baseline}

    hparams, env = resolve("vpg", {"env": "Identity-v0"}), make_eval_envs("Identity-v0", 1)
    words = hparams, env.observation_space, env.action_space, 0
    with pytest.raises(UsageError, match=r"Baseline\.baseline is a variable that no checkpoint holds"):
        Baseline(*words)
    assert Saved(*words).variables["baseline"] is not None
    env.close()


def test_what_is_no_variable_or_need_not_be_kept_is_nobodys_affair():
    class Mine:
        transient = ("sum",)

        def __init__(self):
            self.rows, self.sum, self.size = tf.Variable([0.0]), tf.Variable(0.0), 3
            self.variables, self.networks = {"rows": self.rows}, {"network": None}

    check_built(Mine())
    Mine.transient = ()
    with pytest.raises(UsageError, match=r"Mine\.sum is a variable"):
        check_built(Mine())
