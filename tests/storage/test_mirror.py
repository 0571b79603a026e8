"""Runs with a remote output: what is there, at whichever moment this machine goes away."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf
from far_away import remote_files, wait_for
from filled_variables import filled, value_of
from marked import rest

from rl.errors import NotSent, UsageError
from rl.storage import mirror
from rl.storage.checkpoint import CheckpointManager, read_manifest, read_single, write_single
from rl.storage.mirror import Mirror
from rl.storage.place import PlaceError, Remote
from rl.storage.storage import storage_at
from rl.storage.transfer import by_step, get_newest


def work(folder, step, best=True):
    """What a run does in its folder up to a step, all of which holds the step's number."""
    manager = CheckpointManager(folder / "checkpoints", keep=1)
    before = manager.latest_step()
    rows = [f"{each}\n" for each in range(step + 1)]
    (folder / "metrics.csv").write_text("step\n" + "".join(rows))
    (folder / "hparams.json").write_text(json.dumps({"step": step}))
    if before is None:  # a run that begins anew removes the events of one that never got anywhere
        for events in folder.glob("events.*"):
            events.unlink()
    (folder / f"events.out.tfevents.{step}").write_text("events")
    if best:
        write_single(folder / "checkpoints" / "best", filled(step), {"value": step}, step)
    manager.save(filled(step), step)


def trained(address, *steps, **options):
    """Works on the run at an address and sends it."""
    storage = storage_at(address)
    with storage.to_train():
        storage.begin()
        for step in steps:
            work(storage.folder, step, **options)
    return storage


def held(folder):
    """(step of the newest checkpoint, of the best policy, of the last row), each found to be whole."""
    variables, best = filled(0), filled(0)
    manager = CheckpointManager(folder / "checkpoints")
    if manager.restore(variables) is None:
        return None
    assert value_of(variables) == manager.restored_step
    meta = read_single(folder / "checkpoints" / "best", best).meta
    assert meta == {"value": value_of(best)}
    rows = [int(row) for row in (folder / "metrics.csv").read_text().splitlines()[1:]]
    assert rows == list(range(len(rows)))
    return manager.restored_step, int(meta["value"]), rows[-1]


# -- a machine that goes away


class _Crash(BaseException):
    """Stands for the death of the process."""


class _CrashAfter:
    """From the nth operation on what is remote on, every one of them fails. `torn`: a copy leaves a part."""

    def __init__(self, monkeypatch, count, torn):
        self.left, self.torn = count, torn
        for name in ("copy", "rename", "remove", "rmtree"):
            monkeypatch.setattr(tf.io.gfile, name, self._counted(getattr(tf.io.gfile, name), name))

    def _counted(self, function, name):
        def call(*args, **options):
            self.left -= 1
            if self.left >= 0:
                return function(*args, **options)
            if name == "copy" and self.left == -1 and self.torn:
                with tf.io.gfile.GFile(args[1], "wb") as file:
                    file.write(Path(args[0]).read_bytes()[:-1])
            raise _Crash

        return call


def crash_after(count, address, monkeypatch):
    """Works on a run up to step 20 and crashes at the nth operation of sending it; whether it got so far."""
    storage = storage_at(address)
    try:
        with monkeypatch.context() as patch, storage.to_train():
            storage.begin()
            work(storage.folder, 20)
            _CrashAfter(patch, count, torn=address.startswith("file"))
    except _Crash:
        return True
    return False


@pytest.mark.parametrize(
    ("begun", "place"), [(True, "store"), *rest((False, "store"), (False, "address"), (True, "address"))]
)
def test_a_crash_at_any_file_leaves_a_run_to_go_on_from(place, begun, request, machine, by_hand, monkeypatch):
    """The first checkpoint that is sent, or one that replaces another, with a best policy of its step."""
    root = request.getfixturevalue(place)
    crashes, outcomes, crashed = 0, set(), True
    while crashed:
        address = f"{root}{crashes}"
        if begun:
            trained(address, 10)
        machine()
        crashed = crash_after(crashes, address, monkeypatch)
        machine()
        storage = storage_at(address)
        with storage.to_train():
            found = held(storage.folder)
            storage.begin()
            work(storage.folder, 30)
            expected = {path.name for path in storage.folder.glob("events.*")}
        if crashed and found is not None:
            assert found[:2] in {(10, 10), (10, 20), (20, 20)} and found[2] >= found[0]
        assert found == (20, 20, 20) or crashed
        assert found is not None or not begun
        outcomes.add(found)
        # And nothing is left over once another one has been sent.
        left = {name for name in remote_files(address) if "/" not in name}
        assert left == expected | {"hparams.json", "metrics.csv", "mirror.json"}
        assert by_step(Remote(f"{address}/checkpoints").names()) == ["step_000000000030"]
        assert len(remote_files(address)) == len(left) + 6
        crashes += 1
    assert crashes >= 10 and len(outcomes) >= (4 if begun else 2)


# -- whose state counts


