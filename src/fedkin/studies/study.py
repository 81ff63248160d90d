"""Cells of a study in its folder, each a line of ``results.jsonl``, which are not made again."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import flag
from fedkin.core.files import LOCK, append, check_regular, folder_lock, read_json, write_atomically
from fedkin.core.runner import Progress
from fedkin.data.population import Population
from fedkin.experiment.config import Config, flat
from fedkin.studies.cells import CellResult, run_cell

PLAN, RESULTS = "plan.json", "results.jsonl"


@dataclass(frozen=True)
class Cell:
    """Cell of a study: a method, perhaps with the number of clusters it is given, on a scenario with one seed."""

    method: str
    seed: int
    number: int | None = None
    scenario: str = ""


class TimeUp(BaseException):
    """The time of a study ended within a run; no error, so that nothing takes it for a failed client."""


class _Watch(Progress):
    """Progress of the runs of a study, which ends one that has no time left, and repeats no warning."""

    def __init__(self, progress: Progress, deadline: float) -> None:
        self.progress, self.deadline, self.shown = progress, deadline, set[str]()

    def part(self, done: int, total: int) -> None:
        if time.monotonic() > self.deadline:
            raise TimeUp
        self.progress.part(done, total)

    def warn(self, text: str) -> None:
        if text not in self.shown:
            self.shown.add(text)
            self.progress.warn(text)


class Study(AbstractContextManager["Study"]):
    """Study in a folder, which is locked, with the results of earlier calls.

    The `plan` is what all results share. No run begins after `seconds`, and one at work then is given up at its next
    exchange with the clients. Raises FedkinError if the folder holds another study or anything else, or a line of it
    cannot be read.
    """

    def __init__(self, out: Path, plan: Mapping[str, Any], seconds: float, progress: Progress) -> None:
        self.out, self.progress = out, progress
        self._watch = _Watch(progress, time.monotonic() + seconds)
        if out.exists() and not out.is_dir():
            raise FedkinError(f"{out} is a file; give another {flag('out')}.")
        self._lock = folder_lock(out)
        self._lock.__enter__()
        try:
            _keep_plan(out, json.loads(json.dumps(plan)))
            self.results = _read_results(out / RESULTS)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)

    @property
    def has_time(self) -> bool:
        """Whether another run may begin."""
        return time.monotonic() < self._watch.deadline

    def run(self, cell: Cell, config: Config, population: Population, halves: bool) -> None:
        """Make a cell, and append its result, or why there is none; nothing if time is up first."""
        try:
            result = run_cell(config, population, self._watch, halves)
        except TimeUp:
            return
        except FedkinError as error:
            result = CellResult(failed=str(error))
        except Exception as error:  # a method's own, on data it was not made for: it ends this run and no other
            traceback.print_exc()
            result = CellResult(failed=f"it failed with {type(error).__name__}: {error}")
        self.results[cell] = result
        append(self.out / RESULTS, json.dumps({**asdict(cell), **asdict(result)}) + "\n")


def _keep_plan(out: Path, plan: dict[str, Any]) -> None:
    """Write what all results in the folder share, and refuse a folder of another study or of anything else."""
    if not (out / PLAN).exists():
        files = [path.name for path in out.iterdir() if path.suffix != ".partial" and path.name != LOCK]
        if files:
            raise FedkinError(f"{out} holds {files[0]}, which is not part of a comparison; give another {flag('out')}.")
        write_atomically(out / PLAN, json.dumps(plan, indent=2, sort_keys=True) + "\n")
        return
    before = read_json(out / PLAN, dict[str, Any], "; remove the folder to begin again")
    if "scenarios" in plan and "scenarios" in before:  # a benchmark may get further ones
        earlier, later = before["scenarios"], plan["scenarios"]
        before, plan = before | {"scenarios": later | earlier}, plan | {"scenarios": earlier | later}
    old, new = dict(flat(before)), dict(flat(plan))
    for path in dict.fromkeys([*new, *old]):
        if old.get(path) != new.get(path):
            name, previous, current = path.rpartition(".")[2], old.get(path, "not set"), new.get(path, "not set")
            raise FedkinError(
                f"{out} holds another comparison: its {name} is {previous}, not {current}; give another "
                f"{flag('out')}, or remove the folder."
            )
    write_atomically(out / PLAN, json.dumps(plan, indent=2, sort_keys=True) + "\n")


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
