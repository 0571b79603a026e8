"""Who may reach the ports of a run: servers of Ray and of TPU slices run whatever they are sent."""

from __future__ import annotations

from k8s import pods, tensorboard
from k8s.manifest import Document
from k8s.plan import Plan

DASHBOARD = 8265  # of Ray: where jobs are submitted, and asked for
# In the chart of KubeRay and in its kustomization; the operator asks the dashboard how a job is.
OPERATOR = {"app.kubernetes.io/component": "kuberay-operator"}


def policy(plan: Plan) -> Document:
    """Returns a NetworkPolicy by which only Pods of the run reach each other; what they reach is free.

    Probes and `kubectl port-forward` come from the node, which no policy keeps out.
    """
    among = _pods(plan, "training", "worker") if plan.kind == "ray" else _pods(plan, "training")
    ingress: list[Document] = [{"from": [{"podSelector": among}]}]
    if plan.kind == "ray":
        # The operator's namespace is its own: any.
        operator = {"namespaceSelector": {}, "podSelector": {"matchLabels": OPERATOR}}
        asking = [{"podSelector": _pods(plan, "submitter")}, operator]
        ingress.append({"from": asking, "ports": [{"port": DASHBOARD, "protocol": "TCP"}]})
    if plan.kind == "ray" and plan.tensorboard == "beside":  # which is looked at, as where it has its own Pod
        ingress.append({"ports": [{"port": tensorboard.PORT, "protocol": "TCP"}]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": pods.metadata(plan, "network"),
        "spec": {"podSelector": among, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _pods(plan: Plan, *components: str) -> Document:
    """Returns a selector of the run's Pods that have one of the components."""
    component = {"key": "app.kubernetes.io/component", "operator": "In", "values": list(components)}
    return {"matchLabels": pods.labels(plan), "matchExpressions": [component]}
