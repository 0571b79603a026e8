"""CartPolePixels-v0: CartPole-v1, of which a small picture is seen, so that a policy needs eyes and a memory.

A still picture shows no velocity. `rl/envs/in_graph_gym.py` registers it for Gymnasium.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.cartpole import MAX_X, CartPole
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "CartPolePixels-v0"

SIZE = 24  # pixels, of height and width
REACH = 10.0  # pixels from the middle to the cart's centre at the end of the track
LEAN = 4.0  # by what the angle is drawn larger: 12 degrees would move the tip by 4 pixels, and move it by 13
PIVOT, LENGTH = 20.0, 18.0  # row in which the pole begins, from the top; its length. Pixels
POLE, CART = 1.0, (2.5, 1.0)  # half the pole's width; half the cart's width and height. Pixels
AXLE = 21.0  # row of the cart's centre


@register
class CartPolePixels(CartPole):
    """CartPole-v1 as a picture of 24 x 24 grey levels: 2 actions, reward 1 a step, 500 steps.

    Physics [B, 4] as CartPole's. Observation uint8 [B, 24, 24, 1]: cart and pole bright on black, with soft
    edges, which show parts of a pixel; the pole leans four times as far as it does.
    """

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, sutton_barto_reward: bool = False
    ) -> None:
        super().__init__(num_envs, max_episode_steps, sutton_barto_reward)
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns the picture, uint8 [B, 24, 24, 1]: of each pixel how much of it is covered, about."""
        centre = SIZE / 2 + REACH / MAX_X * physics[:, 0][:, None, None]  # [B, 1, 1] column of cart and pivot
        angle = LEAN * physics[:, 2][:, None, None]
        place = np.arange(SIZE, dtype=np.float32) + 0.5  # of the pixels' middles
        right, row = place[None, None, :] - centre, place[None, :, None]  # [B, 1, W], [1, H, 1]
        up = PIVOT - row
        sin, cos = tf.sin(angle), tf.cos(angle)
        along = tf.clip_by_value(right * sin + up * cos, 0.0, LENGTH)  # [B, H, W] nearest point of the pole
        distance = tf.sqrt(tf.square(right - along * sin) + tf.square(up - along * cos))
        pole = _covered(POLE - distance)
        cart = _covered(CART[0] - tf.abs(right)) * _covered(CART[1] - tf.abs(row - AXLE))
        return tf.cast(tf.round(255.0 * tf.maximum(pole, cart)), tf.uint8)[..., None]


def _covered(inside: Tensor) -> Tensor:
    """The covered share of pixels whose middles are so far inside of an edge (pixels; below 0: outside)."""
    return tf.clip_by_value(inside + 0.5, 0.0, 1.0)
