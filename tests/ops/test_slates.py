"""Slates: their values by literal numbers, and which one is best."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops import slates

Q = tf.constant([[10.0, 20.0, -5.0, 2.0]])  # of three documents, and of choosing none
SCORES = tf.math.log([[1.0, 2.0, 4.0, 1.0]]) + 50.0  # what is added to all changes nothing


def test_a_slates_value_weighs_what_may_be_chosen_and_choosing_none():
    found = slates.slate_values(Q, SCORES, slates.all_slates(3, 2))
    # (1 * 10 + 2 * 20 + 2) / 4, (10 - 20 + 2) / 6, (40 - 20 + 2) / 7
    np.testing.assert_allclose(found, [[13.0, -8.0 / 6.0, 22.0 / 7.0]], rtol=1e-5)
    own = slates.slate_values(Q, SCORES, tf.constant([[[0], [2]]]))
    np.testing.assert_allclose(own, [[12.0 / 2.0, -18.0 / 5.0]], rtol=1e-5)


def test_all_slates_are_each_set_of_documents_once():
    assert slates.all_slates(4, 2).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert slates.count_slates(10, 3) == 120


def test_the_best_slate_of_all_and_the_top_documents():
    assert slates.best_slate(Q, SCORES, slates.all_slates(3, 2)).numpy().tolist() == [[0, 1]]
    # A document of high value that is hardly ever chosen is not worth a place: 30 * 0.1 against 2 * 5.
    q_values, scores = tf.constant([[30.0, 5.0, 6.0, 0.0]]), tf.math.log([[0.1, 2.0, 2.0, 1.0]])
    assert slates.top_slate(q_values, scores, 2).numpy().tolist() == [[1, 2]]


def test_the_value_of_what_was_chosen():
    slate = tf.constant([[2, 0], [2, 0], [1, 2]])
    found = slates.chosen_values(tf.repeat(Q, 3, 0), slate, tf.constant([0, 1, 2]))
    assert found.numpy().tolist() == [-5.0, 10.0, 2.0]


def test_a_slate_has_a_value_where_another_document_is_chosen_almost_always():
    # exp(-90) is 0 in float32; of documents 1 and 2 and none, as ever: (2 + 3 e + 0) / (2 + e).
    q_values, scores = tf.constant([[1.0, 2.0, 3.0, 0.0]]), tf.constant([[90.0, 0.0, 1.0, 0.0]])
    found = slates.slate_values(q_values, scores, slates.all_slates(3, 2))
    np.testing.assert_allclose(found, [[1.0, 1.0, (2.0 + 3.0 * np.e) / (2.0 + np.e)]], rtol=1e-5)
    assert slates.best_slate(q_values, scores, slates.all_slates(3, 2)).numpy().tolist() == [[1, 2]]
