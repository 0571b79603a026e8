"""The command: what it writes for each kind of run, and what it says of mistakes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from k8s_examples import BUCKET, EXAMPLES, GOOD, IMAGE, containers, one, pod_templates

from rl.cli import checked, parse
from rl.signals import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def container(template):
    (found,) = template["spec"]["containers"]
    return found


def test_job_runs_the_command_and_starts_again_unless_the_input_is_wrong(generate):
    written = generate(*EXAMPLES["job"])
    job = one(written.objects, "Job")
    assert job["metadata"]["name"] == "ppo-pong" and "namespace" not in job["metadata"]
    assert container(job["spec"]["template"])["args"] == [
        *("python", "train.py", "--sys", "gpu", "--hparams", "ppo_pong", "--output_dir", "gs://bucket/x")
    ]
    assert job["spec"]["backoffLimit"] == 6 and job["spec"]["ttlSecondsAfterFinished"] == 86400
    assert job["spec"]["podReplacementPolicy"] == "Failed", "two Pods would write one run"
    assert job["spec"]["podFailurePolicy"]["rules"] == [
        {"action": "FailJob", "onExitCodes": {"containerName": "train", "operator": "In", "values": [2, 3]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Ignore", "onExitCodes": {"containerName": "train", "operator": "In", "values": [143]}},
    ]
    assert job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 120


@pytest.mark.parametrize("name", ["job", "copies", "claim", "tpu"])
def test_a_pod_that_trains_is_ended_when_its_run_hangs_and_that_counts_as_a_failure(name, generate):
    train = container(
        one(generate(*EXAMPLES[name], "--hang_seconds", "900").objects, "Job")["spec"]["template"]
    )
    live, start = train["livenessProbe"], train["startupProbe"]
    command = ["python", "-m", "rl.heartbeat", "/tmp/heartbeat", "--seconds", "900"]
    assert live["exec"]["command"] == start["exec"]["command"] == command
    assert {"name": "RL_HEARTBEAT", "value": "/tmp/heartbeat"} in train["env"]
    assert {"name": "RL_START_SECONDS", "value": "900"} in train["env"], "before it begins, it ends itself"
    assert start["failureThreshold"] * start["periodSeconds"] == 900 + 120
    assert live["terminationGracePeriodSeconds"] < PATIENCE, "it would end with 143, which does not count"


@pytest.mark.parametrize("more", [["--hang_seconds", "0"], ["--training", "False"]])
def test_pods_that_write_no_heartbeat_are_not_asked_for_one(more, generate):
    train = container(one(generate(*EXAMPLES["claim"], *more).objects, "Job")["spec"]["template"])
    assert not {"livenessProbe", "startupProbe"} & train.keys()


@pytest.mark.parametrize(
    "kind, more, timeout",
    [
        ("tpu_hosts", [], "1800"),
        ("tpu_hosts", ["--hang_seconds", "900"], "900"),
        ("tpu_hosts", ["--hang_seconds", "0"], None),
        ("tpu_hosts", ["--test_only"], None),
        ("tpu_hosts", ["--hparam_override", "hang_timeout=60"], "60"),
        ("tpu_hosts", ["--hparam_override", "hang_timeout=none"], "none"),
        ("tpu_hosts", ["--hparam_override", "env_kwargs={a:1,b:2}"], "1800"),
        ("ray", [], None),  # half an hour, or three times as long as workers may take
        ("ray", ["--hang_seconds", "900"], "900"),
        ("ray_kept", ["--hang_seconds", "900"], "900"),
        ("ray", ["--hang_seconds", "900", "--hparam_override", "hang_timeout=60"], "60"),
        ("job", ["--hang_seconds", "900"], None),
    ],
)
def test_a_run_that_no_probe_looks_at_ends_by_itself_when_it_hangs(kind, more, timeout, generate):
    """Of a slice's machines all but one only serve; a head's probes are KubeRay's, and look at Ray."""
    text = str(generate(*EXAMPLES[kind], *more).objects)
    assert re.findall(r"hang_timeout=(\w+)", text) == ([] if timeout is None else [timeout])


@pytest.mark.parametrize("given", ["lr=0.01", "lr=0.01,", "lr=0.01 , ", "model.hidden=[64,64],lr=0.01"])
def test_a_slice_keeps_what_was_overridden_beside_when_it_hangs(given, generate):
    (hosts,) = one(generate(*EXAMPLES["tpu_hosts"], "--hparam_override", given).objects, "JobSet")["spec"][
        "replicatedJobs"
    ]
    hparams = checked(parse(container(hosts["template"]["spec"]["template"])["args"][2:]))
    assert (hparams.hang_timeout, hparams.lr) == (1800, 0.01)


