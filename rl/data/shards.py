"""Shards: one file of episodes for each recording of a data set; `main_data.hdf5` links to their episodes.

So appending rewrites no file with episodes. First the shard is written completely, then main_data.hdf5, which
is small, is rewritten and renamed into its place: at that moment the new episodes become part of the data
set.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces

from rl.data import hdf5, journal
from rl.data.hdf5 import GROUP, Episode
from rl.data.metadata import MAIN, METADATA, read_metadata, totals, write_metadata
from rl.data.rows import Assembler, Whole
from rl.data.spaces import nest_of, parts
from rl.data.stored import (
    ENTRY,
    Shard,
    is_folded,
    journal_path,
    journals,
    listed,
    listed_in,
    next_number,
    number_of,
    numbers_in,
    opened,
    reading,
    shard_files,
    shard_path,
    trouble_of,
)
from rl.errors import UsageError
from rl.storage.files import checksum, failure, fsync_path, patiently, reason, remove_quietly, set_aside

_log = logging.getLogger("rl.data")


def fold(data: Path, number: int, go_on: bool = False) -> journal.Journal | None:
    """Turns a journal into a shard, links its episodes in main_data.hdf5, and removes the journal. The caller
    must hold the folder's lock.

    go_on: whether to start a new journal with the episodes that are still running at the end.

    Returns:
        The new journal, open; None if there is none. Once main_data.hdf5 has the episodes, errors are no
        longer raised: a caller that continued the old journal would record into one that is a shard already.

    Raises:
        UsageError: a file cannot be written (Unavailable if that may be temporary); nothing has changed.
    """
    number = _number_of_its_own(data, number)
    path, shard = journal_path(data, number), shard_path(data, number)
    following = None
    if not is_folded(data, number):
        _check_room(data, path)
        head, assembler = journal.head(path), Assembler()
        metadata, index = _with_policy(data, head.get("policy"))
        spaces_of = metadata["observation_space"], metadata["action_space"]
        written = write_shard(shard, journal.episodes(path, assembler), *spaces_of, index)
        if go_on:
            following = _carry(head, assembler, journal_path(data, next_number(data)))
        try:
            if written is not None:
                link(data, {shard.name: written})
        except BaseException as error:
            folded = _is_surely_folded(data, number)
            if folded and isinstance(error, Exception):  # perhaps not durable: the old journal stays as well
                _log.warning("%s has the episodes of %s, but %s", data / MAIN, path.name, error)
                return following
            if following is not None:
                following.close()
                if not folded:  # the old journal goes on, and has all that the new one has
                    remove_quietly(following.path)
            raise
    remove_quietly(path)
    return following


def _number_of_its_own(data: Path, number: int) -> int:
    """Returns the number of a journal. A journal that was continued after it had become a shard is renamed to
    a new number: its earlier episodes are then in the data set twice, but none is lost. Raises as `fold`."""
    path, known = journal_path(data, number), listed(data).get(shard_path(data, number).name)
    if known is None or sum(1 for _ in journal.episodes(path)) <= known.episodes:
        return number
    other = next_number(data)
    patiently(lambda: os.rename(path, journal_path(data, other)), f"cannot rename {path}")
    _log.warning(
        "%s went on after it had become a shard: %d of its episodes are there twice", path, known.episodes
    )
    return other


def _is_surely_folded(data: Path, number: int) -> bool:
    try:
        return is_folded(data, number)
    except UsageError:
        return False


def _check_room(data: Path, path: Path) -> None:
    """Raises Unavailable where a shard as large as its journal would not fit, which HDF5 does not take
    well."""
    found = os.statvfs(data)
    if found.f_bavail * found.f_frsize < path.stat().st_size:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise failure(f"cannot write in {data}: {reason(full)}; {path.name} keeps the episodes", full)


def _with_policy(data: Path, policy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the metadata with that policy in its list, and the attributes that episodes of the policy
    get."""
    metadata = read_metadata(data)
    if not isinstance(policy, dict):  # none, or a stranger's
        return metadata, {}
    policies = metadata.setdefault("policies", [])
    if policy not in policies:
        policies.append(policy)
        write_metadata(data, metadata)
    return metadata, {"policy": policies.index(policy)}


def _carry(head: dict[str, Any], assembler: Assembler, path: Path) -> journal.Journal:
    temporary = path.with_name(f".tmp-{path.name}")
    remove_quietly(temporary)
    following = journal.Journal(temporary)
    try:
        following.append(journal.HEAD, head)
        if assembler.step is not None:
            following.append_running(assembler)
        following.sync()
        os.rename(temporary, path)
    except BaseException:
        following.close()
        remove_quietly(temporary)
        raise
    following.path = path
    return following


