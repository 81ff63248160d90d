"""Processes forked from one that has imported what runs and commands need: each start would cost seconds."""

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(["fedkin.studies.compare", "fedkin.experiment.run", "fedkin.cli", "sklearn.manifold"])


class Program:
    """A function called in a process of its own, as a command would be, which ends with this one at the latest.

    Parameters
    ----------
    folder : Path
        Where it works.
    log : Path
        A folder for what it writes, which is made; not within `folder` if that should stay as it is.
    call : callable
        One that can be imported; what it returns, or exits with, is how the process ends.
    """

    def __init__(self, folder: Path, log: Path, call: Callable[..., Any], *arguments: Any) -> None:
        log.mkdir()
        self._files = [log / "stdout", log / "stderr"]
        self.process = _forking.Process(target=_called, args=(folder, self._files, call, arguments), daemon=True)
        self.process.start()

    def ended(self, seconds: float = 300) -> tuple[int, str, str]:
        """Wait for it: how it ended, and what it wrote to its output and as errors."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"not within {seconds:g} seconds"
        stdout, stderr = (file.read_text() for file in self._files)
        return self.process.exitcode, stdout, stderr


def _called(folder: Path, files: list[Path], call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.chdir(folder)
    for descriptor, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
    os.fsync = lambda handle: None  # as in conftest.py
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what it puts in the background without
    sys.exit(call(*arguments))


def fedkin(words: Sequence[str], largest_file: int | None = None, toy: bool = False) -> None:
    """The command, where files may have so many bytes; or one that knows the method and the scenario of toy.py."""
    from fedkin.cli import main
    from fedkin.experiment import registry
    from toy import METHOD, SCENARIO

    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    if toy:
        registry.METHODS["toy"], registry.SCENARIOS["toy"] = METHOD, SCENARIO
    main(list(words))


def run_tests(*files: str) -> int:
    """Run the tests of some files."""
    import pytest

    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    return int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]))
