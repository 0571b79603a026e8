"""What would be refused later, or by nobody and cannot work, is told before anything is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from k8s_examples import BUCKET, IMAGE, one

ROOT = Path(__file__).resolve().parents[2]

GOOD = ["--hparams", "ppo_cartpole", *IMAGE, *BUCKET]
RAY = ["--hparams", "impala_cartpole", "--num_workers", "2", *IMAGE, *BUCKET]
CLAIM = ["--hparams", "ppo_cartpole", *IMAGE, "--pvc", "mine"]


def mounted(path):
    return [*CLAIM, "--mount", path, "--output_dir", f"{path}/x"]


WRONG = [
    # pkg/apis/batch/validation of Kubernetes: completionsSoftLimit
    ([*GOOD, "--copies", "100001"], "--copies 100001: a Job has 100000 Pods at most"),
    ([*RAY, "--num_workers", "9000000000", "--workers_per_pod", "1"], "--num_workers 9000000000: needs"),
    ([*GOOD, "--memory", "\uff18Gi"], "--memory '\uff18Gi': needs an amount"),
    ([*GOOD, "--cpu", "\u0664"], "--cpu '\u0664': needs an amount above 0"),
    ([*GOOD, "--cpu", "8Gi"], "--cpu '8Gi': needs cores, such as 4 or 500m"),
    ([*GOOD, "--memory", "8"], "--memory '8': needs at least 64Mi, such as 8Gi; a bare number is of bytes"),
    ([*GOOD, "--memory", "8000m"], "--memory '8000m': needs at least 64Mi"),
    ([*GOOD, "--scratch", "10"], "--scratch '10': needs at least 64Mi, such as 10Gi"),
    ([*GOOD, "--worker_memory", "2k"], "--worker_memory '2k': needs at least 64Mi, such as 1Gi"),
    ([*GOOD, "--pvc_size", "", "--output_dir", "/data/x"], "--pvc_size '': needs an amount above 0"),
    ([*GOOD, "--pvc_size", "50", "--output_dir", "/data/x"], "--pvc_size '50': needs at least 64Mi"),
    ([*GOOD, "--hparam_override", "a\udcff=1"], r"'a\udcff=1' is no UTF-8"),
    ([*GOOD, "--env_var", "A=\udc80"], r"'A=\udc80' is no UTF-8"),
    ([*GOOD, "--write_to", "\udc80"], r"'\udc80' is no UTF-8"),
    # What `kubectl apply` keeps beside an object: TotalAnnotationSizeLimitB of apimachinery
    ([*GOOD, *(f"--env_var=V{i}={'x' * 100_000}" for i in range(3))], "262144 at most"),
    ([*GOOD, *(f"--env_var=V{i}={'x' * 100_000}" for i in range(32))], "262144 at most"),
    ([*RAY, "--env_var", "RAY_REDIS_ADDRESS=a:1"], "--env_var RAY_REDIS_ADDRESS: KubeRay sets or refuses it"),
    ([*RAY, "--env_var", "RAY_ADDRESS=a"], "--env_var RAY_ADDRESS: KubeRay sets or refuses it"),
    ([*RAY, "--env_var", "REDIS_USERNAME=a"], "--env_var REDIS_USERNAME: KubeRay sets or refuses it"),
    ([*RAY, "--env_var", "RAY_USAGE_STATS_ENABLED=1"], "--env_var RAY_USAGE_STATS_ENABLED: "),
    ([*RAY, "--env_var", "FQ_RAY_IP=a"], "--env_var FQ_RAY_IP: KubeRay sets or refuses it"),
    ([*RAY, "--env_var", "RAY_AUTH_MODE=disabled"], "--env_var RAY_AUTH_MODE: KubeRay sets or refuses it"),
    *(
        (mounted(path), f"--mount {path!r}: needs a folder of its own")
        for path in (
            *("/usr", "/usr/local", "/proc", "/proc/1", "/opt/venv", "/opt", "/opt/rl/runs", "/dev/shm"),
            *("/sys", "/etc", "/bin", "/lib", "/lib64", "/sbin", "/var", "/var/run/secrets", "/run", "/root"),
            *("/tmp", "//usr", "///proc", "/data/../usr", "/a:b"),
        )
    ),
]


@pytest.mark.parametrize("flags, message", WRONG, ids=[message for _, message in WRONG])
def test_wrong_input_is_one_line_and_exit_code_2(flags, message, generate, tmp_path):
    done = generate(*flags)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ") and done.err.count("\n") == 1 and len(done.err) < 400
    assert message in done.err
    assert not list(tmp_path.iterdir()), "nothing may be written"


@pytest.mark.parametrize("path", ["/data", "/opt/data", "/var/tmp/x", "/mnt/disk", "/home/me", "/usr2"])
def test_folders_of_their_own_are_mounted(generate, path):
    written = generate(*mounted(path))
    assert written.code == 0, written.err


def test_as_many_copies_as_a_job_may_have_are_written(generate):
    spec = one(generate(*GOOD, "--copies", "100000").objects, "Job")["spec"]
    assert spec["completions"] == spec["parallelism"] == 100_000


def test_variables_of_ray_are_free_where_there_is_no_kuberay(generate):
    assert generate(*GOOD, "--env_var", "RAY_ADDRESS=a").code == 0


# https://github.com/distribution/reference: reference.go has the grammar.
@pytest.mark.parametrize(
    "image",
    [
        *("a", "a:1", "ghcr.io/me/rl:gpu", "localhost:5000/a/b_c", "a/b:V1.2-x_y", "a__b", "a--b/c.d"),
        *("[::1]:5000/a", "a@sha256:" + "0" * 64, "r.io/a:1@sha256:" + "f" * 64),
    ],
)
def test_images_that_there_may_be_are_taken(generate, image):
    assert generate("--hparams", "ppo_cartpole", *BUCKET, "--image", image).code == 0


@pytest.mark.parametrize(
    "image",
    [
        *(
            "a::b",
            "a:",
            ":a",
            "a:b:c",
            "a//b",
            "/a",
            "a/",
            "A",
            "a/B",
            "a_",
            "a..b",
            "a:-x",
            "a:" + "x" * 129,
        ),
        *("a@sha256:0", "a@b", "a b", "a:x/y", "a\n", "https://r.io/a:1", "a:" + "x" * 129, "a" * 256),
    ],
)
def test_what_is_no_image_is_refused(generate, image):
    done = generate("--hparams", "ppo_cartpole", *BUCKET, "--image", image)
    assert done.code == 2 and "needs REGISTRY/NAME:TAG" in done.err and done.err.count("\n") == 1


def test_undecodable_bytes_of_a_real_command_line_are_told(tmp_path):
    command = [sys.executable, "-m", "k8s.generate", *GOOD, "--env_var", b"A=\xff"]
    command += ["--write_to", tmp_path / "m"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and b"is no UTF-8" in done.stderr
    assert not (tmp_path / "m").exists()
