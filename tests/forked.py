"""Processes that make runs, forked from one that has imported what they need: each start would cost seconds."""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

PIPE = -1
"""As of `subprocess`, in whose place this module may stand in `fedkin.studies.run_pool`."""

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(["fedkin.studies.run_worker", "fedkin.experiment.run"])


class Popen:
    """As much of `subprocess.Popen` as a `RunWorker` needs; `command` is its, and both pipes are given."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], **pipes: int) -> None:
        assert command[1:3] == ["-m", "fedkin.studies.run_worker"]
        assert pipes == {"stdin": PIPE, "stdout": PIPE}
        (orders, ours), (theirs, messages) = (_forking.Pipe(duplex=False) for _ in range(2))
        given = (orders, messages, Connection(os.dup(2)), command[2:], dict(env), os.getcwd())
        self._process = _forking.Process(target=_work, args=given, daemon=True)
        self._process.start()
        orders.close()
        messages.close()
        self.stdin, self.stdout = os.fdopen(os.dup(ours.fileno()), "wb"), os.fdopen(os.dup(theirs.fileno()), "rb")
        ours.close()
        theirs.close()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def communicate(self) -> None:
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        self.wait()


def _work(
    orders: Connection,
    messages: Connection,
    errors: Connection,
    argv: list[str],
    environment: dict[str, str],
    folder: str,
) -> None:
    """What the command does, in a child of the process that has imported everything."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    for connection, descriptor in ((orders, 0), (messages, 1), (errors, 2)):
        os.dup2(connection.fileno(), descriptor)
        connection.close()
    from fedkin.studies.run_worker import main

    main()
