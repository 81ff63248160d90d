"""Cells of a study in its folder: each is made in a worker process, and is one line of ``results.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.doors import flag
from fedkin.core.files import LOCK, append, check_regular, folder_lock, read_json, write_atomically
from fedkin.core.progress import Progress
from fedkin.core.table import Table
from fedkin.data.population import Population
from fedkin.experiment.config import Config, config_of
from fedkin.experiment.option_models import flat
from fedkin.studies.cells import CellResult, run_cell
from fedkin.studies.workers import Worker, register, targets

PLAN, RESULTS = "plan.json", "results.jsonl"


@dataclass(frozen=True)
class Cell:
    """Cell of a study: a method, perhaps with the number of clusters it is given, on a scenario with one seed."""

    method: str
    seed: int
    number: int | None = None
    scenario: str = ""


@dataclass(frozen=True)
class SentPopulation:
    """Population that was given in memory, in a form that another process can receive."""

    clients: list[tuple[int, Tensor, Tensor | None, Table | None]]
    rest: Population

    @classmethod
    def of(cls, population: Population) -> SentPopulation:
        clients = [(one.id, one.x, one.y, one.table) for one in population.clients]
        return cls(clients, replace(population, clients=[]))

    def received(self) -> Population:
        """Return the population."""
        return replace(self.rest, clients=[Client(i, x, y, table=table) for i, x, y, table in self.clients])


class Study(AbstractContextManager["Study"]):
    """Study in a folder, which is locked, with the results of earlier calls; `what` is its name in sentences.

    The `plan` is what all results share. `sent` are clients that were given in memory; others are read by the worker.
    Raises FedkinError if the folder holds another study or anything else, or a line of it cannot be read.
    """

    def __init__(
        self, out: Path, plan: Mapping[str, Any], what: str, worker: Worker, sent: SentPopulation | None = None
    ) -> None:
        self.out, self.worker, self.sent = out, worker, sent
        if out.exists() and not out.is_dir():
            raise FedkinError(f"{out} is a file; give another {flag('out')}.")
        self._lock = folder_lock(out)
        self._lock.__enter__()
        try:
            _keep_plan(out, json.loads(json.dumps(plan)), what)
            self.results = _read_results(out / RESULTS)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)

    def waits(self, cell: Cell, limit: float) -> bool:
        """Return whether a cell has no result yet, or was given up after less than `limit` seconds."""
        known = self.results.get(cell)
        return known is None or 0 < known.limit < limit

    def run(self, cell: Cell, config: Config, seconds: float, progress: Progress, halves: bool = True) -> CellResult:
        """Make a cell for at most `seconds`, and append its result, or why there is none."""
        try:
            result: CellResult = self.worker.call(
                _run, config.tables, targets(config.tables), self.sent, halves, seconds=seconds, progress=progress
            )
            result = replace(result, memory=self.worker.memory)
        except TimeoutError:
            result = CellResult(failed=f"it took more than {seconds:.0f} seconds", limit=seconds)
        except FedkinError as error:
            result = CellResult(failed=str(error))
        self.results[cell] = result
        append(self.out / RESULTS, json.dumps({**asdict(cell), **asdict(result)}) + "\n")
        return result

    def finished(self, cell: Cell) -> CellResult | None:
        """Return the result of a cell; ``None`` without one."""
        known = self.results.get(cell)
        return None if known is None or known.failed else known


def _run(
    tables: dict[str, Any],
    classes: Mapping[str, str],
    sent: SentPopulation | None,
    halves: bool,
    progress: Progress,
) -> CellResult:
    """Run a cell in a worker's process."""
    register(tables, classes)
    config = config_of(tables)
    progress.phase(f"Reading {config.data.source}")
    return run_cell(config, config.population() if sent is None else sent.received(), progress, halves)


def _keep_plan(out: Path, plan: dict[str, Any], what: str) -> None:
    """Write what all results in the folder share, and refuse a folder of another study or of anything else."""
    if not (out / PLAN).exists():
        there = [path.name for path in out.iterdir() if path.suffix != ".partial" and path.name != LOCK]
        if there:
            raise FedkinError(f"{out} holds {there[0]}, which is not part of a {what}; give another {flag('out')}.")
        write_atomically(out / PLAN, json.dumps(plan, indent=2, sort_keys=True) + "\n")
        return
    before = read_json(out / PLAN, dict[str, Any], "; remove the folder to begin again")
    old, new = dict(flat(before)), dict(flat(plan))
    for path in dict.fromkeys([*new, *old]):
        if old.get(path) != new.get(path):
            name, was, now = path.rpartition(".")[2], old.get(path, "not set"), new.get(path, "not set")
            raise FedkinError(
                f"{out} holds another {what}: its {name} is {was}, not {now}; give another {flag('out')}, or remove "
                "the folder."
            )


def _read_results(path: Path) -> dict[Cell, CellResult]:
    """Read results, the last of each cell; an unfinished last line, as of a killed process, is dropped."""
    check_regular(path)
    if not path.exists():
        return {}
    results = {}
    try:
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        for line in whole.splitlines():
            values = json.loads(line)
            cell = Cell(*(values.pop(name) for name in ("method", "seed", "number", "scenario")))
            results[cell] = CellResult(**values)
        if whole != text:
            write_atomically(path, whole)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise FedkinError(f"{path} cannot be read ({error}); remove the damaged line, or the file.") from error
    return results
