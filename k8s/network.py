"""Who may reach the ports of a run: servers of Ray and of TPU slices run whatever they are sent."""

from __future__ import annotations

from kubernetes import client

from k8s import pods
from k8s.plan import Plan

DASHBOARD = 8265  # of Ray: where jobs are submitted, and asked for
# In the chart of KubeRay and in its kustomization; the operator asks the dashboard how a job is.
OPERATOR = {"app.kubernetes.io/component": "kuberay-operator"}


def policy(plan: Plan) -> client.V1NetworkPolicy:
    """Lets only Pods of the run reach each other; what they reach themselves is free.

    Probes and `kubectl port-forward` come from the node, which no policy keeps out.
    """
    among = _pods(plan, "training", "worker") if plan.kind == "ray" else _pods(plan, "training")
    ingress = [client.V1NetworkPolicyIngressRule(_from=[client.V1NetworkPolicyPeer(pod_selector=among)])]
    if plan.kind == "ray":
        ingress.append(
            client.V1NetworkPolicyIngressRule(
                _from=[
                    client.V1NetworkPolicyPeer(pod_selector=_pods(plan, "submitter")),
                    client.V1NetworkPolicyPeer(
                        namespace_selector=client.V1LabelSelector(),  # any: it has one of its own
                        pod_selector=client.V1LabelSelector(match_labels=OPERATOR),
                    ),
                ],
                ports=[client.V1NetworkPolicyPort(port=DASHBOARD, protocol="TCP")],
            )
        )
    return client.V1NetworkPolicy(
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        metadata=pods.metadata(plan, "network"),
        spec=client.V1NetworkPolicySpec(pod_selector=among, policy_types=["Ingress"], ingress=ingress),
    )


def _pods(plan: Plan, *components: str) -> client.V1LabelSelector:
    """Those of the run that have one of the components."""
    component = client.V1LabelSelectorRequirement(
        key="app.kubernetes.io/component", operator="In", values=list(components)
    )
    return client.V1LabelSelector(match_labels=pods.labels(plan), match_expressions=[component])
