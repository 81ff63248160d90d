"""Flower's simulation, run in a background thread so that its grid is available in this one."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Event, Thread, current_thread, main_thread
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import environment

_SILENT = {
    "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # which aborts on SIGTERM, and leaves Ray's processes
}  # fmt: skip

with environment(**_SILENT):  # Flower reads them when it is imported, and Ray's processes when they start
    from flwr.app import Context
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation


@contextmanager
def simulated_grid(app: ClientApp, nodes: int, workers: int) -> Iterator[Grid]:
    """Yield a grid of simulated nodes that run `app`, for as long as the context lasts.

    Flower's simulation wants to be the caller of the server's code; here it runs in a thread beside it, so that a
    simulated run shows its progress and is interrupted like any other. ``node_config["partition-id"]`` counts nodes
    from 0; `workers` are Ray processes that do their work. Raises FedkinError if the simulation cannot be started.
    """
    grids: Queue[Grid | BaseException] = Queue()
    over = Event()
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        grids.put(grid)
        over.wait()

    def simulate() -> None:
        resources: Any = {"num_cpus": 1, "num_gpus": 0.0}
        started: Any = {"num_cpus": workers, "include_dashboard": False, "logging_level": logging.ERROR}
        try:
            run_simulation(
                server_app=server,
                client_app=app,
                num_supernodes=nodes,
                backend_config={"client_resources": resources, "init_args": started},
            )
        except BaseException as error:  # a thread's own end would go unseen
            grids.put(error)

    thread = Thread(target=simulate, name="flower-simulation", daemon=True)
    with environment(**_SILENT), _quiet(), _exit_on_sigterm():
        thread.start()
        try:
            grid = grids.get()
            if isinstance(grid, BaseException):
                raise FedkinError(f"Flower's simulation did not start ({grid}).") from grid
            yield grid
        finally:
            over.set()
            thread.join(timeout=60)


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Exit on SIGTERM inside the context as from Python, so that Ray's processes end, too."""
    is_ours = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if is_ours:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Flower's log except for errors."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
