"""Command lines for each kind of thing that `k8s.generate` writes, and what finds its way in that."""

from __future__ import annotations

IMAGE = ["--image", "ghcr.io/me/rl:1"]
BUCKET = ["--output_dir", "gs://bucket/x"]
GOOD = ["--hparams", "ppo_cartpole", *IMAGE, *BUCKET]
RAY = ["--hparams", "impala_cartpole", "--num_workers", "2", *IMAGE, *BUCKET]
EXAMPLES = {
    "job": ["--hparams", "ppo_pong", "--sys", "gpu", *IMAGE, *BUCKET],
    "copies": ["--hparams", "ppo_cartpole", "--copies", "5", "--parallel", "2", *IMAGE, *BUCKET],
    "claim": [
        *("--hparams", "dqn_cartpole", *IMAGE, "--pvc_size", "50Gi", "--storage_class", "fast"),
        *("--output_dir", "/data/x", "--spot", "required", "--namespace", "team"),
    ],
    "existing_claim": [
        *(
            "--hparams",
            "dqn_cartpole",
            *IMAGE,
            "--pvc",
            "mine",
            "--mount",
            "/runs",
            "--output_dir",
            "/runs/x",
        ),
        *(
            "--spot",
            "no",
            "--cloud",
            "gke",
            "--service_account",
            "trainer",
            "--image_pull_secret",
            "registry",
        ),
        *("--env_var", "A=1", "--env_var", "B=x=y", "--env_secret", "keys", "--node_selector", "disk=ssd"),
    ],
    "tpu": ["--hparams", "ppo_catch", "--sys", "tpu", "--tpu", "v5e-4", *IMAGE, *BUCKET],
    "tpu_hosts": ["--hparams", "ppo_catch", "--sys", "tpu", "--tpu", "v4-32", *IMAGE, *BUCKET],
    "ray": ["--hparams", "impala_cartpole", "--num_workers", "8", "--sys", "gpu", *IMAGE, *BUCKET],
    "ray_buffers": [
        *("--hparams", "apex_dqn_cartpole", "--num_workers", "6", "--hparam_override", "buffer_shards=2"),
        *(*IMAGE, "--pvc_size", "5Gi", "--output_dir", "/data/x", "--tensorboard", "False"),
    ],
    "ray_claim": [
        *("--hparams", "impala_cartpole", "--num_workers", "2", *IMAGE, "--service_account", "trainer"),
        *("--pvc", "mine", "--output_dir", "/data/x", "--toleration", "team=rl:NoExecute"),
    ],
    "shown": [
        *("--hparams", "ppo_pong", *IMAGE, "--pvc", "mine", "--output_dir", "/data/x"),
        *("--tensorboard", "only"),
    ],
    "ray_kept": ["--hparams", "impala_cartpole", "--num_workers", "3", "--keep_cluster", *IMAGE, *BUCKET],
}

# What kubectl (sigs.k8s.io/yaml, on go.yaml.in/yaml/v2: resolve.go) takes for something else than text
# where it is not quoted: booleans, nothing, numbers of all bases, dates, the merge key.
WORDS = [
    *("y", "Y", "n", "N", "yes", "No", "on", "OFF", "true", "False", "null", "~", "", "<<", "="),
    *("1", "+1", "08", "017", "0o17", "0x1f", "0b11", "1_000", "1e3", "3e-4", "1.", ".5", "-.inf", ".NaN"),
    *("2001-01-01", "2001-01-01T00:00:00Z", "1:30"),
]


def one(objects, kind):
    """Returns the only object of a kind."""
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pod_templates(node):
    """Yields the Pod templates in an object, wherever they are."""
    if isinstance(node, dict):
        if isinstance(node.get("spec"), dict) and "containers" in node["spec"]:
            yield node
        for value in node.values():
            yield from pod_templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from pod_templates(value)


def containers(objects):
    """Returns all containers of all Pods, sidecars too."""
    specs = [template["spec"] for template in pod_templates(objects)]
    return [each for spec in specs for each in [*spec["containers"], *spec.get("initContainers", [])]]
