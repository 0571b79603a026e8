"""What a run on this machine alone listens at: loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def family(pid):
    """A process and all that came of it."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def listening(pids):
    """Addresses at which processes listen, as /proc/net has them, by name of a process."""
    owner = {}
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                number = re.findall(r"^socket:\[(\d+)\]$", os.readlink(link))
            except OSError:  # closed meanwhile
                continue
            owner |= dict.fromkeys(number, Path(f"/proc/{pid}/comm").read_text().strip())
    found = set()
    for name in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] in owner and (name.startswith("udp") or words[3] == "0A"):
                found.add((owner[words[9]], words[1].partition(":")[0]))
    return found


@pytest.mark.slow
def test_a_local_run_with_workers_and_learners_listens_on_loopback_alone(tmp_path):
    settings = "num_learners=2,log_period=64,num_envs=4,rollout_length=8,checkpoint_period=600,compile=graph"
    settings += ",sync_workers=false"
    command = [sys.executable, "train.py", "--hparams", "ppo_cartpole", "--num_workers", "2"]
    command += ["--hparam_override", settings, "--output_dir", str(tmp_path)]
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline, metrics = time.monotonic() + 240, tmp_path / "run_0" / "metrics.csv"
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") > 2):
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "output").read_text()
            time.sleep(0.2)
        found = listening(family(process.pid))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    assert process.returncode == 143
    assert len(found) >= 4  # Ray's own processes, workers and learners
    assert {each for each in found if each[1] not in LOOPBACK} == set()
