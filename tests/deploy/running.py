"""Flower's own programs on loopback, started and stopped by the tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fedkin.cli import main

BIN = Path(sys.executable).parent
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
}


def fedkin(*words: str) -> None:
    """A command of fedkin's that must succeed."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert not ended.value.code


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_until(holds: Callable[[], Any], seconds: float, what: str) -> Any:
    """What `holds` returns once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds:g} seconds: {what}")


class Program:
    """One program with all its children, in a session of its own, writing to a log."""

    def __init__(self, command: Sequence[str | Path], log: Path, **environment: str) -> None:
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**ENVIRONMENT, **environment},
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill it and its children, as a power cut would, and what one of them has started meanwhile."""
        while family := _family(self.process.pid):
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait(timeout=10)

    def family(self) -> set[int]:
        """Its process, its children and theirs, also where they live in sessions of their own."""
        return _family(self.process.pid)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


def _family(leader: int) -> set[int]:
    """Processes that live in the session of this one, or come from one that does."""
    alive: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if state != "Z":
                    alive[int(entry.name)] = (int(parent), int(session))
    found = {pid for pid, (_, session) in alive.items() if session == leader}
    while new := {pid for pid, (parent, _) in alive.items() if parent in found} - found:
        found |= new
    return found


class Wire:
    """A port that passes everything on to another, both ways, and keeps a copy."""

    def __init__(self, port: int) -> None:
        self.target, self.crossed = port, bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self.listener, *self._ends):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                site, _ = self.listener.accept()
            except OSError:
                return
            self._ends.append(site)
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                site.close()
                continue
            self._ends.append(server)
            for source, sink in ((site, server), (server, site)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while some := source.recv(1 << 16):
                self.crossed += some
                sink.sendall(some)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


class Deployment:
    """A server and its sites in a folder that `fedkin federation init` wrote; a context, which stops them all.

    Parameters
    ----------
    folder : Path
        For everything.
    arguments : sequence of str
        Of `fedkin federation init`, after the folder.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.app = folder, folder / "app"
        self.port = free_port()
        self.programs: list[Program] = []
        self.sites: dict[str, Program] = {}
        self.wires: dict[str, Wire] = {}
        fedkin("federation", "init", str(self.app), *arguments, "--port", str(self.port))
        self.secure = "--insecure" not in arguments

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.programs:
            program.kill()
        for wire in self.wires.values():
            wire.close()

    def command(self, *words: str | Path, fails: bool = False) -> str:
        """Run a command to its end; what it printed."""
        done = subprocess.run(
            [str(word) for word in words],
            env=ENVIRONMENT,
            cwd=self.app if self.app.exists() else self.folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )
        assert fails or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start_server(self) -> Program:
        """Start the SuperLink, and wait until it listens."""
        program = Program(["sh", self.app / "start-server.sh"], self.folder / "server.log")
        self.programs.append(program)
        wait_until(self._listens, 300, "the server listens")
        return program

    def add_site(self, name: str, text: str, register: bool = True) -> Path:
        """Write a site's file and, where sites have keys, make and register its."""
        file = self.folder / name / "site.toml"
        file.parent.mkdir(parents=True)
        file.write_text(text)
        if self.secure:
            fedkin("federation", "key", str(file.parent / "site.key"))
            if register:
                self.command(self.app / "flwr.sh", "supernode", "register", file.parent / "site.key.pub", "federation")
        return file

    def start_site(self, name: str, certificate: Path | None = None) -> Program:
        """Start a SuperNode; where nothing is encrypted, by a wire that listens."""
        file, log = self.folder / name / "site.toml", self.folder / f"{name}.log"
        options = [] if certificate is None else ["--root-certificates", certificate]
        place = {}
        if not self.secure:
            self.wires[name] = Wire(self.port)
            place = {"SUPERLINK": f"127.0.0.1:{self.wires[name].port}"}
        command = ["sh", self.app / "start-site.sh", file, *options]
        program = Program(command, log, **place)
        self.programs.append(program)
        self.sites[name] = program
        return program

    def run(self, *options: str) -> Program:
        """Have the server begin; what the run says goes to a log of its own."""
        log = self.folder / f"run-{sum(one.log.name.startswith('run-') for one in self.programs)}.log"
        program = Program([self.app / "flwr.sh", "run", ".", "federation", "--stream", *options], log)
        self.programs.append(program)
        return program

    def hears(self, program: Program, words: str, seconds: float) -> str:
        """All that a program has said, once `words` are in it."""
        wait_until(lambda: words in program.said(), seconds, f"'{words}'\n{self.tail()}")
        return program.said()

    def tail(self) -> str:
        """The last lines of all logs, for a failed test."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in self.folder.glob("*.log")
        )

    def _listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0
