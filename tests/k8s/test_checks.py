"""Each check of k8s/checks.py and k8s/pod_checks.py finds the manifest that it is there for."""

from __future__ import annotations

import copy

import pytest
from k8s_examples import EXAMPLES, one

from k8s.checks import problems
from k8s.generate import documents
from k8s.options import split
from k8s.plan import make_plan

_BUILT = {}


def built(name):
    """The objects of an example, to be changed."""
    if name not in _BUILT:
        files = documents(make_plan(*split(EXAMPLES[name])))
        _BUILT[name] = [each for file in files.values() for each in file]
    return copy.deepcopy(_BUILT[name])


def template(objects, kind):
    document = one(objects, kind)
    if kind == "RayJob":
        return document["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    return document["spec"]["template"]


def put(*path):
    """Sets a value in the spec of the first object of a kind: put("Job", "completions", 3)."""

    def change(objects):
        place = next(each for each in objects if each["kind"] == path[0])["spec"]
        for key in path[1:-2]:
            place = place[key]
        if path[-1] is None:
            del place[path[-2]]
        else:
            place[path[-2]] = path[-1]

    return change


def put_in_pod(*path, kind="Job"):
    """The same in its Pods' spec; "only" is their container."""

    def change(objects):
        place = template(objects, kind)["spec"]
        for key in path[:-2]:
            place = place["containers"][0] if key == "only" else place[key]
        if path[-1] is None:
            del place[path[-2]]
        else:
            place[path[-2]] = path[-1]

    return change


def named(kind, name):
    def change(objects):
        one(objects, kind)["metadata"]["name"] = name

    return change


def again(*path, kind="Job"):
    """Puts the first of a list in the Pods' spec there twice."""

    def change(objects):
        place = template(objects, kind)["spec"]
        for key in path:
            place = place["containers"][0] if key == "only" else place[key]
        place.append(dict(place[0]))

    return change


def resource(name, request, limit):
    def change(objects):
        resources = template(objects, "Job")["spec"]["containers"][0]["resources"]
        for side, value in (("requests", request), ("limits", limit)):
            resources[side].pop(name, None)
            if value is not None:
                resources[side][name] = value

    return change


def labelled(key, value):
    def change(objects):
        template(objects, "Job")["metadata"]["labels"][key] = value

    return change


GPU = "nvidia.com/gpu"
POLICY = ("podFailurePolicy", "rules", 0)
REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
PREFERRED = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", 0)
EXPRESSION = (*REQUIRED, 0, "matchExpressions", 0)
PROBE = ("only", "readinessProbe", "httpGet", "port")
CLUSTER = ("RayJob", "rayClusterSpec")
GROUP = (*CLUSTER, "workerGroupSpecs", 0)
SUBMITTER = ("ingress", 1, "from", 0, "podSelector")
RULE = ("JobSet", "failurePolicy", "rules", 0)
BROKEN = [
    # names, labels, the set as a whole
    ("job", named("Job", "ppo_pong"), "the name 'ppo_pong' is no DNS name"),
    (
        "job",
        lambda o: o[0]["metadata"].update(annotations={"a": "<" * 44_000}),
        "bytes, of which kubectl applies 262144 at most",
    ),
    ("job", named("Service", "1-tensorboard"), "no DNS label that begins with a letter"),
    ("job", lambda o: o[0]["metadata"].update(namespace="a.b"), "the namespace 'a.b' is no DNS label"),
    ("job", lambda o: o[0]["metadata"]["labels"].update({"a b": "c"}), "the label a b=c is not valid"),
    (
        "job",
        lambda o: o[0]["metadata"].update(annotations={"a/b/c": ""}),
        "the annotation a/b/c is not valid",
    ),
    ("job", lambda o: o.append(o[0]), "Job ppo-pong: is there twice"),
    # Pods
    ("job", put_in_pod("restartPolicy", "Always"), "restartPolicy Always does not fit: Never or OnFailure"),
    ("job", put_in_pod("restartPolicy", None), "restartPolicy Always does not fit"),
    (
        "job",
        put_in_pod("restartPolicy", "Never", kind="Deployment"),
        "restartPolicy Never does not fit: Always",
    ),
    ("job", labelled("app", "a b"), "the label app=a b is not valid"),
    ("job", put_in_pod("terminationGracePeriodSeconds", -1), "terminationGracePeriodSeconds is negative"),
    ("job", put_in_pod("containers", []), "there is no container"),
    ("job", again("containers"), "container train is there twice"),
    ("job", again("volumes"), "volume scratch is there twice"),
    ("job", put_in_pod("volumes", 0, "name", "a_b"), "the volume name 'a_b' is no DNS label"),
    ("job", put_in_pod("volumes", 0, {"name": "scratch"}), "volume scratch needs one source, not 0"),
    ("job", put_in_pod("volumes", 0, "hostPath", {"path": "/"}), "volume scratch needs one source, not 2"),
    ("claim", lambda o: o.pop(0), "there is no claim dqn-cartpole-data"),
    ("job", put_in_pod("volumes", []), "there is no volume scratch to mount at /tmp"),
    ("job", again("only", "volumeMounts"), "a mount at /tmp is there twice"),
    ("job", put_in_pod("only", "volumeMounts", 0, "mountPath", "tmp"), "cannot mount at 'tmp'"),
    ("job", put_in_pod("only", "name", "Train"), "the name is no DNS label"),
    ("job", put_in_pod("only", "image", ""), "the image '' is no name of one"),
    ("job", put_in_pod("only", "image", " a"), "the image ' a' is no name of one"),
    ("job", put_in_pod("only", "image", "a::b"), "the image 'a::b' is no name of one"),
    ("job", put_in_pod("only", "env", 0, "name", "1A"), "the variable name '1A' is not valid"),
    ("job", put_in_pod("only", "env", 0, "valueFrom", {}), "variable HOME has a value and a source"),
    ("job", again("only", "env"), "variable HOME is there twice"),
    ("job", again("only", "ports", kind="Deployment"), "port name http is there twice"),
    ("job", put_in_pod("only", "ports", 0, "containerPort", 0, kind="Deployment"), "there is no port 0"),
    ("job", put_in_pod("only", "ports", 0, "name", "a" * 16, kind="Deployment"), "is not valid"),
    ("job", put_in_pod(*PROBE, "web", kind="Deployment"), "readinessProbe: there is no port web"),
    ("job", resource("cpu", "4", "2"), "requests 4 of cpu, limited to 2"),
    ("job", resource("memory", "8Gi", "8GB"), "limits memory='8GB' is no quantity"),
    ("job", resource("cpu", 4, 4), "requests cpu=4 is no quantity"),
    ("job", resource(GPU, "1", "2"), "nvidia.com/gpu: the request must be the limit"),
    ("job", resource(GPU, "1", None), "nvidia.com/gpu: the request must be the limit"),
    ("job", resource(GPU, "500m", "500m"), "nvidia.com/gpu: needs a whole number, not 500m"),
    ("job", resource("hugepages-2Mi", "2Mi", "4Mi"), "hugepages-2Mi: the request must be the limit"),
    ("job", put_in_pod("securityContext", "runAsUser", 0), "runAsNonRoot and user 0"),
    (
        "job",
        put_in_pod("only", "securityContext", "privileged", True),
        "privileged, but allowPrivilegeEscalation",
    ),
    # where Pods may go
    ("existing_claim", put_in_pod("nodeSelector", "a b", "c"), "the nodeSelector a b=c is not valid"),
    ("job", put_in_pod("tolerations", 0, "operator", "Exists"), "Exists takes no value"),
    ("job", put_in_pod("tolerations", 0, "key", None), "a toleration with Equal needs a key"),
    (
        "job",
        put_in_pod("tolerations", 0, "tolerationSeconds", 3),
        "tolerationSeconds needs the effect NoExecute",
    ),
    ("claim", put_in_pod(*REQUIRED, []), "required nodeAffinity needs a term"),
    ("job", put_in_pod(*PREFERRED, "weight", 0), "the weight 0 of a preferred node is not in 1 to 100"),
    ("claim", put_in_pod(*EXPRESSION, "key", "a b"), "the node label 'a b' is not valid"),
    ("claim", put_in_pod(*EXPRESSION, "values", []), "In needs values"),
    ("claim", put_in_pod(*EXPRESSION, "operator", "Exists"), "Exists takes no values"),
    (
        "claim",
        put_in_pod(*EXPRESSION, {"key": "a", "operator": "Gt", "values": ["1", "2"]}),
        "a: Gt needs one value",
    ),
    # Jobs
    ("copies", put("Job", "completions", None), "completionMode Indexed needs completions"),
    ("copies", put("Job", "completions", 100_001), "more than 100000 completions need maxFailedIndexes"),
    ("copies", named("Job", "a" * 62), f"the host name '{'a' * 62}-4', which is no DNS label"),
    ("job", put("Job", "backoffLimitPerIndex", 1), "backoffLimitPerIndex needs completionMode Indexed"),
    ("job", put("Job", "maxFailedIndexes", 1), "maxFailedIndexes needs backoffLimitPerIndex"),
    ("job", put("Job", "parallelism", -1), "parallelism is negative"),
    ("job", put("Job", "selector", {}), "the selector is the API server's to set"),
    ("job", put_in_pod("restartPolicy", "OnFailure"), "podFailurePolicy needs restartPolicy Never"),
    ("job", put("Job", "podReplacementPolicy", "TerminatingOrFailed"), "needs podReplacementPolicy Failed"),
    ("job", put("Job", *POLICY, "action", "Fail"), "there is no action Fail"),
    ("job", put("Job", *POLICY, "action", "FailIndex"), "FailIndex needs backoffLimitPerIndex"),
    ("job", put("Job", *POLICY, "onPodConditions", [{}]), "needs either onExitCodes or onPodConditions"),
    ("job", put("Job", *POLICY, "onExitCodes", None), "needs either onExitCodes or onPodConditions"),
    ("job", put("Job", *POLICY, "onExitCodes", "containerName", "x"), "there is no container x"),
    ("job", put("Job", *POLICY, "onExitCodes", "values", [0, 2]), "exit code 0 is no failure"),
    ("job", put("Job", *POLICY, "onExitCodes", "values", [3, 2]), "exit codes must be in order, each once"),
    # JobSets
    (
        "tpu_hosts",
        lambda o: one(o, "JobSet")["spec"]["replicatedJobs"].append(
            one(o, "JobSet")["spec"]["replicatedJobs"][0]
        ),
        "same name",
    ),
    ("tpu_hosts", named("JobSet", "a" * 48), "its Pods would be called"),
    ("tpu_hosts", put("JobSet", "network", "subdomain", "a_b"), "the subdomain 'a_b' is no DNS label"),
    ("tpu_hosts", put(*RULE, "name", "lostNode"), "rules of failurePolicy have the same name"),
    ("tpu_hosts", put(*RULE, "name", "a-b"), "the rule name 'a-b' is not valid"),
    ("tpu_hosts", put(*RULE, "targetReplicatedJobs", ["x"]), "rule inVain: there is no replicatedJob x"),
    (
        "tpu_hosts",
        put(
            "JobSet",
            "replicatedJobs",
            0,
            "template",
            "spec",
            "template",
            "spec",
            "restartPolicy",
            "OnFailure",
        ),
        "podFailurePolicy needs restartPolicy Never",
    ),
    # Deployments, Services, claims
    ("job", put("Deployment", "selector", "matchLabels", {}), "needs a selector"),
    ("job", put("Deployment", "selector", "matchLabels", "a", "b"), "does not match the template's labels"),
    ("job", put("Deployment", "strategy", "rollingUpdate", {}), "Recreate takes no rollingUpdate"),
    ("job", put("Service", "selector", "a", "b"), "the selector matches no Pod"),
    ("job", put("Service", "selector", {}), "the selector matches no Pod"),
    ("job", put("Service", "ports", 0, "targetPort", "web"), "the Pods have no port web"),
    ("job", put("Service", "ports", 0, "targetPort", 6007), "the Pods have no port 6007"),
    ("job", put("Service", "ports", 0, "port", 70000), "there is no port 70000"),
    ("job", put("Service", "ports", [{"port": 6006}, {"port": 6006}]), "several ports need a name each"),
    ("claim", put("PersistentVolumeClaim", "accessModes", []), "accessModes [] are not valid"),
    ("claim", put("PersistentVolumeClaim", "accessModes", ["RWX"]), "accessModes ['RWX'] are not valid"),
    (
        "claim",
        put("PersistentVolumeClaim", "accessModes", ["ReadWriteOncePod", "ReadWriteOnce"]),
        "ReadWriteOncePod goes with no other mode",
    ),
    ("claim", put("PersistentVolumeClaim", "resources", {}), "needs a request of storage above 0"),
    (
        "tpu_hosts",
        put("NetworkPolicy", "podSelector", "matchLabels", "a", "b"),
        "matches no Pod",
    ),
    (
        "ray",
        put("NetworkPolicy", "ingress", 1, "from", 0, "podSelector", "matchLabels", "a", "b"),
        "matches no",
    ),
    # Ray
    ("ray", put(*CLUSTER, "rayVersion", None), "a token needs a rayVersion from 2.52 on"),
    ("ray", put(*CLUSTER, "rayVersion", "2.9.1"), "a token needs a rayVersion from 2.52 on"),
    ("ray", named("RayJob", "a" * 48), "the name is longer than 47"),
    ("ray_kept", named("RayCluster", "a" * 54), "the name is longer than 53"),
    ("ray", put(*CLUSTER, None), "needs a rayClusterSpec or a clusterSelector"),
    ("ray_kept", named("RayCluster", "other"), "there is no RayCluster impala-cartpole-ray"),
    ("ray_kept", put("RayJob", "backoffLimit", 1), "backoffLimit does not go with clusterSelector"),
    ("ray", put("RayJob", "shutdownAfterJobFinishes", False), "needs shutdownAfterJobFinishes"),
    ("ray", put("RayJob", "entrypoint", " "), "needs an entrypoint"),
    ("ray", put(*GROUP, "minReplicas", None), "group workers needs minReplicas and maxReplicas"),
    ("ray", put(*GROUP, "maxReplicas", 1), "replicas are not between minReplicas and maxReplicas"),
    ("ray", put(*GROUP, "rayStartParams", "num-cpus", 4), "rayStartParams num-cpus must be a string"),
    (
        "ray",
        lambda o: one(o, "RayJob")["spec"]["rayClusterSpec"]["workerGroupSpecs"].append(
            one(o, "RayJob")["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
        ),
        "worker groups have the same name",
    ),
    (
        "ray",
        put_in_pod("volumes", [], kind="RayJob"),
        "RayJob impala-cartpole head: container ray-head: there is no",
    ),
    (
        "ray",
        put(*GROUP, "template", "spec", "volumes", []),
        "RayJob impala-cartpole workers: container ray-worker",
    ),
    (
        "ray",
        put("RayJob", "submitterPodTemplate", "spec", "restartPolicy", "Always"),
        "submitter: restartPolicy",
    ),
]


@pytest.mark.parametrize("example, change, message", BROKEN, ids=[message for _, _, message in BROKEN])
def test_broken_manifest_is_found(example, change, message):
    objects = built(example)
    assert problems(objects, ["mine"]) == []
    change(objects)
    found = problems(objects, ["mine"])
    assert any(message in each for each in found), found


def test_problem_names_the_object():
    objects = built("job")
    put_in_pod("only", "image", "")(objects)
    assert problems(objects) == ["Job ppo-pong: container train: the image '' is no name of one"]


def test_generator_refuses_its_own_broken_manifest(monkeypatch, generate, tmp_path):
    from k8s import jobs

    monkeypatch.setattr(jobs, "IN_VAIN", (0,))
    done = generate(*EXAMPLES["job"])
    assert done.code == 2 and "the manifests would be refused: Job ppo-pong" in done.err
    assert not list(tmp_path.iterdir())