def write_shard(
    path: Path,
    whole: Iterator[Whole],
    observations: spaces.Space,
    actions: spaces.Space,
    about: dict[str, Any],
) -> Shard | None:
    """Writes a shard atomically and returns it; None if there was no episode.

    about: attributes of all its episodes.
    """
    temporary = path.with_name(f".tmp-{path.name}")
    episodes = steps = 0
    try:
        with h5py.File(temporary, "w", libver=hdf5.FORMAT) as file:
            for each in whole:
                episode = fitting(path, each, observations, actions, about)
                if episode is None:
                    continue
                hdf5.write_episode(file, episodes, episode, observations, actions)
                episodes, steps = episodes + 1, steps + episode.length
        if not episodes:
            return None
        fsync_path(temporary)
        found = Shard(temporary.stat().st_size, checksum(temporary), episodes, steps)
        os.rename(temporary, path)
        return found
    except (OSError, RuntimeError) as error:  # h5py's own for a full disk
        raise unwritten(path, error) from error
    finally:
        remove_quietly(temporary)


def episode_of(
    whole: Whole, observations: spaces.Space, actions: spaces.Space, about: dict[str, Any]
) -> Episode:
    """Returns an episode of a journal in the dtypes of its spaces, with what is known of it.

    Raises:
        ValueError: it does not fit them.
    """

    def nest(space: spaces.Space, columns: Any) -> Any:
        pairs = list(zip(parts(space), columns, strict=True))
        if any(values.shape[1:] != each.shape for (_, each), values in pairs):
            raise ValueError(f"shapes {[list(values.shape[1:]) for values in columns]}, not of {space}")
        return nest_of(space, (values.astype(each.dtype, copy=False) for (_, each), values in pairs))

    columns, total = whole.episode, float(whole.episode.reward.sum(dtype=np.float64))
    count = len(list(parts(actions)))
    return columns._replace(
        observation=nest(observations, columns.observation),
        action=nest(actions, columns.action[:count]),
        about={**about, "step": whole.step, "return": total},
        log_prob=columns.action[count] if len(columns.action) > count else None,
    )


def fitting(
    path: Path, whole: Whole, observations: spaces.Space, actions: spaces.Space, about: dict[str, Any]
) -> Episode | None:
    """Returns `episode_of`; None where it does not fit its spaces, of which one line warns.

    path: what the warning names.
    """
    try:
        return episode_of(whole, observations, actions, about)
    except ValueError as error:
        _log.warning("%s: an episode of a journal is left out: %s", path, error)
        return None


def link(data: Path, new: dict[str, Shard]) -> None:
    """Links the episodes of shards in main_data.hdf5, and updates the counts in the metadata (a failure to do
    that is one warning).

    Episodes that are stored in main_data.hdf5 itself are moved to a shard first.

    Raises:
        UsageError: it cannot be written (Unavailable where that may pass).
    """
    shards, links = _links(data)
    for name, shard in new.items():
        shards[name] = shard
        links += [(name, f"/{GROUP}{i}") for i in range(shard.episodes)]
    write_main(data, shards, links)


def _links(data: Path) -> tuple[dict[str, Shard], list[tuple[str, str]]]:
    """Returns the shards, and for each episode its shard and its place in it."""
    if not (data / MAIN).exists():
        return {}, []
    with opened(data / MAIN) as main:
        shards, links, inside = listed_in(main), [], []
        for i in numbers_in(main):
            found = reading(data / MAIN, partial(main.get, f"{GROUP}{i}", getlink=True))
            if isinstance(found, h5py.ExternalLink):
                links.append((found.filename, found.path))
            else:
                inside.append(i)
    if not inside:
        return shards, links
    own = _second_name(data)
    if own is None:
        path = own = shard_path(data, next_number(data))
        patiently(lambda: os.link(data / MAIN, path), f"cannot write {own}")
    metadata = read_metadata(data)
    counts = int(metadata.get("total_episodes", 0)), int(metadata.get("total_steps", 0))
    shards[own.name] = Shard(own.stat().st_size, checksum(own), *counts)
    return shards, [(own.name, f"/{GROUP}{i}") for i in inside] + links


def _second_name(data: Path) -> Path | None:
    """Returns the shard that is the same file as main_data.hdf5, which a crash may leave; None if there is
    none."""
    return next((path for path in shard_files(data) if os.path.samefile(path, data / MAIN)), None)


