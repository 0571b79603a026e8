"""Where Pods may go, and which image they run there."""

from __future__ import annotations

import pytest
from k8s_examples import BUCKET, IMAGE

from k8s.checks import pod_templates

GOOD = ["--hparams", "ppo_cartpole", *IMAGE, *BUCKET]
RAY = ["--hparams", "impala_cartpole", "--num_workers", "2", *IMAGE, *BUCKET]


def pods(written):
    return [template["spec"] for each in written.objects for _, template, _ in pod_templates(each)]


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


@pytest.mark.parametrize("given", ["", "=a", "a b", "a=b c", "a:Never", "a:", "a=b:noschedule"])
def test_what_is_no_taint_is_one_line_and_exit_code_2(generate, tmp_path, given):
    done = generate(*GOOD, "--toleration", given)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1
    assert f"--toleration {given!r}: needs KEY[=VALUE][:EFFECT]" in done.err and not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", [GOOD, RAY])
def test_node_selector_is_for_the_pods_that_train(generate, flags):
    written = generate(*flags, "--node_selector", "disk=ssd")
    assert [pod["nodeSelector"] for pod in pods(written) if "nodeSelector" in pod] == [{"disk": "ssd"}]


def test_help_says_whose_nodes_are_selected(generate, capsys):
    with pytest.raises(SystemExit):
        generate("--help")
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
    containers = [
        each
        for pod in pods(generate(*kind, *flags))
        for each in [*pod["containers"], *pod.get("initContainers", [])]
    ]
    assert {each["imagePullPolicy"] for each in containers} == {policy}


def test_unknown_pull_policy_is_one_line_and_exit_code_2(generate):
    done = generate(*GOOD, "--image_pull_policy", "always")
    assert done.code == 2 and "unknown --image_pull_policy 'always': did you mean Always" in done.err
