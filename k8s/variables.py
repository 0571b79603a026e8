"""Variables of users' own in Pods, and those that are not theirs to set."""

from __future__ import annotations

import re

from rl.errors import UsageError
from rl.systems.slice.hosts import ENDPOINTS, INDEX, NAMES

# What Pods set themselves.
RESERVED = ("HOME", "TMPDIR", "RL_HEARTBEAT", "RL_START_SECONDS", "JOB_COMPLETION_INDEX")
STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"  # of a Ray head: seconds that a job may take to end (--grace_seconds)
# What KubeRay sets, without a look at what is there, or refuses (ray-operator/controllers/ray/common/pod.go,
# utils/validation.go), and what would lead Ray away from the cluster that it makes.
RESERVED_RAY = (
    *("RAY_ADDRESS", "RAY_IP", "RAY_PORT", "FQ_RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE"),
    *("RAY_CLOUD_INSTANCE_ID", "RAY_NODE_TYPE_NAME", "RAY_DASHBOARD_ADDRESS", "RAY_JOB_SUBMISSION_ID"),
    *("RAY_REDIS_ADDRESS", "REDIS_USERNAME", "REDIS_PASSWORD", "RAY_enable_autoscaler_v2"),
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ENABLE_K8S_TOKEN_AUTH"),
    *("RAY_USAGE_STATS_ENABLED", "RAY_USAGE_STATS_EXTRA_TAGS", "KUBERAY_GEN_RAY_START_CMD"),
    STOP_WAIT,
)
# One value for all machines would give them one place, or have each train the run alone.
RESERVED_SLICE = (NAMES, INDEX, ENDPOINTS)
_OF_A_KIND = {
    "ray": (RESERVED_RAY, "KubeRay sets or refuses it"),
    "hosts": (RESERVED_SLICE, "each machine of a slice has its own, which GKE tells it"),
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # what shells can read as one


def variables(given: list[str], kind: str) -> dict[str, str]:
    """Returns the variables in texts such as `NAME=VALUE`, for Pods of a plan's kind. Raises UsageError."""
    found: dict[str, str] = {}
    reserved, why = _OF_A_KIND.get(kind, ((), ""))
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (equals and _VARIABLE.fullmatch(name)):
            raise UsageError(f"--env_var {pair!r}: needs NAME=VALUE")
        if name in RESERVED:
            raise UsageError(f"--env_var {name}: the Pod sets it itself; leave it out")
        if name in reserved:
            raise UsageError(f"--env_var {name}: {why}; leave it out")
        if found.setdefault(name, value) != value:
            raise UsageError(f"--env_var {name} is given twice, with different values")
    return found
