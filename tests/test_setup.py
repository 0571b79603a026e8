"""setup.sh, with a stand-in for uv and for Python: what it installs when, and what it leaves; the locks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ("requirements.txt", "requirements-gpu.txt", "requirements-tpu.txt")
LOCKS = ("requirements.lock", "requirements-uv.lock")
FILES = ("setup.sh", "pyproject.toml", *REQUIREMENTS, *LOCKS)

UV = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
  *--version*) ;;
  venv*) for last; do :; done; rm -rf "$last"; mkdir -p "$last/bin"; cp "$FAKE_PYTHON" "$last/bin/python" ;;
  "python list"*) cat "$PYTHONS" 2>/dev/null ;;
  pip*) [ ! -e "$BROKEN" ] || { echo "no such package" >&2; exit 1; } ;;
esac
"""
PYTHON = '#!/bin/sh\necho "$@" >> "$CALLS.python"\n'


class Machine:
    """A copy of the set-up files and a PATH on which uv is ours."""

    def __init__(self, folder: Path) -> None:
        self.root, self.calls, self.broken = folder / "tree", folder / "calls", folder / "broken"
        self.root.mkdir()
        for name in FILES:
            shutil.copy(ROOT / name, self.root / name)
        tools = folder / "tools"
        tools.mkdir()
        for name, text in (("uv", UV), ("python", PYTHON)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        path = f"{tools}:{os.environ['PATH']}"
        self.pythons = folder / "pythons"
        given = {
            "PYTHONS": self.pythons,
            "CALLS": self.calls,
            "FAKE_PYTHON": tools / "python",
            "BROKEN": self.broken,
        }
        self.environment = {**os.environ, "PATH": path, **{key: str(value) for key, value in given.items()}}

    def setup(self, *arguments: str) -> subprocess.CompletedProcess:
        self.calls.write_text("")
        command = [str(self.root / "setup.sh"), *arguments]
        return subprocess.run(
            command, env=self.environment, cwd="/", capture_output=True, text=True, timeout=60
        )

    def asked(self) -> list[str]:
        """What uv was asked to change in the last set-up, without the rest of its arguments."""
        lines = self.calls.read_text().splitlines()
        lines = [line for line in lines if not line.startswith(("pip compile", "python list"))]
        return [word for word in (line.split()[0] for line in lines) if not word.startswith("-")]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_first_run_installs_and_the_second_does_nothing(machine):
    assert machine.setup().returncode == 0
    assert machine.asked() == ["venv", "pip"]
    calls = machine.calls.read_text()
    assert f"{machine.root}/requirements.txt" in calls and "--compile-bytecode" in calls
    again = machine.setup()
    assert (again.returncode, machine.asked()) == (0, [])


def test_command_runs_in_the_environment_with_its_own_exit_code(machine):
    machine.setup()
    done = machine.setup("sh", "-c", 'echo "$VIRTUAL_ENV $(command -v python) $1"; exit 5', "sh", "--sys")
    assert done.returncode == 5
    assert done.stdout == f"{machine.root}/.venv {machine.root}/.venv/bin/python --sys\n"
    assert done.stderr == ""


def test_only_what_the_lock_has_is_installed(machine):
    machine.setup()
    resolve, install = [line for line in machine.calls.read_text().splitlines() if line.startswith("pip")]
    constraints = f"--constraints {machine.root}/requirements.lock"
    assert resolve.startswith("pip compile ") and constraints in resolve
    pins = re.search(r"--output-file (\S+)", resolve)[1]
    assert install.startswith("pip install ")
    assert install.endswith(f"--require-hashes {constraints} -r {pins}")


@pytest.mark.parametrize("name", ["requirements.txt", "requirements.lock"])
def test_changed_requirements_are_installed_into_the_same_environment(machine, name):
    machine.setup()
    with open(machine.root / name, "a") as file:
        file.write("# changed\n")
    assert machine.setup().returncode == 0
    assert machine.asked() == ["pip"]


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ((0.100, 0.095), 0),  # no faster than chance has it: the first that uv finds
        ((0.100, 0.060), 1),
        ((0.100, 0.060, 0.058), 1),
        ((None, 0.060), 1),  # the first does not start
        ((None,), None),
        ((), None),
    ],
)
def test_the_environment_is_made_of_the_fastest_python(machine, tmp_path, seconds, chosen):
    found = []
    for number, each in enumerate(seconds):
        path = tmp_path / f"python number {number}"
        path.write_text("#!/bin/sh\n" + ("exit 127\n" if each is None else f'echo "{each} $0"\n'))
        path.chmod(0o755)
        found.append(path)
    machine.pythons.write_text("".join(f"cpython-3.11.2-linux    {path} -> python3\n" for path in found))
    assert machine.setup().returncode == 0
    listed, made = [
        line for line in machine.calls.read_text().splitlines() if not line.startswith(("-", "pip"))
    ]
    wanted = ">=3.11,<3.13"
    assert listed == f"python list --only-installed {wanted}"
    made_of = wanted if chosen is None else found[chosen]
    assert made == f"venv --quiet --clear --no-project --python {made_of} {machine.root}/.venv"


def test_a_user_chooses_among_pythons(machine):
    machine.environment["UV_PYTHON"] = "3.12"
    assert machine.setup().returncode == 0
    assert "python list --only-installed 3.12\n" in machine.calls.read_text()
    assert "--python 3.12 " in machine.calls.read_text()


def test_other_system_gets_a_fresh_environment_which_then_stays(machine):
    machine.setup()
    assert machine.setup("--sys", "gpu").returncode == 0
    assert machine.asked() == ["venv", "pip"] and "requirements-gpu.txt" in machine.calls.read_text()
    assert machine.setup("true").returncode == 0
    assert machine.asked() == [], "without --sys, what was set up stays"
    machine.setup("--sys=local")
    assert machine.asked() == ["venv", "pip"]


