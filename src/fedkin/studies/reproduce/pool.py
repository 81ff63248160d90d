"""Several runs at a time, one on each core; what was stopped goes on from its last step."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError

OnRunEnded = Callable[[str, str | None], None]
"""Called when a run ended: its name, and why it failed if it did."""


def carry_out(
    experiments: Mapping[str, Mapping[str, Any]],
    runs: Path,
    jobs: int,
    on_ended: OnRunEnded,
    probes: Mapping[str, Collection[str]] | None = None,
) -> dict[str, str]:
    """Run all experiments, each in a folder of its name below `runs`, and look at them with their probes.

    Parameters
    ----------
    experiments : mapping of str to mapping
        `Config.tables` by name of folder; one that holds a stopped run goes on, and a finished one is only looked at.
    runs : Path
    jobs : int
        How many at a time.
    on_ended : callable
    probes : mapping of str to collection of str, optional
        Names of probes by name of run; see `fedkin.studies.reproduce.probes`.

    Returns
    -------
    dict
        Why runs failed, by name, in one sentence each; the others went on.

    Raises
    ------
    FedkinError
        If a process was ended from outside, for want of memory for example.
    """
    failed: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(experiments)), context, _prepare)
    try:
        waiting = {
            pool.submit(_run, dict(tables), runs / name, sorted((probes or {}).get(name, ()))): name
            for name, tables in experiments.items()
        }
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                name = waiting.pop(future)
                why = _outcome(future, name)
                if why is not None:
                    failed[name] = why
                on_ended(name, why)
    except BaseException:
        _end(pool)
        raise
    pool.shutdown()
    return failed


def _outcome(future: Future[str | None], name: str) -> str | None:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise FedkinError(
            f"A process that worked on {name} or beside it was ended from outside, perhaps for want of memory; the "
            "same command goes on, and --jobs 1 needs the least."
        ) from error


def _end(pool: ProcessPoolExecutor) -> None:
    """Stop at once: a run that is killed goes on from its last step."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
    pool.shutdown()


def _prepare() -> None:
    """A worker leaves Ctrl-C to its parent, ends with it, and has one thread: there is one worker per core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    from fedkin.data.reading.sources import keep_read

    keep_read()


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers, which would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(tables: dict[str, Any], folder: Path, probes: Collection[str]) -> str | None:
    """One run and its probes, as far as they are not there yet; why it failed, if it did."""
    from fedkin.engines.local import give_back_memory
    from fedkin.experiment.config import config_of
    from fedkin.experiment.run import execute, resume
    from fedkin.experiment.run_folder import CONFIG, is_finished
    from fedkin.studies.reproduce.probes import probed

    try:
        if not (folder / CONFIG).exists():
            execute(config_of(tables), folder)
        elif not is_finished(folder):
            resume(folder)
        for probe in probes:
            probed(folder, probe)
    except FedkinError as error:
        return str(error)
    except Exception as error:  # a method's own: one line of what failed, not the end of the others
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        give_back_memory()
    return None
