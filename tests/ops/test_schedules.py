"""Schedules at literal points, and loops that carry metrics."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.hparams.merge import resolve
from rl.ops import loops, schedules


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


@pytest.mark.parametrize("jit_compile", [False, True])
def test_repeat_returns_the_mean_of_each_metric_and_the_number_of_passes(jit_compile):
    @tf.function(jit_compile=jit_compile, autograph=False)
    def run():
        return loops.repeat(4, lambda i: {"b": tf.cast(i, tf.float32) * 10.0, "a": tf.constant(7.0)})

    metrics, made = run()
    assert {name: float(value) for name, value in metrics.items()} == {"a": 7.0, "b": 15.0}
    assert made == 4.0


@pytest.mark.parametrize("jit_compile", [False, True])
def test_repeat_stops_after_the_pass_that_asks_for_it(jit_compile):
    passes = tf.Variable(0)

    def body(i):
        passes.assign_add(1)
        return {"x": tf.cast(i, tf.float32)}

    @tf.function(jit_compile=jit_compile, autograph=False)
    def run():
        return loops.repeat(100, body, stop=lambda metrics: metrics["x"] >= 2.0)

    metrics, made = run()
    assert made == 3.0 and passes == 3
    assert metrics["x"] == 1.0  # the mean of 0, 1, 2


def test_repeat_calls_the_body_once_when_it_asks_to_stop_at_once():
    metrics, made = loops.repeat(5, lambda i: {"x": tf.constant(3.0)}, stop=lambda metrics: tf.constant(True))
    assert made == 1.0 and metrics["x"] == 3.0
