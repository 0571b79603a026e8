"""Names and labels that Kubernetes takes."""

from __future__ import annotations

import re

from rl.errors import UsageError

# KubeRay allows a RayJob 47 characters; a Pod of a JobSet is called NAME-hosts-0-INDEX-xxxxx, of at most 63.
LONGEST = 44
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123
_STRICT = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # RFC 1035: Services, and all of KubeRay's kinds
_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
# The grammar of https://github.com/distribution/reference (reference.go): [HOST[:PORT]/]PATH[:TAG][@DIGEST].
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[A-Fa-f0-9:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[a-f0-9]{64})?"
)
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_dns_label(text: str, longest: int = 63) -> bool:
    """Whether RFC 1123 has it as a label: lower case letters, digits and inner dashes."""
    return len(text) <= longest and _LABEL.fullmatch(text) is not None


def is_strict_label(text: str, longest: int = 63) -> bool:
    """As `is_dns_label`, and begins with a letter (RFC 1035)."""
    return len(text) <= longest and _STRICT.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Labels with dots between them, 253 characters at most."""
    return len(text) <= 253 and all(is_dns_label(part, 253) for part in text.split("."))


def is_label_key(text: str) -> bool:
    """[DOMAIN/]NAME."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _KEY.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Empty, or at most 63 letters, digits, and inner `-`, `_` and `.`."""
    return text == "" or (len(text) <= 63 and _KEY.fullmatch(text) is not None)


def is_environment_name(text: str) -> bool:
    """What shells can read as a variable."""
    return _ENVIRONMENT.fullmatch(text) is not None


def is_image(text: str) -> bool:
    """Whether a registry may have an image of that name: [HOST[:PORT]/]PATH[:TAG][@sha256:...]."""
    match = _IMAGE.fullmatch(text)
    return match is not None and len(match["name"]) <= 255


def checked_name(flag: str, text: str, longest: int = LONGEST) -> str:
    """`text`, if a Service and all else may be called that.

    Raises:
        UsageError: it may not.
    """
    if is_strict_label(text, longest):
        return text
    hint = f": {derived_name(text, longest)} would do" if re.search("[A-Za-z]", text) else ""
    raise UsageError(
        f"{flag} {text!r}: needs a letter, then lower case letters, digits and '-', {longest} at most{hint}"
    )


def checked_existing(flag: str, text: str) -> str:
    """`text`, if there may be an object of that name in a cluster.

    Raises:
        UsageError: there may not.
    """
    if is_dns_subdomain(text):
        return text
    raise UsageError(f"{flag} {text!r}: needs the name of an object: lower case letters, digits, '-' and '.'")


def derived_name(text: str, longest: int = LONGEST) -> str:
    """A valid name near to `text`, such as ppo-pong for ppo_pong."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"rl-{name}"
    return name[:longest].rstrip("-")
