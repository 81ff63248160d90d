"""The papers' tables and figures: every entry can be planned at both scales, and says what it has to."""

import re
from collections import Counter

import pytest
import torch

from fedkin.core.seeds import derive_generator
from fedkin.data.scenarios.label_skew import class_range, label_skew
from fedkin.studies.reproduce.entry import (
    PaperEntry,
    folder_of_entries,
    load_entry,
    measure_of,
    names_of_entries,
    plan_of,
    printed,
)
from fedkin.studies.reproduce.measures import check

PAPERS = {
    "ccfc": [*(f"figure-{n}" for n in range(3, 8)), *(f"table-{n}" for n in range(1, 5))],
    "embedding": [*(f"figure-{n}" for n in range(4, 7)), *(f"table-{n}" for n in range(2, 6))],
    "fedcref": [*(f"figure-{n}" for n in range(7, 11)), *(f"table-{n}" for n in range(3, 13))],
    "gradient-loss": ["figure-4", "figure-5"],
    "ocfl": [*(f"figure-{n}" for n in range(1, 4)), "table-1"],
}
"""Tables and figures with numbers; other tables are settings, and the embedding paper's figure 3 shows its table 2."""

MAPPED = ("ccfc/figure-3", "ccfc/figure-4", "ccfc/table-3", "ccfc/table-4")
"""Figures of t-SNE, and the tables whose runs they share."""

ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")

NAMES = names_of_entries()

MNIST = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
"""Samples of each class in the training split."""


@pytest.fixture(scope="module")
def entries() -> dict[str, PaperEntry]:
    return {name: load_entry(folder_of_entries() / f"{name}.toml") for name in NAMES}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_has_its_tables_and_figures_in_order(paper: str) -> None:
    assert [name.partition("/")[2] for name in NAMES if name.startswith(f"{paper}/")] == PAPERS[paper]


def test_names_are_in_order_of_paper_kind_and_number() -> None:
    parts = [re.fullmatch(r"([\w-]+)/(table|figure)-(\d+)", name) for name in NAMES]
    places = [(part[1], part[2], int(part[3])) for part in parts if part]
    assert len(places) == len(NAMES)
    assert places == sorted(places)


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_an_experiment_with_a_measure(name: str, entries: dict[str, PaperEntry]) -> None:
    entry = entries[name]
    for scale in ("quick", "paper"):
        plan = plan_of(name, entry, scale, seeds=1)
        assert plan.jobs
        for cell in plan.cells:
            check(measure_of(entry, cell.row, cell.column))
            assert (cell.jobs[0][0].tables["evaluation"]["map"] == "tsne") == (name in MAPPED)


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


@pytest.mark.parametrize("name", NAMES)
def test_quick_checks_a_claim_and_says_what_differs(name: str, entries: dict[str, PaperEntry]) -> None:
    entry = entries[name]
    cells = {cell.name for cell in plan_of(name, entry, "quick", seeds=1).cells}
    links = [[link for link in claim.chain if not isinstance(link, str) or link in cells] for claim in entry.claims]
    assert any(len(chain) >= 2 for chain in links)
    assert entry.scales.quick.differs
    assert entry.scales.quick.core_seconds < entry.scales.paper.core_seconds


def test_all_of_quick_fits_into_an_hour_on_two_cores(entries: dict[str, PaperEntry]) -> None:
    weights: dict[str, float] = {}
    for name, entry in entries.items():
        plan = plan_of(name, entry, "quick")
        for job in plan.jobs:
            weights.setdefault(job, plan.job_seconds)
    assert sum(weights.values()) < 2 * 3600


def test_tables_of_the_same_runs_share_them(entries: dict[str, PaperEntry]) -> None:
    for scale in ("quick", "paper"):
        runs = {name: plan_of(name, entries[name], scale, seeds=1).jobs.keys() for name in NAMES}
        assert runs["ccfc/table-1"] == runs["ccfc/table-2"]
        assert runs["fedcref/table-5"] < runs["fedcref/table-6"]
        assert runs["fedcref/table-8"] == runs["fedcref/figure-9"]
        assert runs["fedcref/table-10"] == runs["fedcref/figure-10"] == runs["fedcref/table-12"]
        assert runs["fedcref/table-4"] < runs["fedcref/table-3"]
        assert runs["embedding/table-3"] == runs["embedding/table-4"] == runs["embedding/table-5"]
        assert runs["embedding/table-3"] == runs["embedding/figure-5"]
        assert runs["ocfl/figure-3"] < runs["ocfl/table-1"] or scale == "quick"
        assert runs["ocfl/figure-1"] < runs["ocfl/table-1"] or scale == "quick"
        counts = Counter(job for jobs in runs.values() for job in jobs)
        assert max(counts.values()) >= 4


def at_two_clients(y: torch.Tensor, clients: int, seed: int) -> float:
    """Share of the samples allocated, 500 per class, that two clients or more hold; it depends on the classes."""
    parts = label_skew(
        y,
        clients,
        classes_per_client=class_range(10),
        samples_per_class=500,
        rng=derive_generator(seed, "partition"),
    )
    counts = torch.cat(parts).bincount()
    return float(counts[counts > 1].sum() / counts.sum())


@pytest.mark.parametrize("name", ["fedcref/figure-10", *(f"fedcref/table-{n}" for n in (10, 11, 12))])
def test_entries_by_the_number_of_clients_say_how_many_samples_two_clients_hold(
    name: str, entries: dict[str, PaperEntry]
) -> None:
    scale = entries[name].scales.paper
    y = torch.arange(10).repeat_interleave(torch.tensor(MNIST))
    shares = {n: [at_two_clients(y, n, seed) for seed in scale.seeds] for n in (20, 30, 40)}
    assert max(shares[20]) == 0
    percents = {n: [round(100 * share) for share in found] for n, found in shares.items()}
    assert f"with 30 clients {min(percents[30])} to {max(percents[30])} % of those allocated" in scale.differs
    assert f"with 40 it is {min(percents[40])} to {max(percents[40])} %" in scale.differs
    assert f"(seed 0: {percents[30][0]} and {percents[40][0]} %)" in scale.differs
