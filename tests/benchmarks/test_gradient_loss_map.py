"""Iterations are counted up to the last round that is asked for, and a saving that is a bound says so."""

import json
from pathlib import Path
from types import ModuleType

from fedkin.experiment.run_folder import RECORDS


def run_of(folder: Path, purities: list[float], finished: bool = True) -> Path:
    folder.mkdir()
    lines = [json.dumps({"step": i, "metrics": {"purity": purity}}) + "\n" for i, purity in enumerate(purities)]
    (folder / RECORDS).write_text("".join(lines))
    if finished:
        (folder / "result.json").write_text("{}")
    return folder


def test_iterations_until_the_purity(benchmark: ModuleType, tmp_path: Path) -> None:
    place = run_of(tmp_path / "run", [0.5, 0.75, 0.9])
    assert benchmark.reached(place, 100) == ("3", 3)
    assert benchmark.reached(place, 2) == ("never (0.75)", None)
    assert benchmark.reached(run_of(tmp_path / "unfinished", [0.95], finished=False), 100) == ("–", None)


def test_a_saving_is_a_bound_where_only_one_gets_there(benchmark: ModuleType) -> None:
    never, five, fifty, missing = ("never (0.75)", None), ("5", 5), ("50", 50), ("–", None)
    assert benchmark.fewer(fifty, five, 100) == "90 %"
    assert benchmark.fewer(five, fifty, 100) == "-900 %"
    assert benchmark.fewer(never, five, 100) == "> 95 %"
    assert benchmark.fewer(five, never, 100) == "< -1900 %"
    assert benchmark.fewer(never, never, 100) == benchmark.fewer(missing, five, 100) == "–"
