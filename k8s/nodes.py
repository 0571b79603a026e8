"""Which nodes Pods may and should be put on."""

from __future__ import annotations

from typing import NamedTuple

from kubernetes import client

from k8s.plan import Plan
from k8s.tpus import RESOURCE as TPU

GPU = "nvidia.com/gpu"


class Spot(NamedTuple):
    """How a provider marks nodes that may be taken away at any time."""

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


def tolerations(plan: Plan, accelerator: bool) -> list[client.V1Toleration]:
    """What was asked for; of the taints of spot nodes, unless they are not wanted, and of nodes with the
    accelerator."""
    found = [
        client.V1Toleration(
            key=each.key,
            operator="Exists" if each.value is None else "Equal",
            value=each.value,
            effect=each.effect,
        )
        for each in plan.tolerations
    ]
    if plan.spot != "no":
        found += [
            client.V1Toleration(key=each.label, operator="Equal", value=each.value, effect="NoSchedule")
            for each in _providers(plan)
            if each.tainted
        ]
    if accelerator:
        key = TPU if plan.tpu is not None else GPU
        found.append(client.V1Toleration(key=key, operator="Exists", effect="NoSchedule"))
    return found


def spot_affinity(plan: Plan) -> client.V1NodeAffinity:
    """To spot nodes: preferred, so that the Pod also finds a place where there are none; or required; or away
    from them."""

    def expression(each: Spot, operator: str) -> client.V1NodeSelectorRequirement:
        return client.V1NodeSelectorRequirement(key=each.label, operator=operator, values=[each.value])

    def term(*expressions: client.V1NodeSelectorRequirement) -> client.V1NodeSelectorTerm:
        return client.V1NodeSelectorTerm(match_expressions=list(expressions))

    providers = _providers(plan)
    if plan.spot == "preferred":
        return client.V1NodeAffinity(
            preferred_during_scheduling_ignored_during_execution=[
                client.V1PreferredSchedulingTerm(weight=100, preference=term(expression(each, "In")))
                for each in providers
            ]
        )
    if plan.spot == "required":  # terms are alternatives
        terms = [term(expression(each, "In")) for each in providers]
    else:  # expressions of a term hold together; a node without the label is fine
        terms = [term(*(expression(each, "NotIn") for each in providers))]
    return client.V1NodeAffinity(
        required_during_scheduling_ignored_during_execution=client.V1NodeSelector(node_selector_terms=terms)
    )
