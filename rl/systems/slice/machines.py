"""What keeps the machines of a TPU slice together while one program, on machine 0, computes on all of them.

All machines run the same command. On each of them this process becomes a keeper, which has a server of the
machine's cores (`host_server`). On machine 0 it waits for the others, then starts the program, a fork of
itself, and tells the others what it ended with: that is the exit code of all. A machine that is lost ends
all, with `AGAIN`: the program can only go on from its last checkpoint, on all machines.

SIGTERM on any machine asks the program to stop, which saves; until it has, that machine serves. So the notice
that one machine is going to be taken away, which the others do not get, costs nothing that was learned.

Whoever reaches the ports of a machine can run anything there: they are for a network of one's own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from rl.errors import AGAIN, MachineLost, UsageError
from rl.signals import StopRequest, end_with_parent
from rl.systems.slice.hosts import ENDPOINTS, PORTS, Hosts, server_environment
from rl.systems.slice.links import Link, heard

ROOT = Path(__file__).resolve().parents[3]  # where the package rl is
SERVER = "rl.systems.slice.host_server"
WAIT = 600.0  # seconds that machines may come one after the other: nodes are made, images are pulled
START = 300.0  # seconds that a server may take to start: it loads TensorFlow and libtpu
REMIND = 30.0  # seconds between two lines on who is waited for
HELLO = 5.0  # seconds that a machine may take to connect and be answered
POLL = 0.5  # seconds between two looks at processes and at requests to stop
SETTLE = 2.0  # seconds in which a machine may turn out to be lost, where the program has failed
_ASKED_FOR = (0, *(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)))


class _Stopped(Exception):
    """Raised where a stop is asked for before there is a program."""


def together(hosts: Hosts, environment: dict[str, str]) -> int | None:
    """Returns None in the program, on machine 0, once all servers are there; elsewhere, once the program has
    ended, its exit code (128 + signal where a signal ended it).

    environment: of this machine's server, but for what `server_environment` adds.

    To be called before TensorFlow and threads of any kind have started.

    Raises:
        UsageError: a port is taken.
        MachineLost: another machine or this one's server did not come in time, or is gone.
    """
    with StopRequest(announce=False) as stop:
        code = _kept(hosts, environment, stop)
    if code is None and stop.signal is not None:  # it came between the fork and the end of `with`
        signal.raise_signal(stop.signal)
    return code


def _kept(hosts: Hosts, environment: dict[str, str], stop: StopRequest) -> int | None:
    with contextlib.ExitStack() as ours:
        server = _Server(hosts, environment)
        ours.callback(server.close)
        keeper = _First(hosts, server, stop) if hosts.place == 0 else _Other(hosts, server, stop)
        ours.callback(keeper.close)
        try:
            code = keeper.run()
        except _Stopped:
            code = stop.exit_code or 128 + signal.SIGTERM
        except MachineLost:
            keeper.tell(AGAIN)
            raise
        if code is None:
            ours.pop_all()  # all of it is the keeper's, not the program's
        else:
            keeper.tell(code)
        return code


class _Server:
    """Starts the process that has this machine's cores, and looks after it.

    Attributes:
        port: that it serves on; None until it does.
    """

    def __init__(self, hosts: Hosts, environment: dict[str, str]):
        path = [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        environment = server_environment(hosts, environment) | {"PYTHONPATH": os.pathsep.join(path)}
        command = [sys.executable, "-m", SERVER, str(os.getpid()), str(hosts.server_port)]
        # A group of its own: a key on the terminal is the keeper's to answer.
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, process_group=0
        )
        self._begun = time.monotonic()
        self.port: int | None = None

    def look(self, seconds: float = 0.0) -> None:
        """Waits up to `seconds` for the port, until it is known. Raises MachineLost once it has ended."""
        output = self._process.stdout
        if self.port is None and output is not None and select.select([output], [], [], seconds)[0]:
            line = output.readline().strip()
            self.port = int(line) if line.isdigit() else None
        code = self._process.poll()
        if code is not None:
            raise MachineLost(f"the server of this machine's TPU cores has ended (exit code {code})")
        if self.port is None and time.monotonic() - self._begun > START:
            raise MachineLost(f"the server of this machine's TPU cores is not there after {START:.0f} s")

    def close(self) -> None:
        """Ends it; it has nothing to save."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class _First:
    """Keeps machine 0: gathers the others, runs the program and watches all of them.

    Args:
        hosts: the slice.
        server: this machine's.
        stop: requests to stop that reach this machine.
    """

    def __init__(self, hosts: Hosts, server: _Server, stop: StopRequest):
        self._hosts, self._server, self._stop = hosts, server, stop
        self._links: dict[int, Link] = {}  # by machine
        self._ports: dict[int, int] = {}  # of the servers, by machine
        self._program: int | None = None
        try:
            self._door = socket.create_server(("", hosts.control_port), backlog=len(hosts.names))
            self._door.setblocking(False)
        except OSError as error:
            raise UsageError(
                f"--sys tpu: cannot listen on port {hosts.control_port} ({error.strerror}): is another run "
                f"there? {PORTS}=SERVER,CONTROL on all machines chooses others"
            ) from error

    def run(self) -> int | None:
        """Returns the program's exit code; None in the program."""
        self._gather()
        self._door.close()
        keeper = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._program = os.fork()
        if self._program == 0:
            self._become_program(keeper)
            return None
        with contextlib.suppress(OSError):  # whoever of the two comes first
            os.setpgid(self._program, self._program)
        return self._watch()

    def tell(self, code: int) -> None:
        """Tells the others how it ended; where a machine is lost, the program ends as well."""
        self._end_program()
        for link in self._links.values():
            if not link.lost:
                link.end("end", code)

    def close(self) -> None:
        """Ends the program, where it has not, and closes the connections."""
        self._end_program()
        self._close_connections()

    def _end_program(self) -> None:
        """Kills it: with its devices gone it has nothing to save, and may wait for them for ever."""
        if self._program:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._program, signal.SIGKILL)
                os.waitpid(self._program, 0)
            self._program = None

    def _close_connections(self) -> None:
        for link in self._links.values():
            link.close()
        self._door.close()

    def _gather(self) -> None:
        """Waits for this machine's server and all others'."""
        waiting = _Waiting(self._stop)
        while self._server.port is None or len(self._links) < len(self._hosts.names) - 1:
            for _, words in heard(list(self._links.values()), POLL, self._door):
                if words == ["stop"]:
                    raise _Stopped
            self._welcome()
            self._links = {index: link for index, link in self._links.items() if not link.lost}
            for link in self._links.values():
                link.beat()
            self._server.look()
            missing = [i for i in range(1, len(self._hosts.names)) if i not in self._links]
            waiting.check([self._hosts.described(i) for i in missing])
        self._ports[0] = self._server.port

    def _welcome(self) -> None:
        """Takes the next machine at the door, if it says "hello INDEX PORT" at once and its place is free."""
        try:
            link = Link(self._door.accept()[0])
        except OSError:
            return
        for _, words in heard([link], HELLO):
            if len(words) == 3 and words[0] == "hello" and all(word.isdecimal() for word in words[1:]):
                index, port = int(words[1]), int(words[2])
                if 0 < index < len(self._hosts.names) and index not in self._links:
                    self._links[index], self._ports[index] = link, port
                    link.say("welcome")
                    return
        link.close()

    def _become_program(self, keeper: int) -> None:
        """Leaves the keeper's things, and takes the addresses of the servers. It ends with the keeper: it has
        no machines then. A group of its own, so that a key on the terminal reaches it once."""
        end_with_parent(keeper, signal.SIGKILL)
        os.setpgid(0, 0)
        self._close_connections()
        places = [f"grpc://{name}:{self._ports[i]}" for i, name in enumerate(self._hosts.names)]
        os.environ[ENDPOINTS] = ",".join(places)

    def _watch(self) -> int:
        """Waits for the end of the program; returns its exit code."""
        assert self._program is not None, "there is no program to wait for"
        told = False
        while True:
            ended, status = os.waitpid(self._program, os.WNOHANG)
            if ended:
                with contextlib.suppress(ProcessLookupError):  # what it leaves behind
                    os.killpg(self._program, signal.SIGKILL)
                self._program = None
                code = os.waitstatus_to_exitcode(status)
                code = code if code >= 0 else 128 - code
                if code not in _ASKED_FOR:
                    self._blame(SETTLE)
                return code
            if self._stop.requested and not told:
                os.kill(self._program, self._stop.signal or signal.SIGTERM)
                told = True
            for _, words in heard(list(self._links.values()), POLL):
                if words == ["stop"] and not told:
                    os.kill(self._program, signal.SIGTERM)
                    told = True
            for link in self._links.values():
                link.beat()
            self._blame()

    def _blame(self, seconds: float = 0.0) -> None:
        """Raises MachineLost where a machine is lost, or is found to be within `seconds`."""
        until = time.monotonic() + seconds
        while True:
            for index, link in self._links.items():
                if link.lost:
                    raise MachineLost(f"{self._hosts.described(index)} of the TPU slice is lost")
            self._server.look()
            if time.monotonic() >= until:
                return
            heard(list(self._links.values()), POLL)


