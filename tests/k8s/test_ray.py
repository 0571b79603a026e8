"""RayJobs: room for all processes, the command as it is typed, the learner alone on the head."""

from __future__ import annotations

import inspect
import json
import shlex
import subprocess
import sys

import pytest
from k8s_examples import BUCKET, EXAMPLES, IMAGE, one

from k8s.variables import RESERVED_RAY

# What stands between a RayJob's entrypoint and the learner: KubeRay writes it into a command of a shell, Ray
# quotes the words that arrive (`ray job submit` joins them by shlex.join) and runs them in another.
SUBMIT = "import shlex, sys; print(shlex.join(sys.argv[1:]))"
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"


def arrives(entrypoint):
    submit = f"{sys.executable} -c {shlex.quote(SUBMIT)} {entrypoint}"
    sent = subprocess.run(["bash", "-ce", submit], capture_output=True, text=True, check=True).stdout.rstrip(
        "\n"
    )
    show = f"{sys.executable} -c {shlex.quote(SHOW)} {sent}"
    return json.loads(subprocess.run(["bash", "-c", show], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    "override",
    ["lr=3e-4", "model.hidden=[64,64]", "env_kwargs={a:1,b:2}", "env_kwargs={a: 'x y', b: \"$HOME\"}"],
)
def test_command_passes_through_both_shells_as_it_is(override, monkeypatch):
    from k8s.options import train_command
    from rl.cli import parse

    args = parse(["--hparams", "ppo", "--hparam_override", override, "--output_dir", "gs://bucket/x"])
    command = train_command(args)
    assert override in command
    assert arrives(shlex.join(command)) == command


def test_entrypoint_is_the_command_on_this_cluster(generate):
    spec = one(generate(*EXAMPLES["ray"]).objects, "RayJob")["spec"]
    assert spec["entrypoint"] == (
        "python train.py --sys gpu --hparams impala_cartpole --output_dir gs://bucket/x "
        "--num_workers 8 --ray_address auto"
    )
    assert spec["shutdownAfterJobFinishes"] is True
    # KubeRay: "the TTL to clean up RayCluster", accelerator and all (rayjob_types.go).
    assert (spec["ttlSecondsAfterFinished"], spec["backoffLimit"]) == (0, 6)
    assert spec["submitterConfig"]["backoffLimit"] >= 100, "its Pod may be on a spot node"


@pytest.mark.parametrize(
    "flags, pods, each",
    [
        (["--num_workers", "8"], 2, 4),
        (["--num_workers", "9"], 3, 3),
        (["--num_workers", "1"], 1, 1),
        (["--num_workers", "8", "--workers_per_pod", "1"], 8, 1),
        (["--num_workers", "8", "--hparam_override", "num_learners=2"], 3, 3),
    ],
)
def test_worker_pods_have_a_cpu_for_each_process(generate, flags, pods, each):
    job = one(generate("--hparams", "impala_cartpole", *flags, *IMAGE, *BUCKET).objects, "RayJob")
    (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (pods, pods, pods)
    (container,) = group["template"]["spec"]["containers"]
    assert group["rayStartParams"]["num-cpus"] == container["resources"]["limits"]["cpu"] == str(each)
    assert container["resources"]["limits"]["memory"] == f"{each + 1}Gi"


def test_head_has_the_gpu_and_offers_ray_no_cpu(generate):
    job = one(generate(*EXAMPLES["ray"]).objects, "RayJob")
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]
    (container,) = head["template"]["spec"]["containers"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "args" not in container and "command" not in container, "KubeRay's to write"
    assert container["lifecycle"] == {"preStop": {"exec": {"command": ["python", "-m", "k8s.stop_learner"]}}}
    (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert "nvidia.com/gpu" not in group["template"]["spec"]["containers"][0]["resources"]["limits"]


@pytest.mark.parametrize("kind", ["RayJob", "RayCluster"])
def test_learner_has_its_time_to_save_also_where_ray_itself_stops_the_job(generate, kind):
    """Which KubeRay asks Ray for when a RayJob is deleted: the finalizer of rayjob_controller.go."""
    from ray.dashboard.modules.job import job_supervisor

    name = "RAY_JOB_STOP_WAIT_TIME_S"
    assert name in inspect.getsource(job_supervisor) and name in RESERVED_RAY
    flags = [*EXAMPLES["ray_kept" if kind == "RayCluster" else "ray"], "--grace_seconds", "90"]
    spec = one(generate(*flags).objects, kind)["spec"]
    head = spec.get("rayClusterSpec", spec)["headGroupSpec"]["template"]["spec"]
    assert {"name": name, "value": "90"} in head["containers"][0]["env"]
    assert head["terminationGracePeriodSeconds"] == 90


def test_shared_memory_is_memory_where_ray_runs(generate):
    job = one(generate(*EXAMPLES["ray"]).objects, "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    for template in (cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"]):
        assert {"name": "shared-memory", "emptyDir": {"medium": "Memory"}} in template["spec"]["volumes"]
        mounts = template["spec"]["containers"][0]["volumeMounts"]
        assert {"name": "shared-memory", "mountPath": "/dev/shm"} in mounts


def test_workers_mount_the_claim_only_where_buffers_write_to_it(generate):
    def mounted(flags):
        job = one(generate(*flags).objects, "RayJob")
        (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
        return "output" in {
            each["name"] for each in group["template"]["spec"]["containers"][0]["volumeMounts"]
        }

    claim = ["--pvc", "mine", "--output_dir", "/data/x", "--name", "apex-dqn-cartpole", *IMAGE]
    assert mounted(EXAMPLES["ray_buffers"])
    assert not mounted(["--hparams", "impala_cartpole", "--num_workers", "2", *claim])


def test_cluster_that_stays_is_apart_from_the_job(generate):
    written = generate(*EXAMPLES["ray_kept"])
    cluster, job = one(written.objects, "RayCluster"), one(written.objects, "RayJob")
    assert written.objects.index(cluster) < written.objects.index(job)
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert not {"rayClusterSpec", "backoffLimit", "ttlSecondsAfterFinished"} & job["spec"].keys()
    assert cluster["spec"]["workerGroupSpecs"][0]["replicas"] == 1


def test_run_that_only_tests_needs_no_workers(generate):
    flags = ["--hparams", "impala_cartpole", "--num_workers", "2", "--training", "False", *IMAGE, *BUCKET]
    assert one(generate(*flags).objects, "Job")["spec"]["backoffLimit"] == 6
