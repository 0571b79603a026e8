"""Ports at which anybody could run anything are reached by the Pods of the same run, and with a token."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from k8s_examples import EXAMPLES, one, pod_templates

SLICE = EXAMPLES["tpu_hosts"]
RAY = EXAMPLES["ray"]
OTHER_RUN = {"name": "rl", "instance": "other", "managed-by": "k8s.generate", "component": "training"}
OTHERS = [
    {},
    {f"app.kubernetes.io/{key}": value for key, value in OTHER_RUN.items()},
    {"app.kubernetes.io/component": "training"},
]
OPERATORS = [  # labels of its Pods, in KubeRay's chart and in its kustomization
    {"app.kubernetes.io/name": "kuberay-operator", "app.kubernetes.io/component": "kuberay-operator"},
    {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": "kuberay-operator"},
]


def selects(selector, labels):
    assert all(each["operator"] == "In" for each in selector.get("matchExpressions", []))
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


def reaches(spec, labels, port, namespace=True):
    """Whether a Pod with these labels may: of this namespace, or of another one.

    https://kubernetes.io/docs/concepts/services-networking/network-policies
    """
    for rule in spec["ingress"]:
        ports = [each["port"] for each in rule.get("ports", [])] or [port]
        for peer in rule["from"]:
            near = namespace or peer.get("namespaceSelector") == {}
            if near and selects(peer["podSelector"], labels) and port in ports:
                return True
    return False


def components(written):
    labels = [template["metadata"]["labels"] for template in pod_templates(written.objects)]
    return {each["app.kubernetes.io/component"]: each for each in labels}


def test_machines_of_a_slice_are_reached_by_each_other_alone(generate):
    written = generate(*SLICE)
    pods, spec = components(written), one(written.objects, "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress"] and selects(spec["podSelector"], pods["training"])
    for port in (8470, 8471, 8476, 8480, 41234):  # the program's own port is any free one
        assert reaches(spec, pods["training"], port)
        assert not reaches(spec, pods["training"], port, namespace=False)
        assert not any(reaches(spec, labels, port) for labels in (*OTHERS, pods["tensorboard"]))
    assert not selects(spec["podSelector"], pods["tensorboard"]), "which is looked at"


@pytest.mark.parametrize("flags", [RAY, EXAMPLES["ray_kept"]])
def test_ray_is_reached_by_its_own_pods_and_where_jobs_are_asked_for_by_the_operator(generate, flags):
    written = generate(*flags)
    pods, spec = components(written), one(written.objects, "NetworkPolicy")["spec"]
    assert [name for name in pods if selects(spec["podSelector"], pods[name])] == ["training", "worker"]
    for port in (6379, 8265, 10001, 41234):
        assert reaches(spec, pods["training"], port) and reaches(spec, pods["worker"], port)
        assert not any(reaches(spec, labels, port) for labels in (*OTHERS, pods["tensorboard"]))
        for labels, namespace in ((pods["submitter"], True), *((each, False) for each in OPERATORS)):
            assert reaches(spec, labels, port, namespace) is (port == 8265)


def test_tensorboard_beside_the_head_is_reached_by_all(generate):
    flags = ["--hparams", "impala_cartpole", "--num_workers", "2", "--image", "img:1", "--pvc", "mine"]
    written = generate(*flags, "--output_dir", "/data/x")
    spec = one(written.objects, "NetworkPolicy")["spec"]
    assert {"ports": [{"port": 6006, "protocol": "TCP"}]} in spec["ingress"]
    assert "from" not in spec["ingress"][-1] and all("from" in rule for rule in spec["ingress"][:-1])


def test_policy_is_there_before_the_pods(generate):
    assert generate(*RAY).files[0].name == "15-network.yaml"


def test_pod_that_listens_to_nobody_needs_no_policy(generate):
    assert "NetworkPolicy" not in {each["kind"] for each in generate(*EXAMPLES["job"]).objects}


@pytest.mark.parametrize("flags, kind", [(RAY, "RayJob"), (EXAMPLES["ray_kept"], "RayCluster")])
def test_ray_asks_for_a_token(generate, flags, kind):
    spec = one(generate(*flags).objects, kind)["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    assert cluster["authOptions"] == {"mode": "token"}
    # KubeRay refuses a token without a version from 2.52 on (utils/validation.go): the image's least one.
    dockerfile = (Path(__file__).parents[2] / "k8s" / "Dockerfile").read_text()
    (least,) = re.findall(r"ray\[default\]>=([0-9.]+)", dockerfile)
    assert cluster["rayVersion"] == f"{least}.0" and least == "2.60"


def test_network_is_that_of_the_namespace(generate):
    written = generate(*RAY, "--namespace", "t")
    assert one(written.objects, "NetworkPolicy")["metadata"]["namespace"] == "t"