def test_gpu_is_requested_tolerated_and_limited(generate):
    job = one(generate(*EXAMPLES["job"], "--gpus", "2").objects, "Job")
    template = job["spec"]["template"]
    amounts = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "2"}
    assert container(template)["resources"] == {"requests": amounts, "limits": amounts}
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in template["spec"][
        "tolerations"
    ]


def test_copies_are_an_indexed_job_with_all_of_the_command_but_parallel(generate):
    spec = one(generate(*EXAMPLES["copies"]).objects, "Job")["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 5, 2)
    assert spec["backoffLimitPerIndex"] == 6 and "backoffLimit" not in spec
    assert spec["podFailurePolicy"]["rules"][0]["action"] == "FailIndex", "the other copies go on"
    args = container(spec["template"])["args"]
    assert args[-2:] == ["--copies", "5"] and "--parallel" not in args


def test_copies_all_go_on_at_once_unless_told_otherwise(generate):
    spec = one(generate("--hparams", "ppo_cartpole", "--copies", "3", *IMAGE, *BUCKET).objects, "Job")["spec"]
    assert (spec["completions"], spec["parallelism"]) == (3, 3)
    words = ["--hparams", "ppo_cartpole", "--copies", "3", "--parallel", "1", *IMAGE, *BUCKET]
    assert one(generate(*words).objects, "Job")["spec"]["parallelism"] == 1


def test_new_claim_is_written_first_and_mounted_by_training_and_tensorboard(generate):
    written = generate(*EXAMPLES["claim"])
    claim = one(written.objects, "PersistentVolumeClaim")
    assert written.objects[0] == claim
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "50Gi"}},
        "storageClassName": "fast",
    }
    spec = one(written.objects, "Job")["spec"]["template"]["spec"]
    for kind, read_only in (("containers", {}), ("initContainers", {"readOnly": True})):
        (only,) = spec[kind]
        assert {"name": "output", "mountPath": "/data", **read_only} in only["volumeMounts"]
    source = {"persistentVolumeClaim": {"claimName": "dqn-cartpole-data"}}
    assert {"name": "output", **source} in spec["volumes"]
    assert {each["metadata"]["namespace"] for each in written.objects} == {"team"}


@pytest.mark.parametrize("flags", [["--copies", "2"], ["--num_workers", "2"]])
def test_claim_that_several_pods_write_to_is_shared(generate, flags):
    set_of = {"--copies": "ppo_cartpole", "--num_workers": "apex_dqn_cartpole"}[flags[0]]
    more = ["--hparam_override", "buffer_shards=1"] if flags[0] == "--num_workers" else []
    written = generate(
        "--hparams", set_of, *flags, *more, *IMAGE, "--pvc_size", "1Gi", "--output_dir", "/data/x"
    )
    assert one(written.objects, "PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]


def test_what_was_asked_for_reaches_the_pods(generate):
    written = generate(*EXAMPLES["existing_claim"])
    assert [each["kind"] for each in written.objects] == ["Job", "Service"]
    spec = one(written.objects, "Job")["spec"]["template"]["spec"]
    (only,) = spec["containers"]
    assert {"name": "A", "value": "1"} in only["env"] and {"name": "B", "value": "x=y"} in only["env"]
    assert only["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert spec["serviceAccountName"] == "trainer" and spec["automountServiceAccountToken"] is True
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"disk": "ssd"}


def test_spot_nodes_are_preferred_and_their_taints_tolerated(generate):
    spec = one(generate(*EXAMPLES["copies"]).objects, "Job")["spec"]["template"]["spec"]
    assert list(spec["affinity"]["nodeAffinity"]) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    preferred = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    labels = {(e["key"], *e["values"]) for each in preferred for e in each["preference"]["matchExpressions"]}
    assert labels == {
        ("cloud.google.com/gke-spot", "true"),
        ("kubernetes.azure.com/scalesetpriority", "spot"),
        ("eks.amazonaws.com/capacityType", "SPOT"),
        ("karpenter.sh/capacity-type", "spot"),
    }
    tolerated = {(each["key"], each["value"], each["effect"]) for each in spec["tolerations"]}
    assert tolerated == {
        ("cloud.google.com/gke-spot", "true", "NoSchedule"),
        ("kubernetes.azure.com/scalesetpriority", "spot", "NoSchedule"),
    }


def test_required_spot_needs_one_of_the_labels(generate):
    spec = one(generate(*EXAMPLES["claim"]).objects, "Job")["spec"]["template"]["spec"]
    (key,) = spec["affinity"]["nodeAffinity"]
    terms = spec["affinity"]["nodeAffinity"][key]["nodeSelectorTerms"]
    assert key == "requiredDuringSchedulingIgnoredDuringExecution" and len(terms) == 4
    assert {len(term["matchExpressions"]) for term in terms} == {1}, "terms are alternatives"


def test_no_spot_keeps_away_from_the_labels_of_that_cloud(generate):
    spec = one(generate(*EXAMPLES["existing_claim"]).objects, "Job")["spec"]["template"]["spec"]
    (key,) = spec["affinity"]["nodeAffinity"]
    (term,) = spec["affinity"]["nodeAffinity"][key]["nodeSelectorTerms"]
    assert key == "requiredDuringSchedulingIgnoredDuringExecution" and "tolerations" not in spec
    assert term["matchExpressions"] == [
        {"key": "cloud.google.com/gke-spot", "operator": "NotIn", "values": ["true"]}
    ]


def test_tpu_of_one_machine_is_a_job_on_a_node_of_that_slice(generate):
    spec = one(generate(*EXAMPLES["tpu"]).objects, "Job")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "2x2",
    }
    resources = spec["containers"][0]["resources"]
    assert resources["requests"]["google.com/tpu"] == resources["limits"]["google.com/tpu"] == "4"
    assert {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]


