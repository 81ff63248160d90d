"""Entries of a reproduction: what they plan, measure and conclude."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import entries
from fedkin.core import FedkinError
from fedkin.studies.reproduce.entry import Figure, load_entry, plan_of
from fedkin.studies.reproduce.measures import FinishedRun, measured
from fedkin.studies.reproduce.table import Result, judged, over_seeds, ranked


@pytest.mark.parametrize(
    "changes",
    [
        {"titel": "x"}, {"measure": 3}, {"rows": []}, {"measure": None}, {"columns": [{"name": "p"}, {"name": "p"}]},
        {"columns": [{"name": "p"}]}, {"claims": [{"text": "x", "chain": ["k-FED | p = 0", "k-FED | p = 2"]}]},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_sentence_with_the_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    tables = {key: value for key, value in entries.tables(**changes).items() if value is not None}
    path = tmp_path / "try.toml"
    path.write_text(entries.tomli_w.dumps(tables))
    with pytest.raises(FedkinError, match=r"^[^\n]*try\.toml[^\n]*$"):
        load_entry(path)


def test_settings_are_laid_on_top_of_each_other() -> None:
    scales = entries.tables()["scales"]
    scales["quick"] |= {"set": {"simulation.fraction": 0.2}, "only": {"k-FED": {"method.n_clusters": 8}, "p = 1": {}}}
    plan = plan_of("try", entries.entry(scales=scales), "quick")
    (first,), _, (third,), _ = plan.cells.values()
    first = first.tables
    assert (first["method"]["name"], first["method"]["n_clusters"]) == ("kfed", 8)
    assert (first["simulation"]["fraction"], first["simulation"]["heterogeneity"], first["seed"]) == (0.2, 0.0, 0)
    assert first["device"]["workers"] == 1
    assert third.tables["method"]["n_clusters"] == 10


@pytest.fixture
def run(tmp_path: Path) -> FinishedRun:
    """Four steps: agreement from the second on, accuracy in the second and the last."""
    metrics = [{}, {"ari": 0.5, "personal_accuracy": 0.8, "kappas": [0.1, None]}, {"ari": 0.25},
               {"ari": 1.0, "personal_accuracy": 0.9, "kappas": [0.3, 0.7]}]  # fmt: skip
    common = {"received": 5e5}
    lines = [{"step": i + 1, "values": {"clusters": i, "finished": True}, "metrics": m, "sent": 1e6 * (i + 1), **common}
             for i, m in enumerate(metrics)]  # fmt: skip
    times = [{"step": i, "seconds": 2.0, "client_seconds": 1.0} for i in range(5)]
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "result.json").write_text("{}")
    for name, found in (("records", lines), ("timing", times)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in found))
    return FinishedRun(tmp_path)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("ari", 1.0), ("ari@last", 1.0), ("ari@first", 0.5), ("ari@mean", 0.4375),
        ("ari@last5", 1.75 / 3), ("ari@3", 0.25), ("ari@1", None), ("ari@40", 1.0),
        ("personal_accuracy@3", 0.8), ("clusters", 3.0), ("finished", None),
        ("nothing", None), ("steps", 4.0), ("both_mb", 4.5),
        ("seconds", 10.0), ("client_seconds", 5.0), ("rounds_to:personal_accuracy=0.85", 4.0),
        ("rounds_to:personal_accuracy=0.95", None),
    ],
)  # fmt: skip
def test_what_is_read_off_a_run(run: FinishedRun, measure: str, value: float | None) -> None:
    assert measured(run, measure) == (None if value is None else pytest.approx(value))


def test_the_interval_is_students() -> None:
    figure = over_seeds([1.0, 2.0, 3.0, 4.0, 5.0])
    assert figure is not None
    assert figure.value == 3.0
    assert figure.half == pytest.approx(2.776445 * math.sqrt(2.5) / math.sqrt(5), rel=1e-6)
    assert over_seeds([2.0]) == Figure(2.0, None, 1)
    assert over_seeds([]) is None


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        (Figure(0.9, 0.01, 3), Figure(0.88, 0.02), "within"),
        (Figure(0.93, 0.01, 3), Figure(0.88, 0.02), "higher"),
        (Figure(0.84, 0.01, 3), Figure(0.88, 0.02), "lower"),
        (Figure(0.602, 0.971, 2), Figure(0.5), "unsure"),  # two seeds far apart say nothing
        (Figure(0.89, 0.971, 2), Figure(0.88), "unsure"),  # nor that they agree
        (Figure(0.92, 0.03, 3), Figure(0.88, 0.02), "unsure"),
        (Figure(0.9, None, 1), Figure(0.88), "near"),
        (Figure(0.92, None, 1), Figure(0.88, 0.02), "above"),
        (Figure(0.8, None, 1), Figure(0.88), "below"),
    ],
)
def test_verdicts(ours: Figure, paper: Figure, verdict: str) -> None:
    assert judged(ours, paper, tolerance=0.03) == verdict


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_rows_are_ranked_column_by_column_with_demsars_critical_difference(methods: int, q: float) -> None:
    """Its table 5 (a) lists q at 5 %; ties are shared, and rows that lack a column have no rank."""
    rows = [Result(f"row {i}", f"column {j}", "nmi", Figure(min(i, methods - 2)), None, 3, "", ())
            for i in range(methods) for j in range(14)]  # fmt: skip
    ranks, difference = ranked([*rows, Result("some", "column 3", "nmi", Figure(9.0), None, 3, "", ())])
    shared = {methods - 2: -0.5, methods - 1: 0.5}
    assert ranks == {f"row {i}": methods - i + shared.get(i, 0) for i in range(methods)}
    assert difference == pytest.approx(q * (methods * (methods + 1) / (6 * 14)) ** 0.5, abs=2e-3)
