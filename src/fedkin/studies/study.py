"""Cells of a study in its folder: each is made in a worker process, and is one line of ``results.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedkin.core import Client, FedkinError
from fedkin.core.errors import flag
from fedkin.core.files import LOCK, append, check_regular, folder_lock, read_json, write_atomically
from fedkin.core.progress import Progress
from fedkin.data.population import Population
from fedkin.experiment.config import Config, config_of, flat
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


class Study(AbstractContextManager["Study"]):
    """Study in a folder, which is locked, with the results of earlier calls; `kind` is its name in sentences.

    The `plan` is what all results share. `population` has clients that were passed in memory; others are read by the
    worker. Raises FedkinError if the folder holds another study or anything else, or a line of it cannot be read.
    """

    def __init__(
        self, out: Path, plan: Mapping[str, Any], kind: str, worker: Worker, population: Population | None = None
    ) -> None:
        self.out, self.worker, self._sent = out, worker, None
        if population is not None:  # without state and random numbers, which cannot be sent
            clients = [
                (client.id, client.x, client.y, client.table, client.samples and replace(client.samples, items=()))
                for client in population.clients
            ]
            self._sent = (clients, replace(population, clients=[]))
        if out.exists() and not out.is_dir():
            raise FedkinError(f"{out} is a file; give another {flag('out')}.")
        self._lock = folder_lock(out)
        self._lock.__enter__()
        try:
            _keep_plan(out, json.loads(json.dumps(plan)), kind)
            self.results = _read_results(out / RESULTS)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)

    def waits(self, cell: Cell, limit: float) -> bool:
        """Return whether a cell has no result yet, or was given up after less than `limit` seconds."""
        result = self.results.get(cell)
        return result is None or 0 < result.limit < limit

    def finished(self, cell: Cell) -> CellResult | None:
        """Return the result of a cell; ``None`` without one."""
        result = self.results.get(cell)
        return None if result is None or result.failed else result

    def run(self, cell: Cell, config: Config, seconds: float, halves: bool = True) -> None:
        """Make a cell for at most `seconds`, and append its result, or why there is none."""
        try:
            result = self.worker.call(_run, config.tables, targets(config.tables), self._sent, halves, seconds=seconds)
        except TimeoutError:
            result = CellResult(failed=f"it took more than {seconds:.0f} seconds", limit=seconds)
        except FedkinError as error:
            result = CellResult(failed=str(error))
        self.results[cell] = result
        append(self.out / RESULTS, json.dumps({**asdict(cell), **asdict(result)}) + "\n")


def _run(
    tables: dict[str, Any], classes: Mapping[str, str], sent: tuple[list[Any], Population] | None, halves: bool,
    progress: Progress,
) -> CellResult:  # fmt: skip
    """Run a cell in a worker's process."""
    register(tables, classes)
    config = config_of(tables)
    if sent is None:
        return run_cell(config, config.population(), progress, halves)
    clients, population = sent
    clients = [Client(i, x, y, table=table, samples=samples) for i, x, y, table, samples in clients]
    return run_cell(config, replace(population, clients=clients), progress, halves)


def _keep_plan(out: Path, plan: dict[str, Any], kind: str) -> None:
    """Write what all results in the folder share, and refuse a folder of another study or of anything else."""
    if not (out / PLAN).exists():
        files = [path.name for path in out.iterdir() if path.suffix != ".partial" and path.name != LOCK]
        if files:
            raise FedkinError(f"{out} holds {files[0]}, which is not part of a {kind}; give another {flag('out')}.")
        write_atomically(out / PLAN, json.dumps(plan, indent=2, sort_keys=True) + "\n")
        return
    before = read_json(out / PLAN, dict[str, Any], "; remove the folder to begin again")
    old, new = dict(flat(before)), dict(flat(plan))
    for path in dict.fromkeys([*new, *old]):
        if old.get(path) != new.get(path):
            name, previous, current = path.rpartition(".")[2], old.get(path, "not set"), new.get(path, "not set")
            raise FedkinError(
                f"{out} holds another {kind}: its {name} is {previous}, not {current}; give another {flag('out')}, or "
                "remove the folder."
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
