"""Environments that are drawn in a process of their own."""

from __future__ import annotations

import importlib.util

import gymnasium
import pytest

from rl.envs.apart import follow

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="needs the extra mujoco")


@pytest.mark.parametrize(
    "env_id, camera",
    [
        ("HalfCheetah-v5", "track"),
        ("Hopper-v5", None),  # its own view goes along already
        ("InvertedPendulum-v5", None),  # stays where it is
    ],
)
def test_the_camera_goes_along_with_what_would_run_out_of_the_picture(env_id, camera):
    import mujoco

    env = gymnasium.make(env_id, render_mode="rgb_array")
    follow(env)
    renderer = env.unwrapped.mujoco_renderer
    found = mujoco.mj_id2name(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, renderer.camera_id)
    assert (found if renderer.camera_id >= 0 else None) == camera
    env.close()
