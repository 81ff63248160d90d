"""Results of a benchmark's cells, appended to a file one line each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import check_regular
from fedkin.experiment.run_folder import RECORDS, read_lines
from fedkin.studies.benchmark.cells import Cell
from fedkin.studies.compare.candidate_runs import clusters_with_members
from fedkin.studies.compare.candidates import Family
from fedkin.studies.costs import costs_of

RESULTS = "results.jsonl"
SCORES: dict[Family, str] = {"clients": "personal_accuracy", "samples": "ari"}
"""By what is clustered, the measure that ranks."""


@dataclass(frozen=True)
class CellResult:
    """Result of one cell of a benchmark: one line of the file; seed, scenario and method are as in `Cell`.

    `metrics` are those of the last record. `found` is the number of clusters at the end, where clusters of samples that
    have no member do not count; `given` says whether the method was given the number. `bytes` were sent and received.
    `seconds` is the computing time of the method, on one thread. `memory` is the peak resident memory of the run's
    process in bytes, Python and PyTorch included; 0 if unknown. `failed` says why there is no result. `limit` is the
    time limit in seconds of a run that did not finish; 0 otherwise.
    """

    seed: int
    scenario: str
    method: str
    metrics: dict[str, Any]
    found: int | None = None
    given: bool = False
    bytes: int = 0
    seconds: float = 0.0
    rounds: int = 0
    memory: int = 0
    failed: str = ""
    limit: float = 0.0

    @property
    def cell(self) -> Cell:
        """Cell that this is the result of."""
        return Cell(self.seed, self.scenario, self.method)


def read_results(folder: Path) -> dict[Cell, CellResult]:
    """Read the results in a benchmark's folder, the last of each cell.

    Raises FedkinError if a line cannot be read.
    """
    path = folder / RESULTS
    check_regular(path)
    if not path.exists():
        return {}
    found = {}
    try:
        for line in _whole_lines(path.read_text(encoding="utf-8")).splitlines():
            result = CellResult(**json.loads(line))
            found[result.cell] = result
    except (OSError, TypeError, ValueError) as error:
        raise FedkinError(f"{path} cannot be read ({error}); remove the damaged line, or the file.") from error
    return found


def append_result(folder: Path, result: CellResult) -> None:
    """Append a result as one line.

    Raises FedkinError if it cannot be written.
    """
    path = folder / RESULTS
    try:
        if path.is_file() and not (text := path.read_text(encoding="utf-8")).endswith("\n"):
            path.write_text(_whole_lines(text), encoding="utf-8")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
    except OSError as error:
        raise FedkinError(f"{path} cannot be written ({error}).") from error


def _whole_lines(text: str) -> str:
    """Return `text` without an unfinished last line, as a process leaves it that is killed while it writes."""
    return text[: text.rfind("\n") + 1]


def result_of(cell: Cell, folder: Path, given: bool, memory: int = 0) -> CellResult:
    """Collect the results and costs of the finished run in `folder`, whose peak memory was `memory` bytes."""
    lines = read_lines(folder / RECORDS)
    last = lines[-1]
    cost = costs_of([folder])[0].total
    metrics = {name: value for name, value in last["metrics"].items() if isinstance(value, int | float)}
    return CellResult(
        seed=cell.seed,
        scenario=cell.scenario,
        method=cell.method,
        metrics=metrics,
        found=_found(last) if (found := clusters_with_members(folder)) is None else found,
        given=given,
        bytes=cost.both,
        seconds=round(cost.seconds or 0.0, 3),
        rounds=len(lines),
        memory=memory,
    )


def _found(last: Mapping[str, Any]) -> int | None:
    found = last["values"].get("clusters", last["metrics"].get("clusters"))
    return found if isinstance(found, int) else None


def scores(results: Sequence[CellResult], family: Family) -> dict[tuple[str, str], list[float]]:
    """Return the scores by (scenario, method), one per seed that has one, in order of seed.

    The score for clients is the mean accuracy of their cluster's model on their own tests; for samples it is the ARI.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for result in sorted(results, key=lambda one: one.cell):
        value = result.metrics.get(SCORES[family])
        if not result.failed and isinstance(value, int | float):
            found.setdefault((result.scenario, result.method), []).append(float(value))
    return found
