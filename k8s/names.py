"""Names, labels and images that Kubernetes takes."""

from __future__ import annotations

import re

from rl.errors import UsageError

# KubeRay allows a RayJob 47 characters; a Pod of a JobSet is called NAME-hosts-0-INDEX-xxxxx, of at most 63.
LONGEST = 44
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123
_STRICT = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # RFC 1035: Services, and all of KubeRay's kinds
_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{,61}[A-Za-z0-9])?")
# The grammar of https://github.com/distribution/reference (reference.go): [HOST[:PORT]/]PATH[:TAG][@DIGEST].
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[A-Fa-f0-9:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[a-f0-9]{64})?"
)


def is_dns_name(text: str) -> bool:
    """Tells whether a text is labels of RFC 1123 with dots between them, 253 characters at most."""
    return len(text) <= 253 and all(map(_LABEL.fullmatch, text.split(".")))


def is_label_key(text: str) -> bool:
    """Tells whether a text is [DOMAIN/]NAME, as keys of labels and taints are."""
    domain, slash, name = text.rpartition("/")
    return (not slash or is_dns_name(domain)) and _KEY.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Tells whether a text is empty, or at most 63 letters, digits, and inner `-`, `_` and `.`."""
    return text == "" or _KEY.fullmatch(text) is not None


def is_image(text: str) -> bool:
    """Tells whether a registry may have an image of that name: [HOST[:PORT]/]PATH[:TAG][@sha256:...]."""
    match = _IMAGE.fullmatch(text)
    return match is not None and len(match["name"]) <= 255


def checked_name(flag: str, text: str) -> str:
    """Returns `text`, if a Service and all else may be called that. Raises UsageError if not."""
    if len(text) <= LONGEST and _STRICT.fullmatch(text):
        return text
    hint = f": {derived_name(text)} would do" if re.search("[A-Za-z]", text) else ""
    raise UsageError(
        f"{flag} {text!r}: needs a letter, then lower case letters, digits and '-', {LONGEST} at most{hint}"
    )


def checked_namespace(flag: str, text: str) -> str:
    """Returns `text`, if a namespace may be called that. Raises UsageError if not."""
    if len(text) <= 63 and _LABEL.fullmatch(text):
        return text
    raise UsageError(f"{flag} {text!r}: needs lower case letters, digits and '-', 63 at most")


def checked_existing(flag: str, text: str) -> str:
    """Returns `text`, if there may be an object of that name in a cluster. Raises UsageError if not."""
    if is_dns_name(text):
        return text
    raise UsageError(f"{flag} {text!r}: needs the name of an object: lower case letters, digits, '-' and '.'")


def derived_name(text: str) -> str:
    """Returns a valid name near to `text`, such as ppo-pong for ppo_pong."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"rl-{name}"
    return name[:LONGEST].rstrip("-")
