"""The text of manifests means the same to kubectl as to us, and what was typed arrives as it was typed."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from k8s_examples import GOOD, RAY, WORDS, one

# Kubernetes puts variables into arguments and into variables.
TEXTS = ["$(HOME)", "$$", "$$(HOME)", "$HOME", "a$", "$(A", "$((1))", "100$$5", "$(NOT_THERE)"]
ENVIRONMENT = {"HOME": "/tmp", "A": "b"}


def scalars(path):
    """The scalars of a file: (whether it is a key, node)."""

    def below(node, key=False):
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                yield True, name
                yield from below(value)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                yield from below(value)
        else:
            yield False, node

    return [pair for document in yaml.compose_all(path.read_text()) for pair in below(document)]


def test_text_that_looks_like_something_else_is_quoted(generate):
    written = generate(*GOOD, *(f"--env_var=V{i}={word}" for i, word in enumerate(WORDS)))
    assert len(written.files) == 2
    for path in written.files:
        lines = [line.strip() for line in path.read_text().splitlines()]
        assert [lines[lines.index(f'- name: "V{i}"') + 1] for i in range(len(WORDS))] == [
            f'value: "{word}"' for word in WORDS
        ]


def test_label_that_looks_like_something_else_is_quoted_as_a_key_too(generate):
    labels = {"y": "n", "08": "1e3", "on": "off"}
    written = generate(*GOOD, *(f"--node_selector={key}={value}" for key, value in labels.items()))
    assert one(written.objects, "Job")["spec"]["template"]["spec"]["nodeSelector"] == labels
    plain = {node.value for path in written.files for _, node in scalars(path) if node.style is None}
    assert not {*labels, *labels.values()} & plain


def test_every_text_is_quoted(example):
    for path in example.files:
        nodes = [node for key, node in scalars(path) if not key and node.tag.endswith(":str")]
        assert nodes and all(node.style for node in nodes)


def expanded(text):
    """What a container gets: references to known variables are replaced, `$$` becomes `$`
    (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1, args)."""

    def replaced(match):
        return "$" if match[1] is None else ENVIRONMENT.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^()$]*)\)", replaced, text)


@pytest.mark.parametrize("text", TEXTS)
def test_arguments_and_variables_arrive_as_they_were_typed(generate, text):
    output = f"gs://bucket/{text}"
    written = generate(*GOOD[:4], "--output_dir", output, "--env_var", f"V={text}")
    for kind, flag in (("Job", "--output_dir"), ("Deployment", "--logdir")):
        (container,) = one(written.objects, kind)["spec"]["template"]["spec"]["containers"]
        args = [expanded(each) for each in container["args"]]
        assert args[args.index(flag) + 1] == output
        assert [expanded(each["value"]) for each in container["env"] if each["name"] == "V"] == [text]
    # KubeRay puts the entrypoint into the arguments of the Pod that submits.
    written = generate(*RAY[:-2], "--output_dir", output, "--name", "ray")
    words = shlex.split(expanded(one(written.objects, "RayJob")["spec"]["entrypoint"]))
    assert words[words.index("--output_dir") + 1] == output