def test_extras_are_installed_and_stay(machine):
    def extras():
        lines = machine.calls.with_name("calls.python").read_text().splitlines()
        return [line.split()[3:] for line in lines if line.startswith("- ")][-1]

    assert machine.setup().returncode == 0 and extras() == []
    assert machine.setup("--extra", "mujoco,box2d").returncode == 0
    assert machine.asked() == ["pip"] and extras() == ["box2d", "mujoco"]
    assert machine.setup("--extra=box2d", "true").returncode == 0 and machine.asked() == []
    machine.setup("--extra", "plot", "--sys", "gpu")
    assert machine.asked() == ["venv", "pip"] and extras() == ["box2d", "mujoco", "plot"]
    assert machine.setup("true").returncode == 0 and machine.asked() == []


def test_moved_folder_gets_a_fresh_environment(machine):
    machine.setup()
    machine.root = machine.root.rename(machine.root.with_name("elsewhere"))
    assert machine.setup().returncode == 0
    assert machine.asked() == ["venv", "pip"]


def test_the_environment_of_another_folder_behind_a_link_is_not_emptied(machine, tmp_path):
    machine.setup()
    there = machine.root.rename(tmp_path / "there")
    (tmp_path / "other").mkdir()
    other = Machine(tmp_path / "other")
    (other.root / ".venv").symlink_to(there / ".venv")
    result = other.setup()
    assert result.returncode == 1 and result.stderr.splitlines()[-1].startswith(
        "setup.sh: error: .venv is a link"
    )
    assert other.asked() == [] and (there / ".venv/bin/python").exists()


def test_environment_made_by_hand_is_kept(machine):
    (machine.root / ".venv" / "bin").mkdir(parents=True)
    python = machine.root / ".venv" / "bin" / "python"
    shutil.copy(machine.environment["FAKE_PYTHON"], python)
    assert machine.setup().returncode == 0
    assert machine.asked() == ["pip"]


def test_failure_ends_with_one_clear_line_and_is_tried_again(machine):
    machine.broken.touch()
    failed = machine.setup("echo", "must not run")
    assert failed.returncode == 1 and failed.stdout == ""
    assert failed.stderr.splitlines()[-1].startswith("setup.sh: error: installing requirements.txt failed")
    assert "make lock adds to it" in failed.stderr
    assert not (machine.root / ".venv" / ".setup-stamp").exists()
    machine.broken.unlink()
    assert machine.setup("echo", "runs").stdout == "runs\n"


@pytest.mark.parametrize(
    "flags", [["--sys", "cpu"], ["--sys"], ["--system", "gpu"], ["--extra", "plot,mujocoo"], ["--extra"]]
)
def test_wrong_option_is_one_line_and_installs_nothing(machine, flags):
    done = machine.setup(*flags)
    assert done.returncode == 1 and machine.asked() == []
    assert done.stderr.startswith("setup.sh: error: ") and done.stderr.count("\n") == 1


def requirements(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_requirements_of_all_systems_differ_in_tensorflow_alone():
    def rest(name: str) -> set[str]:
        return {line for line in requirements(name) if not re.match(r"tensorflow|libtpu", line)}

    assert rest("requirements.txt") == rest("requirements-gpu.txt") == rest("requirements-tpu.txt")
    assert "libtpu==0.0.14" in requirements("requirements-tpu.txt")


def locked(name: str) -> list[tuple[Requirement, list[str]]]:
    """The entries of a lock: `NAME==VERSION ; MARKER`, and their hashes."""
    text = re.sub(r"^#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    entries = [entry.split(" --hash=") for entry in re.sub(r"\s*\\\n\s*", " ", text).splitlines()]
    return [(Requirement(entry.strip()), hashes) for entry, *hashes in entries]


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_is_a_version_with_hashes_and_names_no_address(name):
    assert not re.search(r"://|index-url|find-links", (ROOT / name).read_text())
    assert locked(name)
    for entry, hashes in locked(name):
        assert re.fullmatch(r"==[^*,]+", str(entry.specifier)), entry
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), entry


@pytest.mark.parametrize("python", ["3.11.9", "3.12.9"])
def test_the_lock_has_all_that_can_be_asked_for_in_versions_that_fit(python):
    """`make lock` mends it."""
    versions = {}
    for entry, _ in locked("requirements.lock"):
        where = {"python_full_version": python, "python_version": python[:4], "sys_platform": "linux"}
        if entry.marker is None or entry.marker.evaluate(where):
            assert canonicalize_name(entry.name) not in versions, f"{entry.name} has two versions"
            versions[canonicalize_name(entry.name)] = str(entry.specifier).removeprefix("==")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [line for name in REQUIREMENTS for line in requirements(name)]
    wanted += [line for extra in extras.values() for line in extra]
    wanted += re.findall(r"^qt_pypi='(.*)'$", (ROOT / "setup.sh").read_text(), re.MULTILINE)
    assert len(wanted) > 50
    for each in map(Requirement, wanted):
        version = versions.get(canonicalize_name(each.name))
        assert version is not None, f"{each} is not in requirements.lock"
        assert each.specifier.contains(version, prereleases=True), f"{each}: requirements.lock has {version}"


def test_the_installer_itself_is_locked():
    ((entry, _),) = locked("requirements-uv.lock")
    text = (ROOT / "setup.sh").read_text()
    (wanted,) = re.findall(r"^uv_pypi='(.*)'$", text, re.MULTILINE)
    assert Requirement(wanted).specifier.contains(str(entry.specifier).removeprefix("=="))
    assert len(re.findall(r"pip install .*--target.*\\\n *--require-hashes -r \"\$uv_lock\"", text)) == 1