def write_main(data: Path, shards: dict[str, Shard], links: list[tuple[str, str]]) -> None:
    """Writes main_data.hdf5 anew, at once or not at all, and counts. Hold the folder's lock.

    links: for each episode its shard and its place in it.

    Raises:
        UsageError: it cannot be written (Unavailable where that may pass).
    """
    temporary = data / f".tmp-{MAIN}"
    try:
        with h5py.File(temporary, "w", libver=hdf5.FORMAT) as file:
            file.attrs[ENTRY] = json.dumps(shards)
            for i, (name, place) in enumerate(links):
                file[f"{GROUP}{i}"] = h5py.ExternalLink(name, place)
        fsync_path(temporary)
        os.replace(temporary, data / MAIN)
        fsync_path(data)
    except (OSError, RuntimeError) as error:
        raise unwritten(data / MAIN, error) from error
    finally:
        remove_quietly(temporary)
    try:
        _count(data, *_counts(shards, links))
    except (OSError, UsageError) as error:
        # The episodes are there: whoever adds to them, or repairs, counts them again.
        _log.warning("%s does not count the episodes that are there: %s", data / METADATA, error)


def _counts(shards: dict[str, Shard], links: list[tuple[str, str]]) -> tuple[int, int]:
    """Returns the episodes and their steps."""
    return len(links), sum(each.steps for each in shards.values())


def _count(data: Path, episodes: int, steps: int) -> None:
    write_metadata(data, {**read_metadata(data), **totals(episodes, steps, data)})


def repair(data: Path) -> list[str]:
    """Repairs a data set from its files: journals whose writers have died become shards, damaged shards are
    unlinked, and intact shards that are not linked are added. The caller must hold the folder's lock.

    Returns:
        A line for each change.

    Raises:
        UsageError: it cannot be read or written.
    """
    done = []
    trouble = trouble_of(data / MAIN, None) if (data / MAIN).exists() else ""
    if trouble:
        set_aside(data / MAIN)
        done.append(f"{MAIN} is damaged and set aside: {trouble}")
    for path in journals(data):
        if not journal.is_open(path):
            fold(data, number_of(path))
            done.append(f"{path.name}: its episodes are part of the data set, as for all who read it")
    known, links = _links(data)
    troubles = {name: trouble_of(data / name, shard) for name, shard in known.items()}
    # A file of the same content as a sound one is another name, or a copy, of it.
    sound = {(shard.size, shard.crc) for name, shard in known.items() if not troubles[name]}
    lost = [path for path in shard_files(data) if path.name not in known and not trouble_of(path, None)]
    lost = [path for path in lost if (path.stat().st_size, checksum(path)) not in sound]
    # What is left of a fold that failed is in the journal, which goes on.
    lost = [path for path in lost if not journal_path(data, number_of(path)).exists()]
    if not lost and not any(troubles.values()):
        second = _second_name(data) if (data / MAIN).exists() else None
        if second is None:
            return done + _counted_again(data, *_counts(known, links))
        remove_quietly(second)  # main_data.hdf5 holds the episodes itself, whose author counted them
        return done
    done += [f"{name} is damaged and left out: {trouble}" for name, trouble in troubles.items() if trouble]
    done += [f"{path.name}: its episodes are part of the data set again" for path in lost]
    kept = {name: shard for name, shard in known.items() if not troubles[name]}
    links = [each for each in links if each[0] in kept]
    for path in lost:
        kept[path.name], places = _as_found(path)
        links += [(path.name, place) for place in places]
    write_main(data, kept, links)
    return done


def _counted_again(data: Path, episodes: int, steps: int) -> list[str]:
    """Corrects the counts in the metadata if they are wrong; returns a line for that."""
    metadata = read_metadata(data)
    if (metadata.get("total_episodes"), metadata.get("total_steps")) == (episodes, steps):
        return []
    _count(data, episodes, steps)
    return [f"{METADATA} counts the {episodes:,} episodes again"]


def _as_found(path: Path) -> tuple[Shard, list[str]]:
    """Returns a shard's size, checksum and counts, and the names of its episodes."""
    with opened(path) as file:
        found = numbers_in(file)
        steps = sum(len(file[f"{GROUP}{i}/rewards"]) for i in found)
    return Shard(path.stat().st_size, checksum(path), len(found), steps), [f"/{GROUP}{i}" for i in found]


def unwritten(path: Path, error: Exception) -> UsageError:
    """Returns the exception to raise for a failed write; HDF5 reports a full disk only as text."""
    full = "No space left" in str(error)
    cause = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else error
    return failure(f"cannot write {path}: {reason(cause)}", cause)
