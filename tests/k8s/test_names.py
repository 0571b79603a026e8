"""Names and amounts, against what Kubernetes' own clients and RFCs make of them."""

from __future__ import annotations

import pytest
from kubernetes.utils.quantity import parse_quantity

from k8s.names import checked_name, derived_name, is_dns_name, is_image, is_label_key, is_label_value
from k8s.quantities import quantity, times
from rl.errors import UsageError


def test_amounts_are_what_the_official_client_reads():
    texts = ["1", "0.5", "500m", "8Gi", "1.5Mi", "3k", "2M", "1G", "4Ki", "1T", "2Ti", ".5"]
    assert [quantity(text) for text in texts] == [parse_quantity(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["", "8GB", "1 Gi", "-1", "Gi", "1e3Gi", "four", "1.2.3", "8gi", "1K", "\u0664"]
)
def test_other_texts_are_no_amounts(text):
    assert quantity(text) is None


@pytest.mark.parametrize("text, count", [("1Gi", 5), ("1.5Gi", 4), ("500m", 3), ("100Mi", 10)])
def test_multiples_keep_the_unit(text, count):
    assert parse_quantity(times(text, count)) == count * parse_quantity(text)
    assert times(text, count).lstrip("0123456789.") == text.lstrip("0123456789.")


DIGEST = "@sha256:" + "0" * 64
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names and /labels; reference.go of
# https://github.com/distribution/reference has the grammar of images.
CHECKS = {
    is_dns_name: (["a.b", "a", "a-1", "1.2"], ["", "a..b", ".a", "a.", "A.b", "-a", "a_b", "a\n", "a" * 254]),
    is_label_key: (["a", "A_b.c-1", "x.io/a"], ["", "a/", "/a", "x_y/a", "a/b/c", "-a", "a" * 64]),
    is_label_value: (["", "a", "A_b.c-1", "a" * 63], ["-a", "a b", "a/b", "a" * 64]),
    is_image: (
        [
            *("a", "a:1", "ghcr.io/me/rl:gpu", "localhost:5000/a/b_c", "a/b:V1.2-x_y", "a__b", "a--b/c.d"),
            *("[::1]:5000/a", f"a{DIGEST}", f"r.io/a:1{DIGEST}"),
        ],
        [
            *("a::b", "a:", ":a", "a:b:c", "a//b", "/a", "a/", "A", "a/B", "a_", "a..b", "a:-x", "a b"),
            *("a@sha256:0", "a@b", "a:x/y", "a\n", "https://r.io/a:1", "a:" + "x" * 129, "a" * 256),
        ],
    ),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_names_are_told_from_what_is_none(check):
    good, bad = CHECKS[check]
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


@pytest.mark.parametrize(
    "text, name",
    [
        ("ppo_pong", "ppo-pong"),
        ("ppo-CoinRun", "ppo-coinrun"),
        ("ppo-ALE/Pong-v5", "ppo-ale-pong-v5"),
        ("3d_run", "rl-3d-run"),
        ("a" * 43 + "__b", "a" * 43),
        ("___", "rl"),
    ],
)
def test_name_is_derived_from_any_text(text, name):
    assert derived_name(text) == name
    assert checked_name("--name", name) == name


@pytest.mark.parametrize("text", ["My_run", "1a", "a-", "a" * 45])
def test_wrong_name_is_told_with_one_that_would_do(text):
    with pytest.raises(UsageError, match=rf"needs a letter, .* at most: {derived_name(text)} would do"):
        checked_name("--name", text)
