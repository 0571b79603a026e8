"""What disks and kills do to data sets: nothing that was recorded is lost, doubled or taken for damage."""

import contextlib
import errno
import json
import logging
import os
import pkgutil
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from played import assert_equal
from recordings import SPACES, Played, recorded, recorder

from rl.data import shards, stored
from rl.data.dataset import data_folder, read, stored_episodes, write
from rl.data.metadata import read_metadata
from rl.data.pieces import Pieces
from rl.data.summary import played
from rl.errors import Unavailable, UsageError

ROOT = Path(__file__).parents[2]


def failing(call, at):
    """`call` as it is, but for the calls of these numbers (from 1), for which the disk is full."""
    calls = []

    def failed(*words):
        calls.append(words)
        if len(calls) in at:
            raise Unavailable("no space left")
        return call(*words)

    return failed


@contextlib.contextmanager
def descriptors(count):
    """Lets this process open so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    end, taken = max(map(int, os.listdir("/dev/fd"))) + 1, []
    resource.setrlimit(resource.RLIMIT_NOFILE, (end, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (end + count, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)


@pytest.mark.parametrize("owner", ["run", ""])
def test_what_fails_after_a_journal_became_a_shard_loses_nothing(tmp_path, monkeypatch, caplog, owner):
    expected = recorded(tmp_path / "whole", 40, owner=owner)
    monkeypatch.setattr("rl.data.recorder.LARGE", 100)
    played = Played()
    with recorder(tmp_path / "full", owner=owner) as made, monkeypatch.context() as patch:
        made.begin()
        # The first call lists the policy, the second one counts, after main_data.hdf5 has the episodes.
        patch.setattr(shards, "write_metadata", failing(shards.write_metadata, [2]))
        for _ in range(4):
            made.add(*played.rows(10))
            made.flush()
            with caplog.at_level(logging.WARNING, "rl.data"):
                made.saved()
    data = tmp_path / "full" / "data"
    assert caplog.messages == [
        f"{data / 'metadata.json'} does not count the episodes that are there: no space left"
    ]
    assert_equal(read(tmp_path / "full", exact=True), expected)
    assert read(tmp_path / "full").metadata["total_episodes"] == len(expected.lengths)


def test_episodes_that_nobody_counted_are_counted_by_repair(tmp_path, monkeypatch):
    made, data = recorder(tmp_path), tmp_path / "data"
    made.begin()
    made.add(*Played().rows(20))
    with monkeypatch.context() as patch:
        patch.setattr(shards, "write_metadata", failing(shards.write_metadata, [2]))
        made.close()
    found = read(tmp_path)
    assert found.metadata["total_episodes"] == 0 and len(found.lengths) == 12
    assert shards.repair(data) == ["metadata.json counts the 12 episodes again"]
    metadata = read(tmp_path).metadata
    assert (metadata["total_episodes"], metadata["total_steps"]) == (12, found.lengths.sum())
    assert shards.repair(data) == []


def test_a_journal_that_has_more_than_its_shard_is_not_removed(tmp_path, monkeypatch, caplog):
    made, played, data = recorder(tmp_path), Played(), tmp_path / "data"
    made.begin()
    made.add(*played.rows(20))
    made.flush()
    with monkeypatch.context() as patch:
        patch.setattr(shards, "remove_quietly", lambda path: None)
        shards.fold(data, made._number)
    made.add(*played.rows(20))
    with caplog.at_level(logging.WARNING, "rl.data"):
        made.close()
    assert "12 of its episodes are there twice" in caplog.messages[0]
    found, expected = read(tmp_path, exact=True), recorded(tmp_path / "whole", 40)
    assert len(found.lengths) == 12 + len(expected.lengths) and not stored.journals(data)
    assert [each["step"] for each in found.about[12:]] == [each["step"] for each in expected.about]


@pytest.mark.parametrize("left", ["nothing", "metadata", "main", "empty"])
def test_what_a_kill_left_of_a_new_data_set_is_as_if_nothing_were_there(tmp_path, monkeypatch, left):
    expected, data = recorded(tmp_path / "whole", 20), tmp_path / "new" / "data"
    with monkeypatch.context() as patch, pytest.raises(Unavailable):
        patch.setattr("rl.data.recorder.write_metadata", failing(None, [1]))
        if left == "metadata":
            patch.undo()
            patch.setattr(shards, "write_main", failing(None, [1]))
        recorder(tmp_path / "new").begin()
    assert sorted(os.listdir(data)) == (["metadata.json"] if left == "metadata" else [])
    if left in ("main", "empty"):  # what versions before this one left
        h5py.File(data / "main_data.hdf5", "w").close()
        if left == "empty":
            os.truncate(data / "main_data.hdf5", 0)
    assert_equal(recorded(tmp_path / "new", 20), expected)
    os.unlink(data / "metadata.json")
    with pytest.raises(UsageError, match=r"has main_data.hdf5 but no metadata.json"):
        recorder(tmp_path / "new")


@pytest.mark.parametrize("after", ["repair", "record and repair", "copy and repair"])
def test_a_kill_while_episodes_become_a_shard_doubles_none(tmp_path, monkeypatch, after):
    expected, data = recorded(tmp_path / "recorded", 20), tmp_path / "one" / "data"
    write(tmp_path / "one", expected)
    killed = recorder(tmp_path / "one", seed=1)
    killed.begin()
    killed.add(*Played().rows(20))
    with monkeypatch.context() as patch, pytest.raises(Unavailable):
        patch.setattr(shards, "write_main", failing(None, [1]))
        killed.close()
    assert len(read(tmp_path / "one").lengths) == 24
    if after == "record and repair":
        recorded(tmp_path / "one", 20, seed=2)
    elif after == "copy and repair":  # other files, of the same content
        recorded(tmp_path / "one", 20, seed=2)
        shutil.copy(data / "shard_000002.hdf5", data / "shard_000009.hdf5")
    count = 24 if after == "repair" else 36
    for _ in range(2):
        shards.repair(data)
        assert len(read(tmp_path / "one").lengths) == count
    assert read(tmp_path / "one").metadata["total_episodes"] == count


def test_a_look_for_damage_leaves_nothing_behind(tmp_path):
    write(tmp_path / "one", recorded(tmp_path / "recorded", 20))
    path = tmp_path / "one" / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    del metadata["total_steps"]  # by an author who does not count them
    path.write_text(json.dumps(metadata))
    assert shards.repair(tmp_path / "one" / "data") == []
    assert sorted(os.listdir(tmp_path / "one" / "data")) == ["main_data.hdf5", "metadata.json"]
    assert json.loads(path.read_text()) == metadata


def test_repair_leaves_alone_what_a_recording_that_goes_on_will_fold(tmp_path, monkeypatch):
    expected, played, made = recorded(tmp_path / "whole", 40), Played(), recorder(tmp_path / "live")
    made.begin()
    made.add(*played.rows(20))
    made.flush()
    with monkeypatch.context() as patch, pytest.raises(Unavailable):
        patch.setattr("rl.data.recorder.LARGE", 100)
        patch.setattr(shards, "link", failing(None, [1]))
        made.saved()
    assert shards.repair(tmp_path / "live" / "data") == []
    made.add(*played.rows(20))
    made.close()
    assert_equal(read(tmp_path / "live", exact=True), expected)


def test_more_shards_are_read_than_files_may_be_open(tmp_path, monkeypatch, caplog):
    for seed in range(16):
        expected = recorded(tmp_path / "many", 5, seed=seed)
    monkeypatch.setattr(stored, "OPEN", 4, raising=False)
    with caplog.at_level(logging.WARNING, "rl.data"), descriptors(10):
        assert_equal(read(tmp_path / "many", exact=True), expected)
        pieces = Pieces(tmp_path / "many")
        pieces.group(np.random.default_rng(0).permutation(len(pieces.lengths)), 10)
        lengths = [length for group in range(len(pieces.steps)) for length in pieces.read(group).lengths]
    pieces.close()
    assert sorted(lengths) == sorted(expected.lengths) and not caplog.messages


def shaky(call, failures, code=errno.EIO):
    """`call` as it is, but for its first `failures` calls, which fail as `code` says."""
    left = [code] * failures

    def failed(*words, **options):
        if left:
            code = left.pop()
            raise OSError(code, os.strerror(code))
        return call(*words, **options)

    return failed


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("place", ["rl.data.stored.checksum", "rl.data.hdf5._array", "h5py.File"])
def test_what_cannot_be_read_now_is_not_damaged(tmp_path, monkeypatch, caplog, place, code):
    monkeypatch.setattr("rl.storage.files.PAUSES", (0.0,))
    for seed in range(2):
        expected = recorded(tmp_path / "two", 10, seed=seed)
    count, call = len(expected.lengths), pkgutil.resolve_name(place)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "rl.data"):
        patch.setattr(place, shaky(call, 1, code))
        assert_equal(read(tmp_path / "two", exact=True), expected)
        patch.setattr(place, shaky(call, 1, code))
        pieces = Pieces(tmp_path / "two")
        assert len(pieces.lengths) == count
        pieces.group(np.arange(count), 5)
        patch.setattr(place, shaky(call, 1, code))
        pieces.read(0)
        patch.setattr(place, shaky(call, 1000, code))
        with pytest.raises(Unavailable, match=r"cannot read .*hdf5"):
            read(tmp_path / "two")
        if place != "rl.data.hdf5._array":
            with pytest.raises(Unavailable, match=r"cannot read .*hdf5"):
                Pieces(tmp_path / "two")
            with pytest.raises(Unavailable, match=r"cannot read .*hdf5"):
                shards.repair(tmp_path / "two" / "data")
    pieces.close()
    assert not [line for line in caplog.messages if "damaged" in line]
    assert_equal(read(tmp_path / "two", exact=True), expected)


@pytest.mark.parametrize("kind", ["itself", "shards"])
def test_a_descriptor_that_fails_within_hdf5_is_no_damage(tmp_path, monkeypatch, caplog, kind):
    monkeypatch.setattr("rl.storage.files.PAUSES", (0.0,))
    expected = recorded(tmp_path / "shards", 20)
    write(tmp_path / "itself", expected)
    reader = stored.Reader(tmp_path / kind / "data")
    reader.length(0)  # which opens its shard
    file = reader._main if kind == "itself" else next(iter(reader._files.values()))
    other = os.open(os.devnull, os.O_WRONLY)  # of which every read fails
    os.dup2(other, file.id.get_vfd_handle())
    os.close(other)
    with caplog.at_level(logging.WARNING, "rl.data"):
        if kind == "itself":
            for call in (reader.length, lambda i: reader.episode(i, *SPACES, False)):
                with pytest.raises(Unavailable, match=r"cannot read .*main_data.hdf5: Bad file descriptor"):
                    call(9)
        else:  # a shard is opened again
            assert [reader.length(i) for i in reader.numbers] == expected.lengths.tolist()
    assert caplog.messages and all(line.endswith("trying again") for line in caplog.messages)


def kinds(folder):
    """The readers of all that there is: each gives the lengths of the episodes, one at a time."""
    data = data_folder(folder)
    metadata = read_metadata(data)
    both = metadata["observation_space"], metadata["action_space"]
    return {
        "read": (each.length for each in stored_episodes(data, *both, metadata)),
        "tell": (each.length for each in played(data)),
    }


@pytest.mark.parametrize("kind", ["read", "tell"])
@pytest.mark.parametrize("when", ["after the first episode", "after the journals", "before the journals"])
def test_who_reads_while_a_recording_ends_has_each_episode_once(tmp_path, monkeypatch, kind, when):
    recorded(tmp_path, 20, seed=1)
    live, journals, ended = recorder(tmp_path), stored.journals, []
    live.begin()
    live.add(*Played().rows(20))
    live.flush()
    expected = sorted(read(tmp_path).lengths.tolist())

    def listed(data):
        if ended:
            return journals(data)
        ended.append(True)
        found = journals(data) if when == "after the journals" else None
        live.close()
        return journals(data) if found is None else found

    lengths = kinds(tmp_path)[kind]
    if when == "after the first episode":
        found = [next(lengths)]
        live.close()
        found += lengths
    else:
        monkeypatch.setattr(stored, "journals", listed)
        found = list(lengths)
    assert sorted(found) == expected


def test_a_folder_that_cannot_be_written_is_read_with_its_journals(tmp_path):
    live, data = recorder(tmp_path), tmp_path / "data"
    live.begin()
    live.add(*Played().rows(20))
    live.flush()
    before = {path: path.stat().st_mtime_ns for path in (data, *data.iterdir())}
    data.chmod(0o555)
    try:
        assert len(read(tmp_path).lengths) == 12
    finally:
        data.chmod(0o755)
    assert {path: path.stat().st_mtime_ns for path in (data, *data.iterdir())} == before
    live.close()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "place",
    ["rl.data.dataset.ensure_writable_dir", "rl.data.hdf5.write_episode", "rl.data.dataset.write_metadata"],
)
def test_of_two_that_write_one_data_set_the_second_is_refused(tmp_path, monkeypatch, place, force):
    one, other = recorded(tmp_path / "one", 10), recorded(tmp_path / "other", 20)
    if force:
        write(tmp_path / "target", one)
    call, begun = pkgutil.resolve_name(place), []

    def interrupted(*words):
        if not begun:  # the other one begins, and ends, while this one writes
            begun.append(True)
            write(tmp_path / "target", other, force=force)
        call(*words)

    monkeypatch.setattr(place, interrupted)
    with pytest.raises(UsageError, match=r"another process has written .*data meanwhile: name another"):
        write(tmp_path / "target", one, force=force)
    found = read(tmp_path / "target", exact=True)
    assert_equal(found, other)
    assert found.metadata["total_episodes"] == len(other.lengths)
    assert os.listdir(tmp_path / "target") == ["data"]


KILLED = """
import os, sys
from rl.data import dataset
dataset.write_metadata = lambda *_: os.kill(os.getpid(), 9)
dataset.write(sys.argv[2], dataset.read(sys.argv[1]))
"""


def test_what_killed_writers_left_is_removed_by_the_next_one(tmp_path):
    one = recorded(tmp_path / "one", 10)
    paths = tmp_path / "one", tmp_path / "target"
    assert subprocess.run([sys.executable, "-c", KILLED, *map(str, paths)], cwd=ROOT).returncode == -9
    (left,) = os.listdir(tmp_path / "target")
    assert left != "data"
    write(tmp_path / "target", one)
    assert os.listdir(tmp_path / "target") == ["data"]