def test_what_this_machine_could_not_send_is_gone_on_with(address, machine, by_hand, monkeypatch):
    here = machine()
    trained(address, 10)
    assert not any(path.is_file() for path in here.rglob("*"))  # what is remote is not kept twice

    def refused(self, path, name):
        raise PlaceError(f"cannot write {name} (quota)")

    storage = storage_at(address)
    with monkeypatch.context() as patch, storage.to_train():
        storage.begin()
        work(storage.folder, 20)
        patch.setattr(Remote, "put", refused)
    assert "quota" in storage.unsent and str(storage.folder) in storage.unsent
    fetched = []
    monkeypatch.setattr(Mirror, "fetch", lambda self: fetched.append(self))
    again = storage_at(address)
    with again.to_train():
        assert held(again.folder) == (20, 20, 20)
        again.begin()
    assert again.unsent is None and not fetched
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    with storage_at(address).to_read() as _, storage_at(address).glance() as seen:
        assert CheckpointManager(seen / "checkpoints").latest_step() == 20


@pytest.mark.parametrize("what", ["another machine has written", "files were cleaned up"])
def test_else_what_is_remote_counts(address, machine, by_hand, monkeypatch, what):
    here = machine()
    trained(address, 10)
    assert crash_after(0, address, monkeypatch)  # step 20 stays here
    newer = storage_at(address).folder / "checkpoints" / "step_000000000020"
    assert newer.is_dir()
    if what == "another machine has written":
        machine()
        trained(address, 11, best=False)
        monkeypatch.setattr(tempfile, "tempdir", str(here))
    else:
        next(newer.glob("state-*.data-*")).unlink()
    storage = storage_at(address)
    with storage.to_train():
        assert held(storage.folder)[0] == (11 if what == "another machine has written" else 10)
        assert not newer.exists()


def test_a_run_is_trained_by_one_process_of_a_machine(address, monkeypatch):
    monkeypatch.setattr("rl.storage.storage.PATIENCE", 0.0)
    with storage_at(address).to_train():
        with (
            pytest.raises(UsageError, match="another process of this machine trains"),
            storage_at(address).to_train(),
        ):
            pass
        with storage_at(address).to_read():  # looking on is no hindrance
            pass
    assert not remote_files(address)


def test_a_process_that_was_thought_dead_sends_no_more(address, machine, by_hand):
    slow = storage_at(address)
    with slow.to_train():
        slow.begin()
        work(slow.folder, 10)
        slow.mirror.send()
        machine()
        trained(address, 20)
        work(slow.folder, 15)
    assert "another process has begun to write" in slow.unsent and str(slow.folder) in slow.unsent
    assert by_step(Remote(f"{address}/checkpoints").names()) == ["step_000000000020"]


def test_such_a_process_ends_at_its_next_checkpoint(address, machine, monkeypatch):
    monkeypatch.setattr(mirror, "EVERY", 0.05)
    monkeypatch.setattr(mirror, "REST", 0.01)
    slow = storage_at(address)
    with pytest.raises(NotSent, match="another process has begun to write"), slow.to_train():
        slow.begin()
        work(slow.folder, 10)
        slow.saved()
        machine()
        trained(address, 20)
        wait_for(lambda: slow.mirror.taken)
        work(slow.folder, 15)
        slow.saved()
    assert by_step(Remote(f"{address}/checkpoints").names()) == ["step_000000000020"]


def test_what_others_put_beside_a_run_stays_there(address, tmp_path):
    def killed():
        storage = storage_at(address)
        with pytest.raises(RuntimeError, match="killed"), storage.to_train():
            storage.begin()
            work(storage.folder, 10)
            raise RuntimeError("killed")
        return storage

    staging = killed().folder
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    Remote(address).put(notes, notes.name)
    (staging / "events.out.tfevents.10").unlink()  # which the run has sent, and removes
    assert killed().folder == staging and "notes.txt" not in {each.name for each in staging.iterdir()}
    trained(address, 20)
    found = remote_files(address)
    assert "notes.txt" in found and "events.out.tfevents.20" in found


def test_a_run_that_begins_anew_leaves_nothing_of_one_that_never_got_to_a_checkpoint(address, machine):
    storage = storage_at(address)
    with storage.to_train():
        storage.begin()
        (storage.folder / "events.out.tfevents.1").write_text("events")
        write_single(storage.folder / "checkpoints" / "best", filled(1), {"value": 1}, 1)
    machine()
    again = storage_at(address)
    with again.to_train():
        assert (again.folder / "checkpoints" / "best").is_dir()
        again.begin()
        (again.folder / "events.out.tfevents.1").unlink()
        for path in (again.folder / "checkpoints" / "best").iterdir():
            path.unlink()
        (again.folder / "checkpoints" / "best").rmdir()
        (again.folder / "events.out.tfevents.2").write_text("events")
    assert remote_files(address) == {"mirror.json", "events.out.tfevents.2"}


