"""What was typed arrives as it was typed: Kubernetes puts variables into arguments and into variables."""

from __future__ import annotations

import re
import shlex

import pytest
from k8s_examples import IMAGE, one

TEXTS = ["$(HOME)", "$$", "$$(HOME)", "$HOME", "a$", "$(A", "$((1))", "100$$5", "$(NOT_THERE)"]
FLAGS = ["--hparams", "ppo_cartpole", *IMAGE]
ENVIRONMENT = {"HOME": "/tmp", "A": "b"}


def expanded(text):
    """What a container gets: references to known variables are replaced, `$$` becomes `$`
    (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1, args)."""

    def replaced(match):
        return "$" if match[1] is None else ENVIRONMENT.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^()$]*)\)", replaced, text)


@pytest.mark.parametrize("text", TEXTS)
def test_arguments_and_variables_arrive_as_they_were_typed(generate, text):
    written = generate(*FLAGS, "--output_dir", f"gs://bucket/{text}", "--env_var", f"V={text}")
    for kind, flag in (("Job", "--output_dir"), ("Deployment", "--logdir")):
        (container,) = one(written.objects, kind)["spec"]["template"]["spec"]["containers"]
        args = [expanded(each) for each in container["args"]]
        assert args[args.index(flag) + 1] == f"gs://bucket/{text}"
        assert [expanded(each["value"]) for each in container["env"] if each["name"] == "V"] == [text]


@pytest.mark.parametrize("text", TEXTS)
def test_entrypoint_of_a_rayjob_arrives_as_it_was_typed(generate, text):
    """KubeRay puts it into the arguments of the Pod that submits."""
    output = f"gs://bucket/{text}"
    written = generate("--hparams", "impala_cartpole", "--num_workers", "2", *IMAGE, "--output_dir", output)
    words = shlex.split(expanded(one(written.objects, "RayJob")["spec"]["entrypoint"]))
    assert words[words.index("--output_dir") + 1] == output
