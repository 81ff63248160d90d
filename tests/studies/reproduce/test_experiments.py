"""The papers' tables and figures: every entry can be planned at its scales, and says what it has to."""

import re
from pathlib import Path

import datasets
import numpy as np
import pytest

from fedkin.core.runner import Progress
from fedkin.studies.reproduce.command import reproduce
from fedkin.studies.reproduce.entry import (
    PaperEntry,
    folder_of_entries,
    load_entry,
    names_of_entries,
    plan_of,
    printed,
)
from fedkin.studies.reproduce.measures import check

PAPERS = {
    "ccfc": ["figure-6", "figure-7", *(f"table-{n}" for n in range(1, 5))],
    "embedding": [*(f"figure-{n}" for n in range(4, 7)), *(f"table-{n}" for n in range(2, 6))],
    "fedcref": [*(f"figure-{n}" for n in range(7, 11)), *(f"table-{n}" for n in range(3, 13))],
    "gradient-loss": ["figure-4", "figure-5"],
    "ocfl": [*(f"figure-{n}" for n in range(1, 4)), "table-1"],
}
"""Tables and figures with numbers; other tables are settings, and the embedding paper's figure 3 shows its table 2."""

MAPPED = ("ccfc/table-3", "ccfc/table-4")
"""Tables whose runs show what the paper has as pictures of t-SNE."""

ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")

NAMES = names_of_entries()


@pytest.fixture(scope="module")
def entries() -> dict[str, PaperEntry]:
    return {name: load_entry(folder_of_entries() / f"{name}.toml") for name in NAMES}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_has_its_tables_and_figures_in_order(paper: str) -> None:
    assert [name.partition("/")[2] for name in NAMES if name.startswith(f"{paper}/")] == PAPERS[paper]


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_an_experiment_with_a_measure(name: str, entries: dict[str, PaperEntry]) -> None:
    """At the quick scale, too, a claim can be checked; other scales are of rows that both leave out."""
    entry = entries[name]
    assert {"quick", "paper"} <= entry.scales.keys()
    for scale in entry.scales:
        plan = plan_of(name, entry, scale, seeds=1)
        assert plan.runs()
        names = {cell.name for cell in plan.cells}
        links = [[link for link in claim.chain if not isinstance(link, str) or link in names] for claim in entry.claims]
        assert any(len(chain) >= 2 for chain in links) == (scale in ("quick", "paper"))
        for cell, (run,) in plan.cells.items():
            check(cell.measure)
            assert (run.tables["evaluation"]["map"] == "tsne") == (name in MAPPED)


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_has_figures_of_the_paper_and_claims_to_check(name: str, entries: dict[str, PaperEntry]) -> None:
    entry = entries[name]
    match = re.fullmatch(r"[\w-]+/(table|figure)-(\d+)", name)
    assert match
    kind, number = match.groups()
    assert entry.source.lower().partition(",")[0] in (f"{kind} {number}", f"{kind} {ROMAN[int(number) - 1]}")
    assert entry.claim
    assert entry.claims
    figures = [figure for row in entry.rows for figure in row.paper if printed(figure)]
    assert figures or kind == "figure"
    assert entry.scales["quick"].differs
    assert entry.scales["quick"].core_seconds < entry.scales["paper"].core_seconds


def test_who_has_femnist_can_run_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is noise in the layout of flwrlabs/femnist, of four writers."""
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    classes, rows = datasets.ClassLabel(names=list("0123456789")), range(40)
    features = {"image": datasets.Image(), "writer_id": datasets.Value("string"), "character": classes}
    images, writers = np.random.default_rng(0).integers(0, 256, (40, 28, 28), np.uint8), [f"f{i // 10}" for i in rows]
    columns = {"image": [*images], "writer_id": writers, "character": [i % 10 for i in rows]}
    (tmp_path / "femnist" / "data").mkdir(parents=True)
    data = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    data.to_parquet(tmp_path / "femnist" / "data" / "train-00000-of-00001.parquet")
    entry = load_entry(folder_of_entries() / "embedding" / "table-3.toml")
    scale = entry.scales["femnist"]
    chosen = [row for row in scale.rows or [] if "centralised" not in row]  # whose encoder is Fashion-MNIST's
    short = scale.set | {"method.rounds": 2, "method.participation": 0.5, "evaluation.every": 1}
    scale = scale.model_copy(update={"rows": chosen, "seeds": [0], "set": short, "columns": ["final accuracy, %"]})
    plan = plan_of("femnist", entry.model_copy(update={"scales": {"femnist": scale}}), "femnist")
    (table,), failed = reproduce([plan], tmp_path / "out", 1, Progress())
    assert ([cell.ours is not None for cell in table.results], failed) == ([True] * 4, {})
