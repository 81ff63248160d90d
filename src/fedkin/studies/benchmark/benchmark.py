"""Run a benchmark: check its options, make its runs within a time budget, and write its page."""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock, read_json, write_atomically
from fedkin.core.progress import Progress
from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.experiment.run_folder import is_finished
from fedkin.report import write_page
from fedkin.studies.benchmark.benchmark_page import page_of
from fedkin.studies.benchmark.cell_results import CellResult, append_result, read_results, result_of
from fedkin.studies.benchmark.cells import Cell, Conditions, cells_of, scenarios_of, variants_of
from fedkin.studies.compare.candidates import Family
from fedkin.studies.compare.comparison_terminal import bar
from fedkin.studies.run_pool import RunWorker
from fedkin.studies.time_budget import TimeBudget, parsed_duration

PLAN, PAGE = "plan.json", "benchmark.html"


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of a benchmark.

    `data` are for all scenarios that do not require a particular data set. `methods` and `scenarios` are names, or
    ``("all",)``. A method's name may have settings behind it that are not defaults, such as ``"ccfc+decorrelation=1"``.
    Each cell has `seeds` runs, at least 1. Methods that cluster clients train `module` for so many communication
    `rounds`; methods that cluster samples keep their defaults, as all do for other options. `budget` is the wall-clock
    time of this call, such as ``"2h"``, and `limit` that of one run: a run that takes longer is stopped, and a call
    with a longer limit resumes it.
    """

    family: Family
    data: str = "digits"
    methods: tuple[str, ...] = ("all",)
    scenarios: tuple[str, ...] = ("all",)
    seeds: int = 3
    rounds: int = 20
    module: str = "perceptron"
    budget: str = "2h"
    limit: str = "10m"

    def check(self) -> None:
        """Check that all options are in their range.

        Raises FedkinError, which names the first option that is not.
        """
        if self.family not in ("samples", "clients"):
            raise FedkinError(f"What is benchmarked is '{self.family}'; it should be clients or samples.")
        for name, value in (("--seeds", self.seeds), ("--rounds", self.rounds)):
            if value < 1:
                raise FedkinError(f"{name} is {value}; allowed: 1 or more.")
        parsed_duration(self.budget)
        parsed_duration(self.limit, "--limit")


def benchmarked(
    options: BenchmarkOptions, out: Path, worker: RunWorker | None = None, shows: bool = True
) -> list[CellResult]:
    """Make the missing runs of a benchmark until the budget is spent, append results, and write the page.

    Return all known results of the scenarios and methods. Results in `out` with the same data and settings are not
    computed again. By default the `worker` is a process of one thread. `shows` says whether to show the progress on a
    terminal. Raises FedkinError if an option is out of range, a name unknown, or the folder holds another benchmark.
    """
    options.check()
    methods = variants_of(options.family, options.methods)
    scenarios = scenarios_of(options.family, options.scenarios)
    cells = cells_of(scenarios, methods, options.seeds)
    classes = len(load_labelled(options.data).classes)
    shared = {"rounds": options.rounds, "module": options.module} if options.family == "clients" else {}
    conditions = Conditions(options.family, options.data, classes, shared)
    for method in methods:
        conditions.config(cells_of(scenarios, [method], 1)[0])  # settings are refused before anything runs
    with folder_lock(out):
        _keep_plan(out, {"family": options.family, "data": options.data, **conditions.settings})
        known = read_results(out)
        budget, limit = TimeBudget(parsed_duration(options.budget)), parsed_duration(options.limit)
        stopped = {cell for cell, result in known.items() if result.failed and 0 < result.limit < limit}
        waiting = [cell for cell in cells if cell not in known or cell in stopped]
        with worker or RunWorker(threads=1) as runs:
            for at, cell in enumerate(waiting):
                if budget.left <= 0:
                    break
                title = f"{at + 1}/{len(waiting)} · {cell.scenario} · {cell.method}, seed {cell.seed}"
                progress = bar(title) if shows else nullcontext(Progress())
                result = _run(cell, conditions, out, runs, min(limit, budget.left), limit, progress)
                if result is not None:
                    known[cell] = result
                    append_result(out, result)
                    write_page(out / PAGE, page_of(options.family, conditions, scenarios, list(known.values())))
        found = [known[cell] for cell in cells if cell in known]
        write_page(out / PAGE, page_of(options.family, conditions, scenarios, found))
    return found


def _run(
    cell: Cell,
    conditions: Conditions,
    out: Path,
    worker: RunWorker,
    seconds: float,
    limit: float,
    shown: AbstractContextManager[Progress],
) -> CellResult | None:
    """Make or resume the run of a cell; ``None`` if the budget was spent before it finished."""
    folder = out / "runs" / cell.folder
    try:
        config = conditions.config(cell)
        with shown as progress:
            done = worker.run(config, folder, seconds, seconds + worker.start + 60.0, progress)
        if not done:
            if seconds < limit:
                return None
            return _without(cell, f"it took more than {limit:g} seconds", limit)
        result = result_of(cell, folder, conditions.given(cell) is not None, worker.memory)
    except FedkinError as error:
        return _without(cell, str(error))
    assert is_finished(folder)
    shutil.rmtree(folder)
    return result


def _without(cell: Cell, why: str, limit: float = 0.0) -> CellResult:
    return CellResult(cell.seed, cell.scenario, cell.method, {}, failed=why, limit=limit)


def _keep_plan(out: Path, plan: dict[str, Any]) -> None:
    """Write the settings that all results in the folder share, and refuse a folder of another benchmark."""
    path = out / PLAN
    if not path.exists():
        write_atomically(path, json.dumps(plan, indent=1) + "\n")
        return
    there = read_json(path, dict[str, Any], "; choose another folder with --out")
    if there != plan:
        names = [name for name in {**there, **plan} if there.get(name) != plan.get(name)]
        differ = [f"{name} {there.get(name)!r}, not {plan.get(name)!r}" for name in names]
        raise FedkinError(f"{out} holds a benchmark of {' and '.join(differ)}; choose another folder with --out.")
