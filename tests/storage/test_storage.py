"""Who may train in a local folder."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from rl.errors import Unavailable, UsageError
from rl.storage import storage
from rl.storage.storage import storage_at, storages_of


def hold(folder, told):
    """Trains in a folder until it is killed."""
    with storage_at(folder).to_train():
        told.send("trains")
        time.sleep(600)


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(storage, "PATIENCE", 0.0)


def made(folder):
    """A run, as far as can be told from its files' names."""
    folder.mkdir(parents=True)
    (folder / "hparams.json").write_text("{}")
    return folder


def found(output_dir, copies):
    return {copy: each.folder for copy, each in storages_of(output_dir, copies).items()}


def test_an_output_folder_has_a_run_for_each_copy(tmp_path):
    expected = {1: tmp_path / "run_1", 2: tmp_path / "run_2"}
    assert found(tmp_path, [1, 2]) == expected
    made(tmp_path / "run_0")
    assert found(tmp_path, [1, 2]) == found(f"{tmp_path}/", range(1, 3)) == expected


def test_a_run_is_found_by_its_own_path_too(tmp_path):
    run = made(tmp_path / "run_2")
    assert found(run, [0]) == found(f"{run}/", [0]) == {2: run}
    (one,) = storages_of(str(run), [0]).values()
    assert (one.address, one.parent) == (str(run), str(tmp_path))
    alone = made(tmp_path / "alone")
    assert found(alone, [0]) == {0: alone}
    with pytest.raises(UsageError, match="run_2 is one run: with --copies name the folder that it is in"):
        storages_of(run, range(2))


def test_an_empty_output_folder_is_not_the_root_of_the_disk():
    with pytest.raises(UsageError, match="output_dir is empty: name a folder"):
        storages_of("", [0])


def test_a_run_that_holds_runs_is_an_output_folder(tmp_path):
    made(tmp_path / "run_0")
    inside = made(tmp_path / "run_0" / "run_0")
    assert found(tmp_path / "run_0", range(2)) == {0: inside, 1: inside.parent / "run_1"}


def test_a_second_trainer_of_a_folder_is_refused_until_the_first_is_gone(tmp_path):
    forked = multiprocessing.get_context("fork")  # in no time: a new process would import TensorFlow
    heard, told = forked.Pipe(False)
    holder = forked.Process(target=hold, args=(tmp_path, told), daemon=True)
    holder.start()
    assert heard.poll(60.0) and heard.recv() == "trains"
    refused = pytest.raises(Unavailable, match="another process trains in")  # which may pass
    with refused, storage_at(tmp_path).to_train():
        pass
    with storage_at(tmp_path).to_read():  # testing and loading may go on
        pass
    holder.kill()
    holder.join()
    with storage_at(tmp_path).to_train():
        pass


def test_a_folder_that_begins_is_held_from_its_first_file_on(tmp_path):
    folder = tmp_path / "run_0"
    first, second = storage_at(folder), storage_at(folder)
    with first.to_train(), second.to_train():
        folder.mkdir()
        first.begin()
        with pytest.raises(Unavailable, match="another process trains in"):
            second.begin()
    with storage_at(folder).to_train():
        pass


def test_a_run_that_another_process_has_made_meanwhile_is_not_begun_anew(tmp_path):
    late = storage_at(tmp_path / "run_0")
    with late.to_train():  # nothing is there
        made(tmp_path / "run_0")  # by one that has ended since
        with pytest.raises(Unavailable, match=r"another process has trained in .*run_0 meanwhile"):
            late.begin()
