"""Recording: what a crash takes, what a resumed run goes on with, what is damaged."""

import errno
import fcntl
import logging
import multiprocessing
import os

import numpy as np
import pytest
from gymnasium import spaces
from played import assert_equal
from recordings import SPACES, Played, recorded, recorder

from rl.data import journal, shards, stored
from rl.data.__main__ import main
from rl.data.dataset import Dataset, read, write
from rl.errors import Unavailable, UsageError


def test_whole_episodes_are_recorded_however_they_are_cut_into_rollouts(tmp_path):
    found = recorded(tmp_path / "a", 40)
    # Environments 0, 1 and 2 have episodes of 3, 4 and 5 steps, and a reset after each: 10, 8 and 6 of them
    # in 40 steps; the last one of environment 2 is over at step 35, the next one runs.
    assert sorted(found.lengths.tolist()) == [3] * 10 + [4] * 8 + [5] * 6
    assert (found.observation[:, 1] <= 5).all() and len(found.observation) == found.lengths.sum() + 24
    for episode in found.episodes():
        assert (episode.observation[:, 1] == np.arange(episode.length + 1)).all()  # the true last one too
        assert episode.terminated[-1] != episode.truncated[-1]
        assert episode.terminated[-1] == (episode.length % 2 == 1)
        assert not episode.terminated[:-1].any() and not episode.truncated[:-1].any()
        assert episode.about["return"] == episode.reward.sum(dtype=np.float64)
        assert episode.about["policy"] == 0
    steps = [each["step"] for each in found.about]
    assert steps == sorted(steps) and steps[0] == 9
    assert found.metadata["policies"] == [{"hparams": "mine", "seed": 0}] and found.env_id == "My-v0"
    assert (found.observation_space, found.action_space) == SPACES
    assert_equal(recorded(tmp_path / "b", *[1] * 40), found)
    assert_equal(recorded(tmp_path / "c", 7, 1, 20, 12), found)


def test_a_killed_recording_loses_its_running_episodes_alone(tmp_path):
    expected = recorded(tmp_path / "whole", 23)
    killed, played = recorder(tmp_path / "killed", owner=""), Played()
    killed.begin()
    for _ in range(23):
        killed.add(*played.rows(1))
    killed.abandon()  # what is left of it when its process dies
    assert_equal(read(tmp_path / "killed", exact=True), expected)
    with recorder(tmp_path / "killed", owner="", seed=1) as again:  # another one makes it Minari's
        again.begin()
        assert stored.journals(tmp_path / "killed" / "data") == [again._journal.path]
        assert len(read(tmp_path / "killed").lengths) == len(expected.lengths)
        again.add(*Played().rows(5))
    found = read(tmp_path / "killed", exact=True)
    assert len(found.lengths) == len(expected.lengths) + 3
    assert found.metadata["total_episodes"] == len(found.lengths)
    assert found.metadata["total_steps"] == found.lengths.sum()
    assert stored.journals(tmp_path / "killed" / "data") == []


def test_what_is_flushed_is_on_disk_and_all_else_before_it_has_its_name(tmp_path, disk_log):
    made = recorder(tmp_path)
    made.begin()
    made.add(*Played().rows(5))
    made.flush()
    (path,) = stored.journals(tmp_path / "data")
    assert disk_log[-1] == (path, path.stat().st_size)
    made.close()
    renamed = [(i, old) for i, (old, new) in enumerate(disk_log) if isinstance(new, type(path))]
    assert len(renamed) > 2 and all(old in dict(disk_log[:i]) for i, old in renamed)


@pytest.mark.parametrize("clean", [False, True])
def test_a_resumed_run_records_what_it_would_have_recorded(tmp_path, clean):
    expected = recorded(tmp_path / "whole", 16, 20)
    folder, played = tmp_path / "resumed", Played()
    first = recorder(folder)
    first.begin()
    first.add(*played.rows(16))
    first.flush()  # here is the checkpoint
    if clean:
        first.close(go_on=True)
        assert len(read(folder).lengths) > 0 and stored.listed(folder / "data")
    else:
        rest = Played()
        rest.rows(16)
        first.add(*rest.rows(9))
        first.abandon()
    second = recorder(folder)
    second.begin(step=48)
    second.add(*played.rows(20))
    second.close()
    assert_equal(read(folder, exact=True), expected)
    assert stored.journals(folder / "data") == []