def test_a_damaged_remote_checkpoint_is_passed_over(address, machine, by_hand, caplog):
    storage = trained(address, 10, 20)
    far = Path(address.removeprefix("file://")) / "checkpoints"
    CheckpointManager(far, keep=2).save(filled(30), 30)
    data = next((far / "step_000000000030").glob("state-*.data-*"))
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    machine()
    storage = storage_at(address)
    with storage.to_train(), caplog.at_level(logging.WARNING):
        assert held(storage.folder) == (20, 20, 20)
    assert "step_000000000030 is damaged (the checksum of state-" in caplog.text
    data = next((far / "step_000000000020").glob("state-*.data-*"))
    data.write_bytes(b"")
    with pytest.raises(UsageError, match=f"every checkpoint in {address}/checkpoints is damaged"):
        trained(address, 40)


# -- what is sent


def test_a_failed_sending_is_a_warning_and_is_tried_again(address, monkeypatch, caplog):
    monkeypatch.setattr(mirror, "REST", 0.01)
    monkeypatch.setattr(mirror, "EVERY", 0.01)
    put, refused = Remote.put, []

    def refuse(self, path, name):
        if len(refused) < 3 and path.name != ".mirror.json":
            refused.append(name)
            raise PlaceError("cannot write there (quota)")
        put(self, path, name)

    monkeypatch.setattr(Remote, "put", refuse)
    storage = storage_at(address)
    with storage.to_train(), caplog.at_level(logging.WARNING):
        storage.begin()
        work(storage.folder, 10)
        storage.saved()
        wait_for(lambda: "checkpoints" in Remote(address).names())
    assert storage.unsent is None and len(refused) == 3
    assert caplog.messages == [f"{address} is not up to date: cannot write there (quota)"]  # told once


def test_only_what_changed_is_sent(address, by_hand, monkeypatch):
    put, sent = Remote.put, []
    monkeypatch.setattr(Remote, "put", lambda *words: (sent.append(words[1].name), put(*words)))
    storage = storage_at(address)
    with storage.to_train():
        storage.begin()
        work(storage.folder, 10)
        storage.mirror.send()
        assert sorted(sent)[:2] == [".mirror.json", "events.out.tfevents.10"] and len(sent) == 4 + 3 + 3
        sent.clear()
        storage.mirror.send()
        assert sent == []
        with open(storage.folder / "metrics.csv", "a") as file:
            file.write("11\n")
        (storage.folder / "heartbeat").write_text("{}")  # it changes every second, and is of this machine
        (storage.folder / "videos").mkdir()
        (storage.folder / "videos" / ".tmp-a.mp4").write_text("half")
        (storage.folder / "videos" / "b.mp4").write_text("film")
        storage.mirror.send()
        assert sent == ["metrics.csv", "b.mp4"]
        (storage.folder / "videos" / "b.mp4").rename(storage.folder / "videos" / "c.mp4")
    assert Remote(f"{address}/videos").names() == ["c.mp4"]
    with storage_at(address).to_train():  # films are not needed to go on, and stay
        pass
    assert Remote(f"{address}/videos").names() == ["c.mp4"]


def test_what_is_missing_or_torn_there_is_sent_again(address, by_hand, tmp_path):
    """A store may keep what an interrupted write had sent; a person may remove the folder."""
    torn = tmp_path / "torn"
    torn.write_bytes(b"half")
    storage = storage_at(address)
    with storage.to_train():
        storage.begin()
        work(storage.folder, 10)
        files = read_manifest(storage.folder / "checkpoints" / "step_000000000010").files
        for name in files:
            Remote(address).put(torn, f"checkpoints/step_000000000010/{name}")
        storage.mirror.send()
        assert get_newest(Remote(f"{address}/checkpoints"), tmp_path / "first") == 10
        Remote(address).remove("")
        storage.mirror.send()
        assert get_newest(Remote(f"{address}/checkpoints"), tmp_path / "second") == 10
        assert {"hparams.json", "metrics.csv", "mirror.json"} < set(Remote(address).names())


def test_what_is_being_sent_may_be_removed_and_replaced_meanwhile(address, by_hand, monkeypatch):
    storage = storage_at(address)
    put, steps = Remote.put, [20]

    def meanwhile(self, path, name):
        if steps and ".data-" in path.name:
            work(storage.folder, steps.pop())
        put(self, path, name)

    monkeypatch.setattr(Remote, "put", meanwhile)
    with storage.to_train():
        storage.begin()
        work(storage.folder, 10)
        storage.mirror.send()
        assert not steps and not (storage.folder / "checkpoints" / "step_000000000010").exists()
        assert by_step(Remote(f"{address}/checkpoints").names()) == ["step_000000000010"]
    assert by_step(Remote(f"{address}/checkpoints").names()) == ["step_000000000020"]
    reader = storage_at(address)
    with reader.to_read():
        variables = filled(0)
        assert read_single(reader.folder / "checkpoints" / "best", variables).meta == {"value": 20}
        assert value_of(variables) == 20
