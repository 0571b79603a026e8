"""Names and amounts, against what Kubernetes' own clients and RFCs make of them."""

from __future__ import annotations

import pytest
from kubernetes.utils.quantity import parse_quantity

from k8s.names import (
    checked_name,
    derived_name,
    is_dns_label,
    is_dns_subdomain,
    is_environment_name,
    is_label_key,
    is_label_value,
    is_strict_label,
)
from k8s.quantities import quantity, times
from rl.errors import UsageError


@pytest.mark.parametrize(
    "text", ["1", "0.5", "500m", "8Gi", "1.5Mi", "3k", "2M", "1G", "4Ki", "1T", "2Ti", ".5"]
)
def test_amounts_are_what_the_official_client_reads(text):
    assert quantity(text) == parse_quantity(text)


@pytest.mark.parametrize("text", ["", "8GB", "1 Gi", "-1", "Gi", "1e3Gi", "four", "1.2.3", "8gi", "1K"])
def test_other_texts_are_no_amounts(text):
    with pytest.raises(ValueError):
        quantity(text)


@pytest.mark.parametrize("text, count", [("1Gi", 5), ("1.5Gi", 4), ("500m", 3), ("100Mi", 10)])
def test_multiples_keep_the_unit(text, count):
    assert parse_quantity(times(text, count)) == count * parse_quantity(text)
    assert times(text, count).lstrip("0123456789.") == text.lstrip("0123456789.")


# https://kubernetes.io/docs/concepts/overview/working-with-objects/names and /labels
@pytest.mark.parametrize(
    "check, good, bad",
    [
        (is_dns_label, ["a", "a-1", "1a", "a" * 63], ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, "a\n"]),
        (is_strict_label, ["a", "a-1"], ["1a", "", "a-"]),
        (is_dns_subdomain, ["a.b", "a", "1.2"], ["", "a..b", ".a", "a.", "A.b", "a" * 254]),
        (is_label_key, ["a", "A_b.c-1", "x.io/a"], ["", "a/", "/a", "x_y/a", "a/b/c", "-a", "a" * 64]),
        (is_label_value, ["", "a", "A_b.c-1", "a" * 63], ["-a", "a b", "a/b", "a" * 64]),
        (is_environment_name, ["A", "_a1"], ["", "1A", "A-B", "A=B"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_names_are_told_from_what_is_none(check, good, bad):
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


def test_wrong_name_is_told_with_one_that_would_do():
    with pytest.raises(UsageError, match=r"needs a letter, .* at most: my-run would do"):
        checked_name("--name", "My_run")
