"""Flags that docs/kubernetes.md lets change while an object is there change nothing else of it."""

from __future__ import annotations

import pytest
from k8s_examples import BUCKET, EXAMPLES, IMAGE, one

COPIES = ["--hparams", "ppo_cartpole", "--copies", "5", *IMAGE, *BUCKET]


def differences(left, right, path=()):
    """Where two objects differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = left.keys() | right.keys()
        return {found for key in keys for found in differences(left.get(key), right.get(key), (*path, key))}
    return set() if left == right else {".".join(path)}


# What an API server and the controllers let change: ValidateJobSpecUpdate in pkg/apis/batch/validation of
# Kubernetes, ValidateUpdate in pkg/webhooks of JobSet, getOrCreateRayClusterInstance of KubeRay.
@pytest.mark.parametrize(
    "kind, flags, more, changed",
    [
        ("Job", EXAMPLES["job"], ["--ttl_seconds", "60"], "spec.ttlSecondsAfterFinished"),
        ("Job", EXAMPLES["job"], ["--backoff_limit", "1"], "spec.backoffLimit"),
        ("Job", EXAMPLES["claim"], ["--backoff_limit", "1"], "spec.backoffLimit"),
        ("Job", COPIES, ["--ttl_seconds", "60"], "spec.ttlSecondsAfterFinished"),
        ("Job", COPIES, ["--parallel", "2"], "spec.parallelism"),
        ("JobSet", EXAMPLES["tpu_hosts"], ["--ttl_seconds", "60"], "spec.ttlSecondsAfterFinished"),
        ("RayJob", EXAMPLES["ray"], ["--backoff_limit", "1"], "spec.backoffLimit"),
    ],
)
def test_what_may_change_while_it_runs_changes_alone(generate, kind, flags, more, changed):
    before = one(generate(*flags).objects, kind)
    after = one(generate(*flags, *more).objects, kind)
    assert differences(before, after) == {changed}


def test_failures_of_a_copy_are_no_such_thing(generate):
    before, after = (one(generate(*COPIES, *more).objects, "Job") for more in ([], ["--backoff_limit", "1"]))
    assert differences(before, after) == {"spec.backoffLimitPerIndex"}
