"""Recordings of environments whose numbers are known."""

import numpy as np
from gymnasium import spaces

from rl.data.dataset import read
from rl.data.recorder import Recorder

SPACES = spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(3)


class Played:
    """B environments whose episodes have lengths of their own; each number occurs once."""

    def __init__(self, count=3):
        self.count, self.step = count, 0
        self.ages, self.ended = np.zeros(count, int), np.zeros(count, bool)
        self.observation = self._observed()

    def _observed(self):
        place = np.arange(self.count)
        return np.stack([self.step + place * 0.01, self.ages], 1).astype(np.float32)

    def rows(self, steps):
        """What a recorder is told of `steps` steps: environment b has episodes of b + 3 steps."""
        seen, acts, rewards, dones, cuts, masks = [self.observation], [], [], [], [], []
        begun = self.step
        for _ in range(steps):
            self.step += self.count
            self.ages = np.where(self.ended, 0, self.ages + 1)
            over = (self.ages >= np.arange(self.count) + 3) & ~self.ended
            masks.append(~self.ended)
            rewards.append(np.where(self.ended, 0.0, self.step / 7).astype(np.float32))
            dones.append(over & (self.ages % 2 == 1))
            cuts.append(over & (self.ages % 2 == 0))
            acts.append((self.step + np.arange(self.count)).astype(np.int32) % 3)
            self.ended = over
            self.observation = self._observed()
            seen.append(self.observation)
        return begun, *map(np.stack, (seen, acts, rewards, dones, cuts, masks))


def recorder(folder, owner="run", space=SPACES, env="My-v0", seed=0, **options):
    return Recorder(folder, *space, {"env_id": env, **options}, {"hparams": "mine", "seed": seed}, owner)


def recorded(folder, *parts, **options):
    """The data set of a recording without interruption, of these numbers of steps."""
    played = Played()
    with recorder(folder, **options) as made:
        made.begin()
        for steps in parts:
            made.add(*played.rows(steps))
    return read(folder, exact=True)