class _Other:
    """Keeps another machine: has it serve the program on machine 0; arguments as for `_First`."""

    def __init__(self, hosts: Hosts, server: _Server, stop: StopRequest):
        self._hosts, self._server, self._stop = hosts, server, stop
        self._link: Link | None = None

    def run(self) -> int:
        """Returns what machine 0 says that its program ended with."""
        waiting = _Waiting(self._stop)
        while self._server.port is None:
            self._server.look(POLL)
            waiting.check([])
        first, waiting = self._hosts.described(0), _Waiting(self._stop)
        while self._link is None:
            self._link = self._joined()
            self._server.look()
            waiting.check([first])
        print(f"{self._hosts.described(self._hosts.place)}: its TPU cores serve {first}", file=sys.stderr)
        return self._serve(self._link)

    def _joined(self) -> Link | None:
        """Returns a link to machine 0 on which it has said welcome; None where it has not, after a while."""
        try:
            address = self._hosts.names[0], self._hosts.control_port
            link = Link(socket.create_connection(address, timeout=HELLO))
        except OSError:  # it has not started, or has no name yet
            time.sleep(POLL)
            return None
        link.say("hello", self._hosts.place, self._server.port)
        if ["welcome"] in [words for _, words in heard([link], HELLO)]:
            return link
        link.close()  # its place is taken: by a machine of an earlier attempt, which is about to end
        time.sleep(POLL)
        return None

    def _serve(self, link: Link) -> int:
        told = False
        while True:
            for _, words in heard([link], POLL):
                if len(words) == 2 and words[0] == "end" and words[1].isdecimal():
                    return int(words[1])
            if link.lost:
                raise MachineLost(f"{self._hosts.described(0)} of the TPU slice is lost")
            if self._stop.requested and not told:
                link.say("stop")
                told = True
            link.beat()
            self._server.look()

    def tell(self, code: int) -> None:
        """Does nothing: no machine waits for this one."""

    def close(self) -> None:
        """Closes the connection, by which machine 0 knows."""
        if self._link is not None:
            self._link.close()


class _Waiting:
    """Bounds a wait for other machines: says every now and then for which, and not for ever."""

    def __init__(self, stop: StopRequest):
        self._stop, self._begun = stop, time.monotonic()
        self._said = self._begun

    def check(self, missing: list[str]) -> None:
        """Raises MachineLost once it has been too long, _Stopped where that was asked for."""
        if self._stop.requested:
            raise _Stopped
        if not missing:
            return
        now = time.monotonic()
        shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        if now - self._begun > WAIT:
            raise MachineLost(
                f"not there after {WAIT:.0f} s: {shown} of the TPU slice; does the same command run on each "
                "machine, and can they reach each other by name?"
            )
        if now - self._said > REMIND:
            self._said = now
            print(f"waiting for {shown} of the TPU slice: {now - self._begun:.0f} s", file=sys.stderr)
