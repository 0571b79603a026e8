"""InterestEvolution: a user whose interests move with what is recommended, in slates of a few documents.

Source: the environment of that name of RecSim (Ie et al. 2019, "RecSim: a configurable simulation platform
for recommender systems", https://arxiv.org/abs/1909.04847; `recsim/environments/interest_evolution.py`, the
utility model), in float32. A document is of one topic; topics go from trash, which the user pays for with
time, to what is nutritious. The user chooses one document of a slate, or none, by interest alone, watches it,
and turns towards its topic or away from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.types import Tensor

ENV_ID = "InterestEvolution-v0"

LENGTH = 4.0  # minutes of each video
QUALITY_RANGE = 3.4  # qualities are within it, by three deviations
QUALITY_STD = 0.1  # of a document's quality around its topic's
GAIN = 0.9  # the share of its length by which the best video extends the session
BOREDOM = 0.5  # minutes lost where nothing is chosen
NOBODY = 2.0  # weight of choosing nothing; a document's is 1 + interest
STEP = 0.3  # by which an interest of 0 moves towards the topic or away from it


class Session(NamedTuple):
    """The state of B sessions."""

    interests: Tensor  # [B, topics] in [-1, 1]
    budget: Tensor  # [B] minutes that are left
    topics: Tensor  # [B, candidates] int32, of the documents that may be recommended now
    quality: Tensor  # [B, candidates] of these
    chosen: Tensor  # [B] int32: which place of the last slate; `slate`: none of it


@register
class InterestEvolution(GraphEnv):
    """Recommend slates of 2 out of 10 documents: reward is the minutes watched, until the time is used up.

    Observation: "user" (interests), "documents" (topics, one-hot), "chosen" (the place of the slate before
    that the user chose, or how many it has: none). Action: the documents of a slate, by their numbers. What
    cannot be seen: the time left, and how good a document is beside others of its topic.

    Options: `candidates`, `slate`, `topics`, `budget` (minutes, 200), and `resample` (new candidates in
    every step; False: for each session).
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        candidates: int = 10,
        slate: int = 2,
        topics: int = 20,
        budget: float = 200.0,
        resample: bool = True,
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        if not 1 <= slate <= candidates:
            raise UsageError(f"a slate of {slate} documents out of {candidates} candidates: take at most all")
        if topics < 2 or budget <= 0.0:
            raise UsageError(f"topics must be at least 2, not {topics}, and budget above 0, not {budget:g}")
        self.candidates, self.slate, self.topics = candidates, slate, topics
        self.budget, self.resample = budget, resample
        trash = round(0.7 * topics)
        of_topic = np.concatenate([np.linspace(-3.0, 0.0, trash), np.linspace(0.0, 3.0, topics - trash)])
        self.quality_of_topic = of_topic.astype(np.float32)
        self.observation_space = spaces.Dict(
            {
                "user": spaces.Box(-1.0, 1.0, (topics,), np.float32),
                "documents": spaces.Box(0.0, 1.0, (candidates, topics), np.float32),
                "chosen": spaces.Discrete(slate + 1),
            }
        )
        self.action_space = spaces.MultiDiscrete([candidates] * slate)

    def initial(self, seed: Tensor) -> Session:
        """Draws a user with interests uniform in [-1, 1), and candidates."""
        user_seed, document_seed = random.split(seed, 2)
        interests = random.uniform(user_seed, [self.num_envs, self.topics], -1.0, 1.0)
        budget = tf.fill([self.num_envs], float(self.budget))
        return Session(
            interests, budget, *self._documents(document_seed), tf.fill([self.num_envs], self.slate)
        )

    def dynamics(self, physics: Session, action: Tensor, seed: Tensor) -> tuple[Session, Tensor, Tensor]:
        """Lets the user choose from slates [B, slate], watch, and change; terminated: no time is left."""
        choice_seed, turn_seed, document_seed = random.split(seed, 3)
        documents = tf.cast(action, tf.int32)
        topics = tf.gather(physics.topics, documents, batch_dims=1)  # [B, slate]
        weights = 1.0 + tf.gather(physics.interests, topics, batch_dims=1)
        weights = tf.concat([weights, tf.fill([self.num_envs, 1], NOBODY)], 1)  # [B, slate + 1]
        reached = tf.cumsum(weights, axis=1)
        lot = random.uniform(choice_seed, [self.num_envs]) * reached[:, -1]
        chosen = tf.reduce_sum(tf.cast(reached[:, :-1] <= lot[:, None], tf.int32), 1)  # [B]
        clicked = chosen < self.slate

        place = tf.minimum(chosen, self.slate - 1)[:, None]
        topic = tf.gather(topics, place, batch_dims=1)[:, 0]  # [B]
        document = tf.gather(documents, place, batch_dims=1)
        quality = tf.gather(physics.quality, document, batch_dims=1)[:, 0]
        watched = tf.where(clicked, tf.minimum(physics.budget, LENGTH), 0.0)
        extended = GAIN / QUALITY_RANGE * watched * quality
        budget = physics.budget - tf.where(clicked, watched - extended, BOREDOM)

        interest = tf.gather(physics.interests, topic[:, None], batch_dims=1)[:, 0]
        towards = random.uniform(turn_seed, [self.num_envs]) < (interest + 1.0) / 2.0
        change = STEP * (1.0 - tf.abs(interest)) * (1.0 - interest)
        change = tf.where(clicked, tf.where(towards, change, -change), 0.0)
        interests = physics.interests + change[:, None] * tf.one_hot(topic, self.topics)
        interests = tf.clip_by_value(interests, -1.0, 1.0)

        candidates = physics.topics, physics.quality
        if self.resample:
            candidates = self._documents(document_seed)
        return Session(interests, budget, *candidates, chosen), watched, budget <= 0.0

    def observe(self, physics: Session) -> dict[str, Tensor]:
        """Returns interests, the candidates' topics, and what was chosen."""
        documents = tf.one_hot(physics.topics, self.topics)
        return {"user": physics.interests, "documents": documents, "chosen": physics.chosen}

    def _documents(self, seed: Tensor) -> tuple[Tensor, Tensor]:
        """Draws candidates: topics uniformly, qualities [B, candidates] around those of the topics."""
        topic_seed, quality_seed = random.split(seed, 2)
        shape = [self.num_envs, self.candidates]
        topics = random.randint(topic_seed, shape, self.topics)
        noise = QUALITY_STD * random.normal(quality_seed, shape)
        return topics, tf.gather(self.quality_of_topic, topics) + noise
