"""Metrics that loops carry: means, sums, extremes and last values."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import loops
from rl.ops.loops import Last, Max, MetricPack, Min, Sum

VALUES = tf.constant([3.0, -7.0, 5.0, 1.0])


def all_kinds(x):
    return {"mean": x, "sum": Sum(x), "max": Max(x), "min": Min(x), "last": Last(x)}


def numbers(metrics):
    return {name: float(getattr(each, "value", each)) for name, each in metrics.items()}


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_loop_gives_each_metric_what_it_asks_for(jit_compile):
    @tf.function(jit_compile=jit_compile, autograph=False)
    def run():
        return loops.repeat(4, lambda i: all_kinds(tf.gather(VALUES, i)))

    metrics, made = run()
    assert made == 4.0
    assert numbers(metrics) == {"mean": 0.5, "sum": 2.0, "max": 5.0, "min": -7.0, "last": 1.0}
    assert [loops.kind(metrics[name]) for name in metrics] == list(metrics)


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


def test_loops_within_loops_mean_the_same():
    """As PPO's minibatches within epochs: means of means; one sum, one extreme over all."""

    def epoch(j):
        return loops.repeat(2, lambda i: all_kinds(tf.gather(VALUES, 2 * j + i)))[0]

    metrics, _ = loops.repeat(2, epoch)
    assert numbers(metrics) == {"mean": 0.5, "sum": 2.0, "max": 5.0, "min": -7.0, "last": 1.0}


def test_where_nothing_was_run_there_is_no_value():
    pack = MetricPack()
    metrics = loops.where(tf.constant(False), pack, lambda: all_kinds(tf.constant(-3.0)))
    assert numbers(metrics) == {"mean": 0.0, "sum": 0.0, "max": -np.inf, "min": np.inf, "last": -np.inf}
    some = pack.pack(all_kinds(tf.constant(-3.0)))
    both = pack.unpack(pack.join(pack.join(tf.constant(pack.empty()), some), pack.pack(metrics)))
    assert numbers(both) == {"mean": -3.0, "sum": -3.0, "max": -3.0, "min": -3.0, "last": -3.0}


def test_nan_is_not_hidden_by_what_comes_before_or_after():
    pack = MetricPack()
    vectors = [pack.pack(all_kinds(tf.constant(x))).numpy() for x in (1.0, np.nan, 2.0)]
    total = vectors[0].copy()
    for each in vectors[1:]:
        pack.add(total, each)
    for joined in (total, pack.join(pack.join(vectors[0], vectors[1]), vectors[2])):
        found = numbers(pack.unpack(joined))
        assert all(np.isnan(found[name]) for name in ("mean", "sum", "max", "min"))
        assert found["last"] == 2.0


def test_vectors_are_added_on_the_host_as_they_are_joined_in_the_graph():
    pack, total = MetricPack(), MetricPack.empty()
    for x in (3.0, -7.0, 5.0, 1.0):
        pack.add(total, pack.pack(all_kinds(tf.constant(x))).numpy())
    nothing = {"mean": tf.constant(0.0), "sum": Sum(0.0), "max": Max(-np.inf), "min": Min(np.inf)}
    pack.add(total, pack.pack(nothing | {"last": Last(-np.inf)}).numpy())
    assert numbers(pack.unpack(total)) == {"mean": 2.0, "sum": 2.0, "max": 5.0, "min": -7.0, "last": 1.0}


def test_of_several_devices_sums_are_added_and_means_averaged():
    pack = MetricPack()
    vectors = [pack.pack(all_kinds(tf.constant(x))).numpy() for x in (4.0, -2.0)]
    found = numbers(pack.unpack(pack.over_devices(vectors)))
    assert found == {"mean": 1.0, "sum": 2.0, "max": 4.0, "min": -2.0, "last": 4.0}
    assert pack.over_devices(vectors[:1]) is vectors[0]


def test_of_several_learners_all_get_the_same_of_all(monkeypatch):
    pack = MetricPack()
    vectors = tf.stack([pack.pack(all_kinds(tf.constant(x))) for x in (4.0, -2.0)])
    monkeypatch.setattr(loops.replicas, "count", lambda: 2)
    monkeypatch.setattr(loops.replicas, "mean", lambda _: tf.reduce_mean(vectors, 0))
    monkeypatch.setattr(loops.replicas, "gathered", lambda _: vectors)
    found = numbers(pack.unpack(pack.over_learners(vectors[1])))
    assert found == {"mean": 1.0, "sum": 2.0, "max": 4.0, "min": -2.0, "last": 4.0}


def test_a_part_of_a_whole_weighs_means_alone():
    found = numbers(loops.weighted(all_kinds(tf.constant(8.0)), tf.constant(0.25)))
    assert found == {"mean": 2.0, "sum": 8.0, "max": 8.0, "min": 8.0, "last": 8.0}


def test_means_become_sums_over_updates():
    metrics = loops.summed(all_kinds(tf.constant(2.0)) | {"updates": tf.constant(3.0)})
    assert numbers(metrics) == {"mean": 6.0, "sum": 2.0, "max": 2.0, "min": 2.0, "last": 2.0, "updates": 3.0}


def test_packed_metrics_come_back_by_name():
    pack = MetricPack()
    vector = pack.pack({"b": tf.constant(2), "a": tf.constant(1.5)})
    assert vector.shape == (loops.MAX_METRICS,) and vector.dtype == tf.float32
    assert numbers(pack.unpack(vector)) == {"a": 1.5, "b": 2.0}


def test_too_many_metrics_or_others_than_before_are_refused():
    with pytest.raises(ValueError, match="49 metrics that are means or sums, at most 48"):
        MetricPack().pack({f"m{i}": tf.constant(0.0) for i in range(49)})
    with pytest.raises(ValueError, match="and 17 others, at most 16"):
        MetricPack().pack({f"m{i}": Max(tf.constant(0.0)) for i in range(17)})
    for other in ({"b": tf.constant(0.0)}, {"a": Sum(tf.constant(0.0))}):
        pack = MetricPack()
        pack.pack({"a": tf.constant(0.0)})
        with pytest.raises(ValueError, match="metrics changed"):
            pack.pack(other)
