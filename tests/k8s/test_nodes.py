"""Where Pods may go, and which image they run there."""

from __future__ import annotations

import pytest
from k8s_examples import GOOD, RAY, containers, pod_templates

from k8s.generate import main


def pods(written):
    return [template["spec"] for template in pod_templates(written.objects)]


@pytest.mark.parametrize(
    "given, toleration",
    [
        ("team=rl:NoSchedule", {"key": "team", "operator": "Equal", "value": "rl", "effect": "NoSchedule"}),
        ("x.io/team:NoExecute", {"key": "x.io/team", "operator": "Exists", "effect": "NoExecute"}),
        ("team=y", {"key": "team", "operator": "Equal", "value": "y"}),
        ("team=", {"key": "team", "operator": "Equal", "value": ""}),
        ("team", {"key": "team", "operator": "Exists"}),
    ],
)
@pytest.mark.parametrize("flags", [GOOD, RAY])
def test_taint_is_tolerated_by_all_pods(generate, flags, given, toleration):
    written = generate(*flags, "--toleration", given, "--toleration", "other")
    assert len(pods(written)) == (2 if flags == GOOD else 4)
    for pod in pods(written):
        assert toleration in pod["tolerations"]
        assert {"key": "other", "operator": "Exists"} in pod["tolerations"]


@pytest.mark.parametrize("flags", [GOOD, RAY])
def test_node_selector_is_for_the_pods_that_train(generate, flags):
    written = generate(*flags, "--node_selector", "disk=ssd")
    assert [pod["nodeSelector"] for pod in pods(written) if "nodeSelector" in pod] == [{"disk": "ssd"}]


def test_help_says_whose_nodes_are_selected(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "for the Pods that train, and no others" in " ".join(capsys.readouterr().out.split())


DIGEST = "ghcr.io/me/rl@sha256:" + "0" * 64


@pytest.mark.parametrize(
    "flags, policy",
    [
        ([], "Always"),  # a tag may have been pushed anew since the node has pulled it
        (["--image", DIGEST], "IfNotPresent"),
        (["--image_pull_policy", "Never"], "Never"),
        (["--image", DIGEST, "--image_pull_policy", "Always"], "Always"),
    ],
)
@pytest.mark.parametrize("kind", [GOOD, RAY, [*GOOD, "--pvc", "mine", "--output_dir", "/data/x"]])
def test_tag_is_looked_up_anew_by_every_pod(generate, kind, flags, policy):
    pods = containers(generate(*kind, *flags).objects)
    assert {each["imagePullPolicy"] for each in pods} == {policy}
