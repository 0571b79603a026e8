"""What an API server refuses in a Pod although the schema allows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from k8s.names import is_dns_label, is_environment_name, is_image, is_label_key, is_label_value
from k8s.quantities import quantity

Document = dict[str, Any]

NATIVE = ("cpu", "memory", "ephemeral-storage", "storage")
HUGE = "hugepages-"


def pod_problems(template: Document, policies: Collection[str], claims: Collection[str]) -> list[str]:
    """What is wrong with a Pod or a template of one.

    policies: the restart policies that fit where it is; the first is what it has where it says none.
    claims: names of the claims that there are.
    """
    spec = template.get("spec", {})
    found = []
    if spec.get("restartPolicy", "Always") not in policies:
        found.append(
            f"restartPolicy {spec.get('restartPolicy', 'Always')} does not fit: {' or '.join(policies)}"
        )
    for key, value in template.get("metadata", {}).get("labels", {}).items():
        if not (is_label_key(key) and is_label_value(value)):
            found.append(f"the label {key}={value} is not valid")
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        found.append("terminationGracePeriodSeconds is negative")
    containers = spec.get("containers", [])
    if not containers:
        found.append("there is no container")
    found += _twice("container", (each["name"] for each in [*spec.get("initContainers", []), *containers]))
    found += _volume_problems(spec, claims)
    found += _node_problems(spec)
    volumes = {each["name"] for each in spec.get("volumes", [])}
    for each in [*spec.get("initContainers", []), *containers]:
        context = {**spec.get("securityContext", {}), **each.get("securityContext", {})}
        for what in [*_container_problems(each, volumes), *_context_problems(context)]:
            found.append(f"container {each['name']}: {what}")
    return found


def _twice(what: str, names: Iterable[Any]) -> list[str]:
    return [f"{what} {name} is there twice" for name, count in Counter(names).items() if count > 1]


def _volume_problems(spec: Document, claims: Collection[str]) -> Iterator[str]:
    volumes = spec.get("volumes", [])
    yield from _twice("volume", (each["name"] for each in volumes))
    for each in volumes:
        if not is_dns_label(each["name"]):
            yield f"the volume name {each['name']!r} is no DNS label"
        sources = [key for key in each if key != "name"]
        if len(sources) != 1:
            yield f"volume {each['name']} needs one source, not {len(sources)}"
        claim = each.get("persistentVolumeClaim", {}).get("claimName")
        if claim is not None and claim not in claims:
            yield f"volume {each['name']}: there is no claim {claim}"


def _container_problems(container: Document, volumes: Collection[str]) -> Iterator[str]:
    if not is_dns_label(container["name"]):
        yield "the name is no DNS label"
    image = container.get("image", "")
    if not is_image(image):
        yield f"the image {image!r} is no name of one"
    mounts = container.get("volumeMounts", [])
    yield from _twice("a mount at", (each["mountPath"] for each in mounts))
    for each in mounts:
        if each["name"] not in volumes:
            yield f"there is no volume {each['name']} to mount at {each['mountPath']}"
        if ":" in each["mountPath"] or not each["mountPath"].startswith("/"):
            yield f"cannot mount at {each['mountPath']!r}"
    for each in container.get("env", []):
        if not is_environment_name(each["name"]):
            yield f"the variable name {each['name']!r} is not valid"
        if "value" in each and "valueFrom" in each:
            yield f"variable {each['name']} has a value and a source"
    yield from _twice("variable", (each["name"] for each in container.get("env", [])))
    yield from _port_problems(container)
    yield from _resource_problems(container.get("resources", {}))


def _port_problems(container: Document) -> Iterator[str]:
    ports = container.get("ports", [])
    named = [each["name"] for each in ports if "name" in each]
    yield from _twice("port name", named)
    for each in ports:
        if not 0 < each["containerPort"] < 65536:
            yield f"there is no port {each['containerPort']}"
        name = each.get("name", "a")
        if not is_dns_label(name, 15) or not any(letter.isalpha() for letter in name) or "--" in name:
            yield f"the port name {name!r} is not valid"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        for action in ("httpGet", "tcpSocket"):
            port = container.get(probe, {}).get(action, {}).get("port")
            # A number need not be declared.
            if isinstance(port, str) and port not in named:
                yield f"{probe}: there is no port {port}"


def _resource_problems(resources: Document) -> Iterator[str]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    amounts: dict[str, dict[str, Any]] = {"requests": {}, "limits": {}}
    for side, given in (("requests", requests), ("limits", limits)):
        for name, text in given.items():
            try:
                amounts[side][name] = quantity(text)
            except (TypeError, ValueError):
                yield f"{side} {name}={text!r} is no quantity"
                return
    for name in {**requests, **limits}:
        request, limit = amounts["requests"].get(name), amounts["limits"].get(name)
        if request is not None and limit is not None and request > limit:
            yield f"requests {requests[name]} of {name}, limited to {limits[name]}"
        if name in NATIVE:
            continue
        if name.startswith(HUGE):
            if limit is None or (request is not None and request != limit):
                yield f"{name}: the request must be the limit"
        elif limit is None or (request is not None and request != limit):
            yield f"{name}: the request must be the limit, an accelerator cannot be overcommitted"
        elif limit != limit.to_integral_value():
            yield f"{name}: needs a whole number, not {limits[name]}"


def _context_problems(context: Document) -> Iterator[str]:
    """context: the container's, over the Pod's."""
    if context.get("runAsNonRoot") and context.get("runAsUser") == 0:
        yield "runAsNonRoot and user 0"
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        yield "privileged, but allowPrivilegeEscalation is false"


def _node_problems(spec: Document) -> Iterator[str]:
    for key, value in spec.get("nodeSelector", {}).items():
        if not (is_label_key(key) and is_label_value(value)):
            yield f"the nodeSelector {key}={value} is not valid"
    for each in spec.get("tolerations", []):
        if each.get("operator", "Equal") == "Exists" and each.get("value"):
            yield f"toleration {each.get('key')}: Exists takes no value"
        if each.get("operator", "Equal") == "Equal" and not each.get("key"):
            yield "a toleration with Equal needs a key"
        if "tolerationSeconds" in each and each.get("effect") != "NoExecute":
            yield f"toleration {each.get('key')}: tolerationSeconds needs the effect NoExecute"
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not required.get("nodeSelectorTerms"):
        yield "required nodeAffinity needs a term"
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    for each in preferred:
        if not 1 <= each["weight"] <= 100:
            yield f"the weight {each['weight']} of a preferred node is not in 1 to 100"
    terms = [each["preference"] for each in preferred] + (required or {}).get("nodeSelectorTerms", [])
    for term in terms:
        for expression in term.get("matchExpressions", []):
            yield from _expression_problems(expression)


def _expression_problems(expression: Document) -> Iterator[str]:
    key, operator, values = expression["key"], expression["operator"], expression.get("values", [])
    if not is_label_key(key):
        yield f"the node label {key!r} is not valid"
    if operator in ("In", "NotIn") and not values:
        yield f"{key}: {operator} needs values"
    if operator in ("Exists", "DoesNotExist") and values:
        yield f"{key}: {operator} takes no values"
    if operator in ("Gt", "Lt") and len(values) != 1:
        yield f"{key}: {operator} needs one value"
