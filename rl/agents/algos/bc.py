"""BC: behaviour cloning, a policy that does what the data do.

Pomerleau 1991, "Efficient training of artificial neural networks for autonomous navigation",
https://doi.org/10.1162/neco.1991.3.1.88: supervised learning of actions from observations. The loss is
-log pi(a | s), averaged over the data: for discrete actions the cross-entropy, for others the log-density of
a normal, whose mean is fitted by least squares and whose deviation is that of the data around it. Rewards are
not looked at: the policy is about as good as those who acted.

Deviations from the paper:

1. It has one network of 30 actions, to which a Gaussian hump around the right one is the target; here it is
   the likelihood, as is customary since.
"""

from __future__ import annotations

from rl.agents.algos.registry import register
from rl.agents.cloning import Cloning
from rl.hparams.bc import BCHParams
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Tensor


@register
class BC(Cloning[BCHParams]):
    """Behaviour cloning: the policy that makes the data's actions likeliest."""

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        log_prob = self.network(batch.observation).log_prob(batch.action)  # [N]
        return -log_prob * batch.mask, {"log_prob": masked_mean(log_prob, batch.mask)}, None
