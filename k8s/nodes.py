"""Which nodes Pods may and should be put on."""

from __future__ import annotations

from typing import NamedTuple

from k8s.manifest import Document, present
from k8s.plan import Plan
from k8s.tpus import RESOURCE as TPU

GPU = "nvidia.com/gpu"


class Spot(NamedTuple):
    """Says how a provider marks nodes that may be taken away at any time."""

    label: str
    value: str
    tainted: bool  # whether nodes with this label come, or usually are set up, with a NoSchedule taint of it


# https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
# https://learn.microsoft.com/azure/aks/spot-node-pool
# https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
# https://karpenter.sh/docs/concepts/scheduling
SPOT = {
    "gke": Spot("cloud.google.com/gke-spot", "true", True),
    "aks": Spot("kubernetes.azure.com/scalesetpriority", "spot", True),
    "eks": Spot("eks.amazonaws.com/capacityType", "SPOT", False),
    "karpenter": Spot("karpenter.sh/capacity-type", "spot", False),
}


def _providers(plan: Plan) -> list[Spot]:
    return list(SPOT.values()) if plan.cloud == "any" else [SPOT[plan.cloud]]


def tolerations(plan: Plan, accelerator: bool) -> list[Document]:
    """Returns the tolerations that were asked for, those of spot nodes' taints unless such nodes are not
    wanted, and, with `accelerator`, that of the nodes that have it."""
    tolerated = [
        present(
            key=taint.key,
            operator="Exists" if taint.value is None else "Equal",
            value=taint.value,
            effect=taint.effect,
        )
        for taint in plan.tolerations
    ]
    if plan.spot != "no":
        tolerated += [
            {"key": spot.label, "operator": "Equal", "value": spot.value, "effect": "NoSchedule"}
            for spot in _providers(plan)
            if spot.tainted
        ]
    if accelerator:
        key = TPU if plan.tpu is not None else GPU
        tolerated.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return tolerated


def spot_affinity(plan: Plan) -> Document:
    """Returns the nodeAffinity to spot nodes: preferred, so that the Pod also finds a place where there are
    none; or required; or away from them."""
    operator = "NotIn" if plan.spot == "no" else "In"
    expressions = [
        {"key": spot.label, "operator": operator, "values": [spot.value]} for spot in _providers(plan)
    ]
    terms = [{"matchExpressions": [expression]} for expression in expressions]  # terms are alternatives
    if plan.spot == "preferred":
        preferred = [{"weight": 100, "preference": term} for term in terms]
        return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if plan.spot == "no":  # expressions of a term hold together; a node without the label is fine
        terms = [{"matchExpressions": expressions}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