def test_a_run_without_its_checkpoint_begins_its_recording_again(tmp_path):
    expected = recorded(tmp_path / "whole", 30)
    first, played = recorder(tmp_path / "again"), Played()
    first.begin()
    first.add(*played.rows(17))
    first.abandon()
    assert_equal(recorded(tmp_path / "again", 30), expected)
    other = recorded(tmp_path / "again", 30, seed=1)  # another run in the same place
    assert len(other.lengths) == 2 * len(expected.lengths)
    assert [each["policy"] for each in other.about] == [0] * 18 + [1] * 18


def test_rows_before_a_known_beginning_are_no_episodes(tmp_path):
    played = Played()
    played.rows(4)
    with recorder(tmp_path) as made:
        made.begin(step=12)
        made.add(*played.rows(8))
    found = read(tmp_path, exact=True)
    assert (found.observation[found.starts + np.arange(len(found.starts)), 1] == 0).all()
    assert sorted(found.lengths.tolist()) == [3, 4, 5]


def test_a_damaged_journal_costs_what_is_damaged(tmp_path, caplog):
    made, played = recorder(tmp_path), Played()
    made.begin()
    for _ in range(3):
        made.add(*played.rows(10))
    made.abandon()
    whole = read(tmp_path, exact=True)
    (path,) = stored.journals(tmp_path / "data")
    ends = [each.end for each in journal.records(path)]
    content = path.read_bytes()
    with caplog.at_level(logging.WARNING, "rl.data"):
        path.write_bytes(content[: ends[2] + 50])  # torn
        assert len(read(tmp_path).lengths) == sum(each["step"] <= 60 for each in whole.about)
        assert caplog.messages == [f"{path} is damaged: its bytes {ends[2]} to {ends[2] + 50} are left out"]
        caplog.clear()
        middle = bytearray(content)
        middle[ends[1] + 200] ^= 1
        path.write_bytes(middle)
        found = read(tmp_path)
        assert caplog.messages == [f"{path} is damaged: its bytes {ends[1]} to {ends[2]} are left out"]
    steps = [each["step"] for each in found.about]
    assert steps and not any(30 < each <= 60 for each in steps)
    for episode in found.episodes():
        assert (episode.observation[:, 1] == np.arange(episode.length + 1)).all()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (journal.ROWS, {"observations": "x"}),
        (journal.ROWS, {"step": "x"}),
        (journal.ROWS, {"agents": 0}),
        (journal.ROWS, {"arrays": []}),
        (journal.ROWS, {"observations": 2}),
        (journal.RUNNING, {"counts": 3}),
        (journal.RUNNING, {"pieces": [5]}),
    ],
)
def test_a_record_of_other_contents_is_left_out(tmp_path, caplog, kind, change):
    """Its CRC-32 is right: somebody else wrote it."""
    made, played = recorder(tmp_path), Played()
    made.begin()
    made.add(*played.rows(10))
    made.abandon()
    whole = len(read(tmp_path).lengths)
    (path,) = stored.journals(tmp_path / "data")
    found = next(each for each in journal.records(path) if each.kind == journal.ROWS)
    about = found.about | {"counts": [1, 1], "pieces": []} | change
    more = journal.Journal(path, path.stat().st_size)
    more.append(kind, about, [] if "arrays" in change else found.arrays)
    more.close()
    assert journal.until(path, 10**6) is not None
    with caplog.at_level(logging.WARNING, "rl.data"):
        assert len(read(tmp_path).lengths) == whole
        assert main(["repair", str(tmp_path)]) == 0
        assert len(read(tmp_path).lengths) == whole
    assert caplog.messages and all("left out" in each for each in caplog.messages)


