"""One command line for each kind of thing that `k8s.generate` writes."""

from __future__ import annotations

IMAGE = ["--image", "ghcr.io/me/rl:1"]
BUCKET = ["--output_dir", "gs://bucket/x"]
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
    "ray_kept": ["--hparams", "impala_cartpole", "--num_workers", "3", "--keep_cluster", *IMAGE, *BUCKET],
}


def one(objects, kind):
    """The only object of a kind."""
    (found,) = [each for each in objects if each["kind"] == kind]
    return found
