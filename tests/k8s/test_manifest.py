"""The text of manifests means the same to kubectl as to us."""

from __future__ import annotations

import pytest
import yaml
from k8s_examples import BUCKET, IMAGE, WORDS, one


def plain_scalars(path):
    events = yaml.parse(path.read_text())
    return {event.value for event in events if isinstance(event, yaml.ScalarEvent) and event.style is None}


@pytest.mark.parametrize("word", WORDS)
def test_text_that_looks_like_something_else_is_quoted(generate, word):
    written = generate("--hparams", "ppo_cartpole", *IMAGE, *BUCKET, "--env_var", f"LR={word}")
    job = one(written.objects, "Job")
    assert {"name": "LR", "value": word} in job["spec"]["template"]["spec"]["containers"][0]["env"]
    lines = [path.read_text().split('name: "LR"\n')[1].splitlines()[0].strip() for path in written.files]
    assert lines == [f'value: "{word}"'] * 2


@pytest.mark.parametrize("label", ["y=n", "08=1e3", "on=off"])
def test_label_that_looks_like_something_else_is_quoted_as_a_key_too(generate, label):
    written = generate("--hparams", "ppo_cartpole", *IMAGE, *BUCKET, "--node_selector", label)
    key, _, value = label.partition("=")
    assert one(written.objects, "Job")["spec"]["template"]["spec"]["nodeSelector"] == {key: value}
    assert not {key, value} & set.union(*map(plain_scalars, written.files))


def test_every_text_is_quoted(example):
    for path in example.files:
        for document in yaml.compose_all(path.read_text()):
            assert [each for each in values(document) if each.tag.endswith(":str") and not each.style] == []


def values(node):
    """All scalars of a document but for keys."""
    if isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from values(value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from values(each)
    else:
        yield node
