"""Schedules at literal points."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.hparams.merge import resolve
from rl.ops import schedules


@pytest.mark.parametrize(("step", "value"), [(0, 1.0), (250, 0.775), (1000, 0.1), (5000, 0.1)])
def test_linear_goes_from_start_to_end_and_stays(step, value):
    found = schedules.linear(tf.constant(step, tf.int64), 1.0, 0.1, 1000)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, value, rtol=1e-6)


def test_linear_over_no_steps_is_at_its_end_after_the_first():
    assert schedules.linear(tf.constant(1), 1.0, 0.25, 0) == 0.25


RATES = {
    # over train_steps 100, from 1, with lr_end 0.2, lr_decay_rate 0.1, lr_power 2:
    "constant": {0: 1.0, 50: 1.0, 200: 1.0},
    "linear": {0: 1.0, 25: 0.8, 50: 0.6, 100: 0.2, 200: 0.2},
    # 0.2 + 0.8 (1 - t / 100)^2
    "polynomial": {0: 1.0, 25: 0.65, 50: 0.4, 100: 0.2, 200: 0.2},
    # 0.1^(t / 100)
    "exponential": {0: 1.0, 50: 10**-0.5, 100: 0.1, 200: 0.1},
    # 0.2 + 0.8 (1 + cos(pi t / 100)) / 2
    "cosine": {0: 1.0, 25: 0.2 + 0.4 * (1 + 0.5**0.5), 50: 0.6, 100: 0.2, 200: 0.2},
}


def scheduled(name, lr=1.0, lr_end=0.2):
    overrides = {"lr": lr, "lr_schedule": name, "lr_end": lr_end, "lr_decay_rate": 0.1, "lr_power": 2.0}
    return resolve("ppo_identity", overrides | {"train_steps": 100})


@pytest.mark.parametrize("name", RATES)
def test_learning_rate_schedules_at_literal_steps(name):
    for step, expected in RATES[name].items():
        found = schedules.learning_rate(scheduled(name), tf.constant(step, tf.int64))
        assert found.dtype == tf.float32 and found.shape == ()
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=f"step {step}")


@pytest.mark.parametrize("name", RATES)
def test_a_learning_rate_of_its_own_keeps_its_proportion(name):
    for step, expected in RATES[name].items():
        found = schedules.learning_rate(scheduled(name), tf.constant(step, tf.int64), 3.0)
        np.testing.assert_allclose(found, 3.0 * expected, rtol=1e-6, err_msg=f"step {step}")


@pytest.mark.parametrize("step", [0, 13, 50, 99, 100])
def test_learning_rates_are_those_of_keras(step):
    import keras

    peers = keras.optimizers.schedules
    of_keras = {
        "linear": peers.PolynomialDecay(3e-4, 100, 1e-5, power=1.0),
        "polynomial": peers.PolynomialDecay(3e-4, 100, 1e-5, power=2.0),
        "exponential": peers.ExponentialDecay(3e-4, 100, 0.1),
        "cosine": peers.CosineDecay(3e-4, 100, alpha=1e-5 / 3e-4),
    }
    for name, peer in of_keras.items():
        found = schedules.learning_rate(scheduled(name, 3e-4, 1e-5), tf.constant(step, tf.int64))
        np.testing.assert_allclose(found, peer(step), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize(("step", "value"), [(0, 0.2), (25, 0.15), (100, 0.0), (300, 0.0)])
def test_an_annealed_hparam_goes_to_its_end_over_train_steps_and_others_stay(step, value):
    hparams = resolve("ppo_identity", {"train_steps": 100, "clip_range": 0.2, "anneal": {"clip_range": 0.0}})
    now = schedules.Annealed(hparams)
    assert now("clip_range") == np.float32(0.2) and now("entropy_coef") == hparams.entropy_coef
    now.schedule(tf.constant(step, tf.int64))
    np.testing.assert_allclose(now("clip_range"), value, atol=1e-7)
    assert now.scalars(step) == {"train/clip_range": pytest.approx(value, abs=1e-7)}
