"""TensorBoard: where the output can be read, with no rights but to read it, and of no run but its own."""

from __future__ import annotations

import pytest
import yaml
from k8s_examples import BUCKET, EXAMPLES, IMAGE, one

GOOD = ["--hparams", "ppo_cartpole", *IMAGE]
CLAIM = ["--pvc_size", "50Gi", "--output_dir", "/data/x"]
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
TRAINERS = ["--service_account", "trainer", "--env_secret", "keys"]


def kinds(written):
    return [each["kind"] for each in written.objects]


def template(written, kind):
    spec = one(written.objects, kind)["spec"]
    if kind == "RayJob":
        return spec["rayClusterSpec"]["headGroupSpec"]["template"]
    return spec["template"]


@pytest.mark.parametrize(
    "kind, flags",
    [
        ("Job", [*GOOD, "--sys", "gpu", *CLAIM]),
        ("Job", [*GOOD, "--sys", "tpu", "--tpu", "v5e-4", *CLAIM]),
        ("Job", [*GOOD, "--pvc", "mine", "--output_dir", "/data/x"]),
        ("RayJob", ["--hparams", "impala_cartpole", "--num_workers", "2", *IMAGE, *CLAIM]),
    ],
)
def test_claim_of_one_pod_is_read_in_that_pod(generate, kind, flags):
    """Another Pod could take the disk to another node, before the trainer is there or when it comes again."""
    written = generate(*flags)
    assert "Deployment" not in kinds(written)
    pod = template(written, kind)
    (beside,) = pod["spec"]["initContainers"]
    assert beside["restartPolicy"] == "Always", "it would have to end before training starts"
    assert not {"startupProbe", "readinessProbe"} & beside.keys(), "training would wait for it"
    assert {"name": "output", "mountPath": "/data", "readOnly": True} in beside["volumeMounts"]
    assert "nvidia.com/gpu" not in beside["resources"]["limits"]
    assert beside["args"][:3] == ["tensorboard", "--logdir", "/data/x"]
    service = one(written.objects, "Service")["spec"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["ports"][0]["targetPort"] == beside["ports"][0]["containerPort"] == 6006


@pytest.mark.parametrize(
    "flags",
    [
        [*GOOD, *BUCKET],
        [*GOOD, "--copies", "2", *CLAIM],
        ["--hparams", "ppo_catch", "--sys", "tpu", "--tpu", "v4-32", *IMAGE, *CLAIM],
        EXAMPLES["ray_buffers"][:-2],
    ],
)
def test_output_that_any_node_can_read_is_shown_by_a_pod_apart(generate, flags):
    pod = template(generate(*flags), "Deployment")["spec"]
    assert list(pod["affinity"]) == ["nodeAffinity"] and "nodeSelector" not in pod
    claims = [each for each in pod["volumes"] if "persistentVolumeClaim" in each]
    assert bool(claims) == ("--pvc_size" in flags)


@pytest.mark.parametrize("flags", [[*GOOD, "--sys", "gpu", *CLAIM], [*GOOD, *BUCKET], EXAMPLES["ray"]])
def test_it_runs_alone_after_training(generate, flags):
    named = one(generate(*flags).objects, "Service")["metadata"]["name"]
    written = generate(*flags, "--tensorboard", "only")
    folder = f"manifests/{named}"
    files = [path for path in written.files if path.parent.name == named]
    assert [path.name for path in files] == ["30-tensorboard.yaml"]
    assert len(written.files) > 1, "the manifests of training are kept"
    assert f"kubectl apply -f {folder}\n" in written.out and "logs " not in written.out
    objects = list(yaml.safe_load_all(files[0].read_text()))
    assert [(each["kind"], each["metadata"]["name"]) for each in objects] == [
        *(("Deployment", named), ("Service", named))
    ]


def test_summary_says_how_to_look_when_training_is_over(generate):
    assert "the same command with --tensorboard only" in generate(*GOOD, *CLAIM).out
    assert "--tensorboard only" not in generate(*GOOD, *BUCKET).out


def test_it_has_neither_the_secrets_nor_the_token_of_the_trainer(generate):
    pod = template(generate(*GOOD, *BUCKET, *TRAINERS), "Deployment")["spec"]
    assert "serviceAccountName" not in pod and pod["automountServiceAccountToken"] is False
    assert "envFrom" not in pod["containers"][0]


def test_it_has_neither_in_the_pod_that_trains(generate):
    pod = template(generate(*GOOD, *CLAIM, *TRAINERS), "Job")["spec"]
    (beside,), (train,) = pod["initContainers"], pod["containers"]
    assert train["envFrom"] and "envFrom" not in beside
    # Kubernetes leaves a container without a token that has another mount there.
    (mount,) = (each for each in beside["volumeMounts"] if each["mountPath"] == TOKEN)
    assert {"name": mount["name"], "emptyDir": {}} in pod["volumes"]
    assert TOKEN not in {each["mountPath"] for each in train["volumeMounts"]}


def test_it_has_what_was_given_to_it(generate):
    own = ["--tensorboard_service_account", "viewer", "--tensorboard_env_secret", "read"]
    written = generate(*GOOD, *BUCKET, *TRAINERS, *own)
    pod = template(written, "Deployment")["spec"]
    assert pod["serviceAccountName"] == "viewer" and pod["automountServiceAccountToken"] is True
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "read"}}]
    assert template(written, "Job")["spec"]["serviceAccountName"] == "trainer"
    assert "none of the trainer's rights" not in written.out


@pytest.mark.parametrize("flags, told", [(TRAINERS, True), ([], False)])
def test_summary_says_that_it_may_not_read_what_the_trainer_writes(generate, flags, told):
    assert ("none of the trainer's rights" in generate(*GOOD, *BUCKET, *flags).out) is told


def test_submitter_of_a_rayjob_has_none_of_the_trainers_rights(generate):
    written = generate("--hparams", "impala_cartpole", "--num_workers", "2", *IMAGE, *BUCKET, *TRAINERS)
    spec = one(written.objects, "RayJob")["spec"]
    submitter = spec["submitterPodTemplate"]["spec"]
    assert "serviceAccountName" not in submitter and submitter["automountServiceAccountToken"] is False
    assert "envFrom" not in submitter["containers"][0]
    for each in (spec["rayClusterSpec"]["headGroupSpec"], *spec["rayClusterSpec"]["workerGroupSpecs"]):
        assert each["template"]["spec"]["serviceAccountName"] == "trainer"
        assert each["template"]["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "keys"}}]


def test_run_of_the_same_name_and_another_output_is_refused_in_place_of_shown(generate):
    """A Deployment's selector cannot be changed: an API server refuses the second one."""

    def selector(output):
        objects = generate(*GOOD, "--output_dir", output).objects
        deployment = one(objects, "Deployment")
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert one(objects, "Service")["spec"]["selector"].items() <= labels.items()
        return deployment["spec"]["selector"], one(objects, "Service")["spec"]["selector"]

    first, again, other = selector("gs://a/x"), selector("gs://a/x"), selector("gs://a/y")
    assert first == again
    assert first[0] != other[0] and first[1] == other[1], "the Service stays with the first"
