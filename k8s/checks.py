"""What an API server, or the controller behind a kind, refuses although the schema allows it.

Rules are those of Kubernetes' validation (pkg/apis/*/validation in kubernetes/kubernetes), KubeRay's
(ray-operator/controllers/ray/utils/validation.go) and JobSet's (pkg/webhooks/jobset_webhook.go).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from k8s.names import is_dns_label, is_dns_subdomain, is_label_key, is_label_value, is_strict_label
from k8s.pod_checks import pod_problems
from k8s.quantities import quantity

Document = dict[str, Any]

ALWAYS, FINITE = ("Always",), ("Never", "OnFailure")
ANY = ("Always", "Never", "OnFailure")
POD = 63  # the longest name of a Pod that is a host name too
APPLIED = 256 * 1024  # bytes of annotations, in which `kubectl apply` keeps the whole object
MOST_COMPLETIONS = 100_000  # where failures are counted by index
RAY_CLUSTER, RAY_JOB = 53, 47  # the longest names that KubeRay takes
_ACCESS = {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}
_RULE = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def problems(documents: Sequence[Document], existing_claims: Iterable[str] = ()) -> list[str]:
    """What is wrong with a set of objects, one line each; empty where nothing is.

    existing_claims: names of claims that the cluster has already.
    """
    found = [f"{where(each)}: {what}" for each in documents for what in _object_problems(each)]
    found += _duplicates(documents)
    claims = {each["metadata"]["name"] for each in documents if each["kind"] == "PersistentVolumeClaim"}
    for document in documents:
        for place, template, policies in pod_templates(document):
            for what in pod_problems(template, policies, claims.union(existing_claims)):
                found.append(f"{where(document)}{place}: {what}")
        found += [f"{where(document)}: {what}" for what in _kind_problems(document, documents)]
    return found


def _size(document: Document) -> int:
    """Bytes that Go's JSON has at most: it escapes three characters that Python's does not."""
    text = json.dumps(document, separators=(",", ":"))
    return len(text) + 5 * sum(text.count(letter) for letter in "<>&")


def where(document: Document) -> str:
    """Kind and name."""
    return f"{document.get('kind')} {document.get('metadata', {}).get('name')}"


def pod_templates(document: Document) -> Iterator[tuple[str, Document, tuple[str, ...]]]:
    """Where in an object its Pod templates are, they themselves, and the restart policies that fit there."""
    kind, spec = document["kind"], document.get("spec", {})
    if kind == "Pod":
        yield "", document, ANY
    elif kind == "Deployment":
        yield "", spec["template"], ALWAYS
    elif kind == "Job":
        yield "", spec["template"], FINITE
    elif kind == "JobSet":
        for each in spec["replicatedJobs"]:
            yield f" {each['name']}", each["template"]["spec"]["template"], FINITE
    elif kind == "RayCluster":
        yield from _ray_templates(spec)
    elif kind == "RayJob":
        if "submitterPodTemplate" in spec:
            yield " submitter", spec["submitterPodTemplate"], FINITE
        yield from _ray_templates(spec.get("rayClusterSpec", {}))


def _ray_templates(spec: Document) -> Iterator[tuple[str, Document, tuple[str, ...]]]:
    if spec:
        yield " head", spec["headGroupSpec"]["template"], ANY
        for group in spec.get("workerGroupSpecs", []):
            yield f" {group['groupName']}", group["template"], ANY


def _object_problems(document: Document) -> Iterator[str]:
    metadata = document.get("metadata", {})
    name, kind = str(metadata.get("name", "")), document["kind"]
    if kind in ("Service", "RayJob", "RayCluster", "JobSet"):
        if not is_strict_label(name):
            yield f"the name {name!r} is no DNS label that begins with a letter"
    elif not is_dns_subdomain(name):
        yield f"the name {name!r} is no DNS name"
    if "namespace" in metadata and not is_dns_label(metadata["namespace"]):
        yield f"the namespace {metadata['namespace']!r} is no DNS label"
    for key, value in metadata.get("labels", {}).items():
        if not (is_label_key(key) and is_label_value(value)):
            yield f"the label {key}={value} is not valid"
    for key in metadata.get("annotations", {}):
        if not is_label_key(key):
            yield f"the annotation {key} is not valid"
    if (size := _size(document) + 100) > APPLIED:  # the annotation has a name, too
        yield f"has {size} bytes, of which kubectl applies {APPLIED} at most: shorten flags and variables"


def _duplicates(documents: Sequence[Document]) -> Iterator[str]:
    seen = set()
    for document in documents:
        identity = document["kind"], document["metadata"].get("namespace"), document["metadata"].get("name")
        if identity in seen:
            yield f"{where(document)}: is there twice"
        seen.add(identity)


def _kind_problems(document: Document, documents: Sequence[Document]) -> Iterator[str]:
    kind, spec = document["kind"], document.get("spec", {})
    name = str(document["metadata"].get("name", ""))
    if kind == "Job":
        yield from _job_problems(spec, name)
    elif kind == "JobSet":
        yield from _jobset_problems(spec, name)
    elif kind == "Deployment":
        yield from _deployment_problems(spec)
    elif kind == "Service":
        yield from _service_problems(spec, documents)
    elif kind == "NetworkPolicy":
        yield from _network_problems(spec, documents)
    elif kind == "PersistentVolumeClaim":
        yield from _claim_problems(spec)
    elif kind == "RayJob":
        yield from _ray_job_problems(spec, name, documents)
    elif kind == "RayCluster":
        if len(name) > RAY_CLUSTER:
            yield f"the name is longer than {RAY_CLUSTER}"
        yield from _ray_cluster_problems(spec)


def _job_problems(spec: Document, name: str) -> Iterator[str]:
    indexed = spec.get("completionMode") == "Indexed"
    per_index = "backoffLimitPerIndex" in spec
    longest = name
    if indexed:
        if "completions" not in spec:
            yield "completionMode Indexed needs completions"
        longest = f"{name}-{spec.get('completions', 1) - 1}"
        if per_index and spec.get("completions", 1) > MOST_COMPLETIONS and "maxFailedIndexes" not in spec:
            yield f"more than {MOST_COMPLETIONS} completions need maxFailedIndexes"
    if not is_dns_label(longest, POD):
        yield f"its Pods would have the host name {longest!r}, which is no DNS label"
    if per_index and not indexed:
        yield "backoffLimitPerIndex needs completionMode Indexed"
    if "maxFailedIndexes" in spec and not per_index:
        yield "maxFailedIndexes needs backoffLimitPerIndex"
    for key in (
        "parallelism",
        "completions",
        "backoffLimit",
        "backoffLimitPerIndex",
        "ttlSecondsAfterFinished",
    ):
        if spec.get(key, 0) < 0:
            yield f"{key} is negative"
    if "selector" in spec and not spec.get("manualSelector"):
        yield "the selector is the API server's to set"
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    if spec["template"]["spec"].get("restartPolicy") != "Never":
        yield "podFailurePolicy needs restartPolicy Never"
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        yield "podFailurePolicy needs podReplacementPolicy Failed"
    containers = {each["name"] for each in spec["template"]["spec"].get("containers", [])}
    for i, rule in enumerate(policy["rules"]):
        yield from (
            f"podFailurePolicy rule {i}: {what}" for what in _rule_problems(rule, containers, per_index)
        )


def _rule_problems(rule: Document, containers: set[str], per_index: bool) -> Iterator[str]:
    if rule["action"] not in ("FailJob", "FailIndex", "Ignore", "Count"):
        yield f"there is no action {rule['action']}"
    if rule["action"] == "FailIndex" and not per_index:
        yield "FailIndex needs backoffLimitPerIndex"
    codes = rule.get("onExitCodes")
    if (codes is None) == (not rule.get("onPodConditions")):
        yield "needs either onExitCodes or onPodConditions"
    if codes is None:
        return
    if codes.get("containerName") is not None and codes["containerName"] not in containers:
        yield f"there is no container {codes['containerName']}"
    if codes["operator"] == "In" and 0 in codes["values"]:
        yield "exit code 0 is no failure"
    if not codes["values"] or codes["values"] != sorted(set(codes["values"])):
        yield "exit codes must be in order, each once"


def _jobset_problems(spec: Document, name: str) -> Iterator[str]:
    names = [each["name"] for each in spec["replicatedJobs"]]
    if len(set(names)) < len(names):
        yield "replicatedJobs have the same name"
    for each in spec["replicatedJobs"]:
        inner, last = each["template"]["spec"], each.get("replicas", 1) - 1
        pods = f"{name}-{each['name']}-{last}-{inner.get('completions', 1) - 1}-xxxxx"
        if not is_strict_label(pods, POD):
            yield f"its Pods would be called {pods}, which is no DNS label"
        yield from _job_problems(inner, f"{name}-{each['name']}-{last}")
    subdomain = spec.get("network", {}).get("subdomain")
    if subdomain is not None and not is_strict_label(subdomain):
        yield f"the subdomain {subdomain!r} is no DNS label"
    rules = spec.get("failurePolicy", {}).get("rules", [])
    if len({rule["name"] for rule in rules}) < len(rules):
        yield "rules of failurePolicy have the same name"
    for rule in rules:
        if not _RULE.fullmatch(rule["name"]):
            yield f"the rule name {rule['name']!r} is not valid"
        for target in rule.get("targetReplicatedJobs", []):
            if target not in names:
                yield f"rule {rule['name']}: there is no replicatedJob {target}"


def _deployment_problems(spec: Document) -> Iterator[str]:
    labels = spec["template"].get("metadata", {}).get("labels", {})
    wanted = spec.get("selector", {}).get("matchLabels", {})
    if not wanted:
        yield "needs a selector"
    if not wanted.items() <= labels.items():
        yield "the selector does not match the template's labels"
    if spec.get("strategy", {}).get("type") == "Recreate" and "rollingUpdate" in spec["strategy"]:
        yield "strategy Recreate takes no rollingUpdate"


def _service_problems(spec: Document, documents: Sequence[Document]) -> Iterator[str]:
    wanted = spec.get("selector", {})
    matching = [
        template
        for document in documents
        for _, template, _ in pod_templates(document)
        if wanted.items() <= template.get("metadata", {}).get("labels", {}).items()
    ]
    if not wanted or not matching:
        yield "the selector matches no Pod"
        return
    ports = [
        port
        for template in matching
        for container in [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]
        for port in container.get("ports", [])
    ]
    named = [port.get("name") for port in spec["ports"]]
    if len(named) > 1 and (None in named or len(set(named)) < len(named)):
        yield "several ports need a name each"
    for port in spec["ports"]:
        target = port.get("targetPort", port["port"])
        if not 0 < port["port"] < 65536:
            yield f"there is no port {port['port']}"
        if target not in [each.get("name" if isinstance(target, str) else "containerPort") for each in ports]:
            yield f"the Pods have no port {target}"


def _network_problems(spec: Document, documents: Sequence[Document]) -> Iterator[str]:
    pods = [
        template.get("metadata", {}).get("labels", {})
        for document in documents
        for _, template, _ in pod_templates(document)
    ]
    peers = [peer for rule in spec.get("ingress", []) for peer in rule.get("from", [])]
    # A peer of another namespace is not in the set.
    selectors = [each["podSelector"] for each in peers if "namespaceSelector" not in each]
    for selector in (spec["podSelector"], *selectors):
        if not any(_selects(selector, labels) for labels in pods):
            yield f"the selector {json.dumps(selector)} matches no Pod"


def _selects(selector: Document, labels: Document) -> bool:
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        (labels.get(each["key"]) in each["values"]) is (each["operator"] == "In")
        for each in selector.get("matchExpressions", [])
    )


def _claim_problems(spec: Document) -> Iterator[str]:
    modes = spec.get("accessModes", [])
    if not modes or not set(modes) <= _ACCESS:
        yield f"accessModes {modes} are not valid"
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield "ReadWriteOncePod goes with no other mode"
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None or quantity(storage) <= 0:
        yield "needs a request of storage above 0"


def _ray_job_problems(spec: Document, name: str, documents: Sequence[Document]) -> Iterator[str]:
    if len(name) > RAY_JOB:
        yield f"the name is longer than {RAY_JOB}"
    selector = spec.get("clusterSelector")
    if not selector and "rayClusterSpec" not in spec:
        yield "needs a rayClusterSpec or a clusterSelector"
    if selector:
        clusters = [each["metadata"]["name"] for each in documents if each["kind"] == "RayCluster"]
        if selector.get("ray.io/cluster") not in clusters:
            yield f"there is no RayCluster {selector.get('ray.io/cluster')}"
        if spec.get("backoffLimit", 0) > 0:
            yield "backoffLimit does not go with clusterSelector"
    if spec.get("ttlSecondsAfterFinished", 0) and not spec.get("shutdownAfterJobFinishes"):
        yield "ttlSecondsAfterFinished needs shutdownAfterJobFinishes"
    if not spec.get("entrypoint", "").strip():
        yield "needs an entrypoint"
    if "rayClusterSpec" in spec:
        yield from _ray_cluster_problems(spec["rayClusterSpec"])


def _ray_cluster_problems(spec: Document) -> Iterator[str]:
    if spec.get("authOptions", {}).get("mode") == "token":
        version = [int(each) for each in re.findall(r"[0-9]+", spec.get("rayVersion", ""))]
        if version < [2, 52]:
            yield "a token needs a rayVersion from 2.52 on"
    groups = spec.get("workerGroupSpecs", [])
    if len({group["groupName"] for group in groups}) < len(groups):
        yield "worker groups have the same name"
    for group in groups:
        least, most = group.get("minReplicas"), group.get("maxReplicas")
        if least is None or most is None:
            yield f"group {group['groupName']} needs minReplicas and maxReplicas"
        elif not 0 <= least <= group.get("replicas", least) <= most:
            yield f"group {group['groupName']}: replicas are not between minReplicas and maxReplicas"
    for group in (spec["headGroupSpec"], *groups):
        for key, value in group.get("rayStartParams", {}).items():
            if not isinstance(value, str):
                yield f"rayStartParams {key} must be a string"