def test_a_file_system_without_locks_is_recorded_to(tmp_path, monkeypatch):
    def without(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    expected = recorded(tmp_path / "locked", 20)
    monkeypatch.setattr(fcntl, "flock", without)
    assert_equal(recorded(tmp_path / "not", 20), expected)


def test_a_damaged_shard_is_left_out_with_one_line_and_repaired(tmp_path, caplog):
    data = tmp_path / "data"
    for seed in range(3):
        found = recorded(tmp_path, 20, owner="", seed=seed)
    each = len(found.lengths) // 3
    shard = stored.shard_files(data)[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with caplog.at_level(logging.WARNING, "rl.data"):
        found = read(tmp_path)
    assert caplog.messages == [f"{shard} is damaged and left out: its CRC-32 is another one"]
    assert [about["policy"] for about in found.about] == [0] * each + [2] * each
    assert shards.repair(data) == [f"{shard.name} is damaged and left out: its CRC-32 is another one"]
    assert read(tmp_path).metadata["total_episodes"] == 2 * each
    (data / "main_data.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(UsageError, match="repair"):
        read(tmp_path)
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    assert len(shards.repair(data)) == 4
    assert len(read(tmp_path).lengths) == 3 * each


def test_recording_goes_on_in_a_data_set_that_was_written_at_once(tmp_path):
    data = recorded(tmp_path / "recorded", 30)
    write(tmp_path / "one", data)
    assert [each.name for each in sorted((tmp_path / "one" / "data").iterdir())] == [
        "main_data.hdf5",
        "metadata.json",
    ]
    both = recorded(tmp_path / "one", 30)
    episodes = [each._replace(about={}) for each in (*data.episodes(), *data.episodes())]
    assert_equal(both, Dataset.of(episodes, *SPACES))
    assert both.metadata["total_episodes"] == len(episodes)


def test_minari_reads_what_was_recorded(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    for seed in range(2):
        found = recorded(tmp_path / "mine", 20, seed=seed)
    theirs = minari.MinariDataset(tmp_path / "mine" / "data")
    assert theirs.total_episodes == len(found.lengths) and theirs.total_steps == found.lengths.sum()
    for one, other in zip(theirs.iterate_episodes(), found.episodes(), strict=True):
        assert one.observations.tobytes() == other.observation.tobytes()
        assert one.actions.tobytes() == other.action.tobytes()
    assert next(iter(theirs.storage.get_episode_metadata([0])))["return"] == found.about[0]["return"]


def test_two_recordings_share_a_data_set(tmp_path):
    one, other = recorder(tmp_path, owner="one"), recorder(tmp_path, owner="other")
    one.begin()
    other.begin()
    one.add(*Played().rows(20))
    other.add(*Played().rows(20))
    assert len(read(tmp_path).lengths) == 2 * 12
    one.close()
    other.close()
    assert len(read(tmp_path).lengths) == 2 * 12


def test_a_large_journal_becomes_a_shard_while_the_recording_goes_on(tmp_path, monkeypatch):
    expected = recorded(tmp_path / "whole", 40)
    monkeypatch.setattr("rl.data.recorder.LARGE", 100)
    played = Played()
    with recorder(tmp_path / "large") as made:
        made.begin()
        for _ in range(4):
            made.add(*played.rows(10))
            made.flush()
            made.saved()
        assert len(stored.listed(tmp_path / "large" / "data")) == 4
    assert_equal(read(tmp_path / "large", exact=True), expected)


def test_a_full_disk_spoils_nothing_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("rl.storage.files.PAUSES", (0.0,))
    played, made = Played(), recorder(tmp_path)
    made.begin()
    made.add(*played.rows(20))
    before = read(tmp_path, exact=True)
    real = os.write

    def half(descriptor, content):
        real(descriptor, bytes(content)[:40])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(Unavailable, match="No space left"):
        patch.setattr(os, "write", half)
        made.add(*played.rows(20))
    assert_equal(read(tmp_path, exact=True), before)
    with monkeypatch.context() as patch, pytest.raises(Unavailable, match="No space left"):
        patch.setattr(os, "statvfs", lambda _: os.statvfs_result([1] * 10))
        made.close()
    assert len(read(tmp_path).lengths) == 24
    again = recorder(tmp_path)
    again.begin(step=60)
    again.close()
    assert_equal(read(tmp_path, exact=True), before)


def test_a_full_disk_while_a_journal_becomes_a_shard_loses_nothing(tmp_path, monkeypatch):
    expected = recorded(tmp_path / "whole", 30)
    monkeypatch.setattr("rl.data.recorder.LARGE", 100)
    played, made = Played(), recorder(tmp_path / "full")
    made.begin()
    made.add(*played.rows(10))
    made.flush()

    def full(*_):
        raise Unavailable("no space left")

    with monkeypatch.context() as patch, pytest.raises(Unavailable):
        patch.setattr(shards, "link", full)
        made.saved()
    made.add(*played.rows(10))
    made.flush()
    made.saved()  # there is room again
    made.abandon()  # killed
    again = recorder(tmp_path / "full")
    again.begin(step=60)
    again.add(*played.rows(10))
    again.close()
    assert_equal(read(tmp_path / "full", exact=True), expected)


def test_what_a_killed_recording_left_is_not_there_twice_when_the_same_is_played_again(tmp_path):
    expected = recorded(tmp_path / "whole", 23, owner="")
    killed = recorder(tmp_path / "killed", owner="")
    killed.begin()
    killed.add(*Played().rows(11))
    killed.abandon()
    assert_equal(recorded(tmp_path / "killed", 23, owner=""), expected)


def test_what_is_played_once_more_is_recorded_once(tmp_path):
    once, played = recorded(tmp_path / "once", 20, owner=""), Played()
    with recorder(tmp_path / "twice", owner="") as made:
        made.begin()
        made.add(*Played().rows(13))  # of which episodes have ended, and others not
        made.start_over()
        made.add(*played.rows(20))
    assert_equal(read(tmp_path / "twice", exact=True), once)


def test_another_environments_data_set_is_refused_before_anything_is_written(tmp_path):
    recorded(tmp_path, 20)
    names = sorted(os.listdir(tmp_path / "data"))
    with pytest.raises(UsageError, match=r"holds episodes of My-v0, not of Other-v0"):
        recorder(tmp_path, env="Other-v0")
    with pytest.raises(UsageError, match="not of My-v0 as it is here"):
        recorder(tmp_path, space=(SPACES[0], spaces.Discrete(4)))
    for options in ({"env_kwargs": {"g": 1.0}}, {"train_env_kwargs": {"g": 1.0}}):
        with pytest.raises(UsageError, match=r"with {'env_kwargs': {}}, not with {'env_kwargs': {'g': 1.0}}"):
            recorder(tmp_path, **options)
    with pytest.raises(UsageError, match="holds a data set's own files: name the folder it is in"):
        recorder(tmp_path / "data")
    recorder(tmp_path, env_kwargs={}, env_wrappers=[])
    assert sorted(os.listdir(tmp_path / "data")) == names


def test_actions_beyond_their_bounds_are_recorded_as_the_environment_takes_them(tmp_path):
    space = SPACES[0], spaces.Box(-1.0, 1.0, (1,), np.float32)
    rows = list(Played().rows(5))
    rows[2] = np.linspace(-3, 3, 15, dtype=np.float32).reshape(5, 3, 1)
    with recorder(tmp_path, space=space) as made:
        made.begin()
        made.add(*rows)
    action = read(tmp_path).action
    assert action.min() == -1.0 and 0.0 <= action.max() <= 1.0


def record_without_end(folder, told):
    """Says after each part which step it has come to."""
    played, made = Played(), recorder(folder)
    made.begin()
    while True:
        made.add(*played.rows(5))
        told.send(played.step)


def test_a_process_that_is_killed_has_recorded_what_was_over(tmp_path):
    forked = multiprocessing.get_context("fork")  # in no time: a new process would import TensorFlow
    heard, told = forked.Pipe(False)
    process = forked.Process(target=record_without_end, args=(tmp_path / "killed", told), daemon=True)
    process.start()
    for _ in range(200):
        assert heard.poll(60.0)
        step = heard.recv()
    process.kill()
    process.join()
    found, expected = read(tmp_path / "killed", exact=True), recorded(tmp_path / "whole", step // 3)
    count = len(expected.lengths)
    assert len(found.lengths) >= count
    assert found.reward[: len(expected.reward)].tobytes() == expected.reward.tobytes()
    with recorder(tmp_path / "killed") as again:  # the same run, without a checkpoint
        again.begin()
        again.add(*Played().rows(step // 3))
    assert_equal(read(tmp_path / "killed", exact=True), expected)