def test_tpu_of_several_machines_is_a_jobset_that_restarts_as_a_whole(generate):
    jobset = one(generate(*EXAMPLES["tpu_hosts"]).objects, "JobSet")
    assert jobset["metadata"]["annotations"] == {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"
    }
    assert jobset["spec"]["network"] == {"enableDNSHostnames": True, "subdomain": "ppo-catch"}
    (hosts,) = jobset["spec"]["replicatedJobs"]
    job = hosts["template"]["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 4, 4)
    assert job["backoffLimit"] == 0, "any failure is the JobSet's to judge"
    assert job["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x2x4"
    assert container(job["template"])["resources"]["limits"]["google.com/tpu"] == "4"
    ports = {each["name"]: each["containerPort"] for each in container(job["template"])["ports"]}
    assert ports == {"tpu-server": 8470, "tpu-slice": 8471, "tpu-mesh": 8476, "tpu-control": 8480}
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 6
    actions = {rule["action"] for rule in jobset["spec"]["failurePolicy"]["rules"]}
    assert actions == {"FailJobSet", "RestartJobSetAndIgnoreMaxRestarts"}


# As the Job controller words them: pkg/controller/job/pod_failure_policy.go in kubernetes/kubernetes.
@pytest.mark.parametrize(
    "message, action",
    [
        (
            "Container train for pod a/x failed with exit code 2 matching FailJob rule at index 0",
            "FailJobSet",
        ),
        (
            "Container train for pod a/x failed with exit code 3 matching FailJob rule at index 0",
            "FailJobSet",
        ),
        (
            "Pod a/x has condition DisruptionTarget matching FailJob rule at index 1",
            "RestartJobSetAndIgnoreMaxRestarts",
        ),
        (
            "Container train for pod a/x failed with exit code 143 matching FailJob rule at index 2",
            "RestartJobSetAndIgnoreMaxRestarts",
        ),
    ],
)
def test_jobset_tells_what_counts_by_the_message_of_the_job(generate, message, action):
    jobset = one(generate(*EXAMPLES["tpu_hosts"]).objects, "JobSet")
    index = int(message[-1])
    (job,) = (each["template"]["spec"] for each in jobset["spec"]["replicatedJobs"])
    rule = job["podFailurePolicy"]["rules"][index]
    assert rule["action"] == "FailJob"
    assert any(
        str(each) in message for each in rule.get("onExitCodes", {}).get("values", ["DisruptionTarget"])
    )
    rules = jobset["spec"]["failurePolicy"]["rules"]
    matching = [
        rule["action"]
        for rule in rules
        if any(re.search(pattern, message) for pattern in rule["onJobFailureMessagePatterns"])
    ]
    assert matching == [action]
    assert all(rule["onJobFailureReasons"] == ["PodFailurePolicy"] for rule in rules)


def test_pods_have_no_rights_and_places_to_write(example):
    for template in pod_templates(example.objects):
        spec = template["spec"]
        assert (
            spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] == 1000
        )
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for only in containers(template):
            assert only["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }
            assert {"name": "HOME", "value": "/tmp"} in only["env"]
            assert "/tmp" in {each["mountPath"] for each in only["volumeMounts"]}
            amounts = only["resources"]
            assert {"cpu", "memory"} <= amounts["requests"].keys() & amounts["limits"].keys()
        assert spec["automountServiceAccountToken"] is ("serviceAccountName" in spec)


def test_names_come_from_the_set_and_the_environment(generate):
    named = generate("--hparams", "ppo", "--env", "Acrobot-v1", *IMAGE, *BUCKET)
    assert one(named.objects, "Job")["metadata"]["name"] == "ppo-acrobot-v1"


def test_summary_says_what_to_type(generate, tmp_path):
    written = generate(*EXAMPLES["claim"], "--write_to", "here")
    assert [path.relative_to(tmp_path).as_posix() for path in written.files] == [
        *("here/10-claim.yaml", "here/20-train.yaml", "here/30-tensorboard.yaml")
    ]
    assert "wrote here/20-train.yaml: Job dqn-cartpole\n" in written.out
    assert "kubectl apply -f here\n" in written.out
    assert "kubectl -n team logs -f job/dqn-cartpole\n" in written.out
    assert "kubectl -n team port-forward service/dqn-cartpole-tensorboard 6006:6006" in written.out
    removed = next(line for line in written.out.splitlines() if line.startswith("remove"))
    assert "20-train" in removed and "claim" not in removed, "the data would go with it"


def test_printed_manifests_are_the_written_ones(generate, tmp_path):
    printed = generate(*EXAMPLES["ray"], "--write_to", "-")
    assert not list(tmp_path.iterdir())
    assert list(yaml.safe_load_all(printed.out)) == generate(*EXAMPLES["ray"]).objects


def test_second_call_replaces_what_the_first_has_written(generate):
    assert len(generate(*EXAMPLES["claim"]).files) == 3
    flags = ["--hparams", "dqn_cartpole", *IMAGE, *BUCKET, "--tensorboard", "False"]
    assert [path.name for path in generate(*flags).files] == ["20-train.yaml"]


def test_flags_after_two_dashes_are_those_of_train_py(generate):
    job = one(generate("--hparams", "ppo_cartpole", *IMAGE, *BUCKET, "--", "--seed", "3").objects, "Job")
    assert container(job["spec"]["template"])["args"][-2:] == ["--seed", "3"]


def test_missing_package_is_told_with_what_to_install(generate, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = generate(*GOOD)
    assert done.code == 2 and done.err == "error: pyyaml is not installed: ./setup.sh --extra k8s\n"


def test_folder_with_other_manifests_is_left_alone(generate, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.yaml").write_text("")
    done = generate(*GOOD, "--write_to", "here")
    assert done.code == 2 and "mine.yaml is there and would be applied too" in done.err
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["mine.yaml"]


def test_file_in_place_of_the_folder_is_one_line(generate, tmp_path):
    (tmp_path / "here").write_text("")
    done = generate(*GOOD, "--write_to", "here")
    assert done.code == 2 and "cannot write to here" in done.err and done.err.count("\n") == 1


def run_and_imported(*flags):
    """(exit code, modules imported) of the generator in a process of its own."""
    command = [sys.executable, "-X", "importtime", "-m", "k8s.generate", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.returncode, {
        line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line
    }


@pytest.mark.parametrize("flags", [["--help"], ["--hparams", "ppo_cartpol", *IMAGE, *BUCKET]])
def test_mistakes_and_help_come_at_once(flags):
    code, imported = run_and_imported(*flags)
    assert code in (0, 2) and "k8s.options" in imported
    assert not imported & {"yaml", "tensorflow", "keras", "numpy", "ray"}


def test_manifests_are_written_without_tensorflow(tmp_path):
    code, imported = run_and_imported(*GOOD, "--write_to", str(tmp_path / "m"))
    assert code == 0 and "yaml" in imported
    assert not imported & {"tensorflow", "keras", "numpy", "ray", "kubernetes"}
