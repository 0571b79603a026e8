"""What would be refused later, or by nobody and cannot work, is told before anything is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from k8s_examples import BUCKET, EXAMPLES, GOOD, IMAGE, RAY, one

ROOT = Path(__file__).resolve().parents[2]
SLICE = [*GOOD, "--sys", "tpu", "--tpu", "v4-16"]
CLAIM = ["--hparams", "ppo_cartpole", *IMAGE, "--pvc", "mine"]
NEW_CLAIM = [*GOOD[:4], "--pvc_size", "50Gi", "--output_dir", "/data/x"]


def mounted(path):
    return [*CLAIM, "--mount", path, "--output_dir", f"{path}/x"]


WRONG = [
    (
        ["--hparams", "ppo_cartpol", *IMAGE, *BUCKET],
        "unknown hparams name 'ppo_cartpol': did you mean ppo_cart",
    ),
    ([*IMAGE, *BUCKET], "--hparams is missing"),
    ([*GOOD, "--sys", "gpus"], "unknown --sys 'gpus': did you mean gpu"),
    ([*GOOD, "--hparam_override", "lrr=1"], "unknown hparam 'lrr': did you mean lr"),
    ([*GOOD, "--hparam_override", "model.name=mpl"], "unknown models name 'mpl'"),
    ([*GOOD, "--train_steps", "0"], "--train_steps: needs an integer >= 1"),
    ([*GOOD, "--cpuu", "3"], "unknown flag --cpuu: did you mean --cpu"),
    ([*GOOD, "--traim_steps", "3"], "unknown flag --traim_steps: did you mean --train_steps"),
    ([*GOOD, "--", "--cpu", "3"], "unknown flag --cpu"),
    ([*GOOD, "--user_modules", "no_such"], "cannot import user module 'no_such'"),
    ([*GOOD, "--list"], "--list: python train.py --list shows the names"),
    ([*GOOD, "--suggest", "X"], "--suggest: python train.py --suggest says it"),
    ([*GOOD, "--copies", "2", "--copy", "1"], "--copy: the index of a Job's Pod says which copy"),
    ([*IMAGE, *BUCKET, "--hparams", "cql_cartpole"], "needs the hparam data: --hparam_override data=..."),
    (
        [*IMAGE, *BUCKET, "--hparams", "dagger_cartpole"],
        "dagger needs the hparam expert: --hparam_override",
    ),
    (
        [*IMAGE, *BUCKET, "--hparams", "cql_cartpole", "--hparam_override", "data=data/x"],
        "data=data/x is in no Pod: give --pvc NAME",
    ),
    (
        [*IMAGE, *BUCKET, "--hparams", "cql_cartpole", "--hparam_override", "data=gs://b/x"],
        "data=gs://b/x is in no Pod: give --pvc NAME",
    ),
    ([*GOOD, "--hparam_override", "start_from=runs/x"], "start_from=runs/x is in no Pod: give --pvc NAME"),
    ([*GOOD, "--render"], "--render: a Pod has no display"),
    ([*GOOD, "--sys", "gcp"], "--sys tpu needs --tpu TYPE-NUMBER"),
    (
        [*GOOD[:4], "--output_dir", "s3://b/x"],
        "--output_dir s3://b/x: the image's TensorFlow writes to gs://",
    ),
    ([*RAY, "--ttl_seconds", "9"], "--ttl_seconds is for Jobs: a cluster of workers goes when its run has"),
    ([*RAY, "--hang_seconds", "0"], "--hang_seconds 0: learners of workers end when they hang; leave it out"),
    ([*GOOD, "--num_workers", "2", "--ray_address", "auto"], "--ray_address: workers join the cluster"),
    ([*GOOD, "--num_workers", "2", "--parallel", "2"], "--parallel 2 and --num_workers: take one"),
    (
        [*GOOD, "--num_workers", "3", "--hparam_override", "num_learners=2"],
        "2 learners cannot share 3 workers",
    ),
    (["--hparams", "ppo_cartpole", *BUCKET], "--image is missing"),
    (["--hparams", "ppo_cartpole", "--image", "a b", *BUCKET], "--image 'a b': needs REGISTRY/NAME:TAG"),
    (["--hparams", "ppo_cartpole", *IMAGE], "--output_dir is missing"),
    (["--hparams", "ppo_cartpole", *IMAGE, "--output_dir", "runs/x"], "runs/x would be lost with the Pod"),
    (
        ["--hparams", "ppo_cartpole", *IMAGE, "--output_dir", "gs://b/x", "--record_data", "d"],
        "--record_data d would be lost with the Pod",
    ),
    (["--hparams", "ppo_cartpole", *IMAGE, "--output_dir", "ram://x"], "ram://x would be lost with the Pod"),
    (["--hparams", "ppo_cartpole", *IMAGE, "--output_dir", "gs:///x"], "gs:///x would be lost with the Pod"),
    ([*GOOD, "--pvc", "a"], "the claim is mounted at /data: name a folder there, such as /data/x"),
    ([*GOOD, "--pvc", "a", "--output_dir", "/data/../etc"], "the claim is mounted at /data"),
    ([*GOOD, "--pvc", "a", "--pvc_size", "1Gi"], "take one of them"),
    ([*GOOD, "--pvc", "A_b"], "--pvc 'A_b': needs the name of an object"),
    ([*GOOD, "--pvc_size", "50GB", "--output_dir", "/data/x"], "--pvc_size '50GB': needs an amount above 0"),
    ([*GOOD, "--storage_class", "fast"], "--storage_class is for a new claim"),
    ([*GOOD, "--mount", "data"], "--mount 'data': needs a folder of its own"),
    ([*GOOD, "--mount", "/tmp/x"], "--mount '/tmp/x': needs a folder of its own"),
    ([*GOOD, "--name", "My_run"], "--name 'My_run': needs a letter"),
    ([*GOOD, "--name", "a" * 45], "44 at most"),
    ([*GOOD, "--namespace", "a.b"], "--namespace 'a.b': needs lower case letters"),
    ([*GOOD, "--service_account", "A"], "--service_account 'A': needs the name of an object"),
    ([*GOOD, "--image_pull_secret", "A"], "--image_pull_secret 'A': needs the name of an object"),
    ([*GOOD, "--env_secret", "A"], "--env_secret 'A': needs the name of an object"),
    ([*GOOD, "--env_var", "A"], "--env_var 'A': needs NAME=VALUE"),
    ([*GOOD, "--env_var", "1A=2"], "--env_var '1A=2': needs NAME=VALUE"),
    ([*GOOD, "--env_var", "HOME=/x"], "--env_var HOME: the Pod sets it itself"),
    ([*GOOD, "--env_var", "A=1", "--env_var", "A=2"], "--env_var A is given twice"),
    ([*GOOD, "--cpu", "four"], "--cpu 'four': needs an amount above 0, such as 4"),
    ([*GOOD, "--memory", "0"], "--memory '0': needs an amount above 0"),
    ([*GOOD, "--scratch", "1gb"], "--scratch '1gb': needs an amount above 0"),
    ([*GOOD, "--worker_memory", "x"], "--worker_memory 'x': needs an amount above 0"),
    ([*GOOD, "--gpus", "1"], "--gpus 1 is for --sys gpu, not --sys local"),
    ([*GOOD, "--sys", "gpu", "--gpus", "0"], "--gpus: needs an integer >= 1, not 0"),
    ([*GOOD, "--tpu", "v5e-4"], "--tpu v5e-4 is for --sys tpu, not --sys local"),
    ([*GOOD, "--sys", "tpu"], "--sys tpu needs --tpu TYPE-NUMBER"),
    ([*GOOD, "--sys", "tpu", "--tpu", "v5e-5"], "unknown --tpu 'v5e-5': v5e has v5e-1, v5e-4"),
    ([*GOOD, "--sys", "tpu", "--tpu", "v4-4"], "(the number is of TensorCores, two of a chip)"),
    ([*GOOD, "--sys", "tpu", "--tpu", "v9-8"], "unknown --tpu 'v9-8': did you mean"),
    (
        [*GOOD, "--sys", "tpu", "--tpu", "v4-16", "--copies", "2"],
        "--copies 2 and --tpu v4-16, which is 2 machines",
    ),
    ([*GOOD, "--sys", "tpu", "--tpu", "v4-16", "--num_workers", "2"], "--num_workers 2 and --tpu v4-16"),
    ([*GOOD, "--sys", "tpu", "--tpu", "v4-16", "--parallel", "2"], "--parallel 2 and --tpu v4-16"),
    ([*GOOD, "--spot", "prefered"], "unknown --spot 'prefered': did you mean preferred"),
    ([*GOOD, "--cloud", "aws"], "unknown --cloud 'aws'"),
    ([*GOOD, "--node_selector", "disk"], "--node_selector 'disk': needs LABEL=VALUE"),
    ([*GOOD, "--node_selector", "a=b", "--node_selector", "a=c"], "--node_selector a=c: a is b already"),
    ([*GOOD, "--keep_cluster"], "--keep_cluster is for workers"),
    ([*GOOD, "--workers_per_pod", "0"], "--workers_per_pod: needs an integer >= 1"),
    ([*GOOD, "--grace_seconds", "-1"], "--grace_seconds: needs an integer >= 1"),
    # CheckGracefulDelete in pkg/registry/core/pod of Kubernetes: a Pod of 0 is deleted as by --force.
    ([*GOOD, "--grace_seconds", "0"], "--grace_seconds: needs an integer >= 1, not 0"),
    ([*GOOD, "--ttl_seconds", "day"], "--ttl_seconds: needs an integer, not 'day'"),
    ([*GOOD, "--backoff_limit", "3000000000"], "--backoff_limit: needs an integer <= 2147483647"),
    ([*GOOD, "--tensorboard", "maybe"], "--tensorboard: needs True, False or only, not 'maybe'"),
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
        ([*SLICE, "--env_var", f"{name}=0"], f"--env_var {name}: each machine of a slice has its own")
        for name in ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")
    ),
    *(
        (mounted(path), f"--mount {path!r}: needs a folder of its own")
        for path in (
            *("/usr", "/usr/local", "/proc", "/proc/1", "/opt/venv", "/opt", "/opt/rl/runs", "/dev/shm"),
            *("/sys", "/etc", "/bin", "/lib", "/lib64", "/sbin", "/var", "/var/run/secrets", "/run", "/root"),
            *("/tmp", "//usr", "///proc", "/data/../usr", "/a:b"),
        )
    ),
    ([*NEW_CLAIM, "--tensorboard_service_account", "a"], "--tensorboard_service_account: a claim is read"),
    ([*NEW_CLAIM, "--tensorboard_env_secret", "a"], "--tensorboard_env_secret: a claim is read without"),
    (
        [*GOOD, "--tensorboard", "False", "--tensorboard_env_secret", "a"],
        "--tensorboard_env_secret: --tensorboard is False: leave it out",
    ),
    ([*GOOD, "--tensorboard_env_secret", "A"], "--tensorboard_env_secret 'A': needs the name of an obj"),
    ([*GOOD, "--tensorboard", "Only"], "--tensorboard: needs True, False or only, not 'Only'"),
    ([*GOOD, "--image_pull_policy", "always"], "unknown --image_pull_policy 'always': did you mean Always"),
    *(
        ([*GOOD, "--toleration", given], f"--toleration {given!r}: needs KEY[=VALUE][:EFFECT]")
        for given in ("", "=a", "a b", "a=b c", "a:Never", "a:", "a=b:noschedule")
    ),
]


@pytest.mark.parametrize("flags, message", WRONG, ids=[message for _, message in WRONG])
def test_wrong_flags_are_one_line_and_exit_code_2(flags, message, generate, tmp_path):
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


def test_variables_of_a_slice_are_free_on_one_machine(generate):
    assert generate(*EXAMPLES["tpu"], "--env_var", "TPU_WORKER_ID=0").code == 0


def test_variables_of_ray_are_free_where_there_is_no_kuberay(generate):
    assert generate(*GOOD, "--env_var", "RAY_ADDRESS=a").code == 0


@pytest.mark.parametrize("kind", ["copies", "tpu_hosts", "ray", "ray_kept"])
def test_longest_name_is_one_for_all_that_is_made_from_it(generate, kind):
    """Pods are host names, of 63 characters; KubeRay (utils/validation.go) takes 47 and 53."""
    name = "a" * 44
    written = generate(*EXAMPLES[kind], "--name", name)
    assert written.code == 0, written.err
    longest = {"RayJob": 47, "RayCluster": 53, "JobSet": 63 - len("-hosts-0-127-xxxxx")}
    longest["Job"] = 63 - len("-99999")  # the index of a copy
    for each in written.objects:
        assert name in each["metadata"]["name"]
        assert len(each["metadata"]["name"]) <= longest.get(each["kind"], 63)


def test_undecodable_bytes_of_a_real_command_line_are_told(tmp_path):
    command = [sys.executable, "-m", "k8s.generate", *GOOD, "--env_var", b"A=\xff"]
    command += ["--write_to", tmp_path / "m"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and b"is no UTF-8" in done.stderr
    assert not (tmp_path / "m").exists()


def test_a_file_of_hyperparameters_becomes_flags_of_the_pods(generate, tmp_path):
    """Which do not have it; and its name is the run's."""
    (tmp_path / "my_fast.toml").write_text('base = "ppo_cartpole"\nlr = 0.01\n[model]\nhidden = [8]\n')
    flags = ["--hparams", str(tmp_path / "my_fast.toml"), *IMAGE, *BUCKET, "--hparam_override", "epochs=2"]
    job = one(generate(*flags).objects, "Job")
    assert job["metadata"]["name"] == "my-fast"
    text = str(job)
    assert "'--hparams', 'ppo_cartpole'" in text and "lr=0.01,model.hidden=[8],epochs=2" in text
