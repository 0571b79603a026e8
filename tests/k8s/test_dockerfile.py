"""The image: what its Dockerfile says, and that the builder's steps work as they stand."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "k8s" / "Dockerfile"


class Step(NamedTuple):
    """An instruction and what follows it, continued lines joined."""

    word: str
    rest: str


def stages():
    """The steps of each stage; the FROM is its first."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    found = []
    for line in filter(str.strip, lines):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append(Step(word, rest.strip()))
    return found


def steps(word, stage=-1):
    return [step.rest for step in stages()[stage] if step.word == word]


def test_linter_finds_nothing():
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, DOCKERFILE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_linter_would_find_something(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /x && apt-get install foo\n")
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, tmp_path / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "DL3006" in done.stdout


def test_both_stages_are_of_one_pinned_image():
    bases = [stage[0].rest.split()[0] for stage in stages()]
    assert len(bases) == 2 and len(set(bases)) == 1, "the environment's Python is the base's"
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", bases[0])


def test_all_that_is_installed_of_python_is_locked():
    installs = re.findall(r"pip install [^&]*", " && ".join(steps("RUN", 0)))
    with_pip, with_uv = (install.split() for install in installs)
    assert "--require-hashes" in with_pip and with_pip[-2:] == ["-r", "requirements-uv.lock"]
    assert "--require-hashes" in with_uv and "--constraints requirements.lock" in " ".join(with_uv)
    assert not [word for word in with_uv if "==" in word or ">" in word]


def test_container_runs_as_the_user_of_the_manifests_under_tini():
    from k8s.pods import USER

    assert steps("USER") == [f"{USER}:{USER}"]
    assert steps("ENTRYPOINT") == ['["tini", "--"]']
    assert steps("CMD") == ['["python", "train.py", "--help"]']
    assert steps("WORKDIR") == steps("WORKDIR", 0) == ["/opt/rl"], (
        "the command's place is the repository's root"
    )
    assert stages()[-1][-3].word == "USER", "nothing is installed by it"


def test_driver_of_a_gpu_is_found_where_gke_mounts_it():
    """cmd/nvidia_gpu in GoogleCloudPlatform/container-engine-accelerators: no NVIDIA runtime is there."""
    (settings,) = steps("ENV")
    assert "LD_LIBRARY_PATH=/usr/local/nvidia/lib64" in settings.split()


def test_what_the_set_up_needs_of_debian_is_installed():
    setup = (ROOT / "setup.sh").read_text()
    wanted = re.search(r"^debian_packages=\((.*)\)$", setup, re.MULTILINE)[1].split()
    wanted += re.findall(r"^qt_debian=(\S+)$", setup, re.MULTILINE)
    (install,) = [run for run in steps("RUN") if "apt-get install" in run]
    assert len(wanted) == 5 and set(wanted) <= set(install.split())
    assert {"tini", "wget"} <= set(install.split()), "wget: KubeRay's probes call it"


def test_only_what_is_copied_is_sent_to_the_builder():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [name for rest in steps("COPY", 0) for name in rest.split()[:-1]]
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"
    for name in copied:
        assert (ROOT / name).exists()
        assert any(Path(name).match(pattern) for pattern in allowed), name


def run_builder(scratch, system):
    """Runs COPY and RUN of the first stage, with /opt in `scratch`; what pip installs goes there as well."""
    (scratch / "opt").mkdir()
    (scratch / "python" / "bin").mkdir(parents=True)
    base = getattr(sys, "_base_executable", sys.executable)  # uv takes none of another environment
    (scratch / "python" / "bin" / "python").symlink_to(Path(base).resolve())
    environment = {"PATH": f"{scratch / 'python' / 'bin'}:/usr/bin:/bin", "HOME": str(scratch), "SYS": system}
    environment |= {"PIP_PREFIX": str(scratch / "python"), "PIP_IGNORE_INSTALLED": "1"}
    environment |= {
        key: value for key, value in os.environ.items() if key.startswith(("UV_", "PIP_", "SSL_"))
    }
    workdir = scratch
    for word, rest in stages()[0][1:]:
        moved = rest.replace("/opt/", f"{scratch}/opt/")
        if word == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(moved))
            environment.pop("UV_NO_CACHE")  # packages may come from this machine's cache
        elif word == "WORKDIR":
            workdir = Path(moved)
            workdir.mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            *sources, target = moved.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / source, workdir / target, ignore=ignored)
                else:
                    shutil.copy(ROOT / source, workdir / target)
        elif word == "RUN":
            done = subprocess.run(
                ["/bin/sh", "-c", moved], cwd=workdir, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                return done
    return done


def test_builder_refuses_a_system_that_is_none(tmp_path):
    (choose,) = [run for run in steps("RUN", 0) if "case" in run]
    done = subprocess.run(
        ["/bin/sh", "-c", choose], cwd=tmp_path, env={"SYS": "cuda"}, capture_output=True, text=True
    )
    assert done.returncode == 2 and "unknown SYS 'cuda': one of local, gpu, tpu" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.fixture
def scratch(tmp_path):
    """A folder whose gigabytes do not stay."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.slow
def test_builder_makes_what_the_final_stage_runs(scratch):
    done = run_builder(scratch, "local")
    assert done.returncode == 0, done.stderr
    root = scratch / "opt" / "rl"
    environment = {
        "PATH": f"{scratch}/opt/venv/bin:/usr/bin:/bin",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
    }

    def run(*command):
        return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)

    assert run("python", "train.py", "--list", "envs").returncode == 0
    assert run("ray", "--version").stdout.startswith("ray, version 2.")
    assert run("python", "-m", "k8s.stop_learner").returncode == 2  # it is there; this is no Pod
    flags = ["--hparams", "dqn_cartpole", "--train_steps", "1000", "--test_episodes", "1"]
    trained = run("python", "train.py", *flags, "--output_dir", str(scratch / "run"))
    assert trained.returncode == 0, trained.stderr
    assert (scratch / "run" / "run_0" / "metrics.csv").exists()
    submit = run("python", "-c", "import ray.dashboard.modules.job.job_head, ray.dashboard.modules.job.cli")
    assert submit.returncode == 0, "KubeRay submits to Ray's dashboard: " + submit.stderr
