"""Clusters in words."""

import dataclasses

import pandas as pd
import pytest
import torch

from fedkin.data.profile import ClusterProfile
from fedkin.data.schema import SchemaColumn
from fedkin.experiment.report_content.cluster_words import contrasts, descriptions, remarks, sentences
from fedkin.experiment.report_content.column_words import described

COLUMNS = (
    SchemaColumn("age", "number"),
    SchemaColumn("town", "category", ("Bonn", "Ulm")),
    SchemaColumn("smokes", "boolean", ("no", "yes")),
    SchemaColumn("noise", "number"),
    SchemaColumn("visit", "date"),
)


def profile(**changes):
    """Two clusters of 40: old people from Ulm who smoke, and young ones from Bonn; noise is alike in both."""
    n = torch.full((2, 5), 40)
    days = (pd.Timestamp("2024-03-01") - pd.Timestamp(0)).days
    means = torch.tensor([[70.0, 0, 0.9, 1.0, days], [30.0, 0, 0.1, 1.1, days - 366]], dtype=torch.float64)
    spreads = torch.tensor([5.0, 0, 0.3, 1.0, 20.0], dtype=torch.float64)
    counts = torch.zeros(2, 3, dtype=torch.int64)
    counts[:, :] = torch.tensor([[4, 36, 0], [34, 4, 2]])
    squares = n * (means.square() + spreads.square())
    members = {0: torch.tensor([40, 10]), 1: torch.tensor([0, 30])}
    whole = ClusterProfile(
        COLUMNS, n[:, 0], n, torch.zeros(5, dtype=torch.float64), n * means, squares, counts, members=members, rows=80
    )
    return dataclasses.replace(whole, **changes)


def test_a_sentence_says_what_tells_a_cluster_apart():
    first, second = sentences(profile(), ["north.csv", "south.csv"])
    assert first.startswith("Cluster 0 (40 samples): ")
    assert "high age (70 against 50)" in first
    assert "town mostly Ulm (90% against 50%)" in first
    assert "smokes mostly yes (90% against 50%)" in first
    assert "late visit (2024-03-01 against 2023-08-31)" in first
    assert first.endswith("; client north.")
    assert "low age (30 against 50)" in second
    assert second.endswith("; both clients.")
    assert "noise" not in first + second


@pytest.mark.parametrize(
    ("means", "spread", "cells"),
    [
        ([5.19e9, 1.0e8], 9.9e8, ["5.2e+09 ± 1.0e+09", "1e+08 ± 1.0e+09"]),
        ([7e-6, -1e-9], 1e-6, ["7.0e-06 ± 1.0e-06", "0 ± 1.0e-06"]),
        ([12_345_678.0, 12_341_000.0], 900.0, ["12,345,700 ± 900", "12,341,000 ± 900"]),
        ([-0.001, 0.4], 0.1, ["0.00 ± 0.10", "0.40 ± 0.10"]),
    ],
    ids=str,
)
def test_the_numbers_of_a_column_are_written_alike(means, spread, cells):
    n = torch.full((2, 1), 40)
    values = torch.tensor(means, dtype=torch.float64)[:, None]
    one = ClusterProfile(
        (SchemaColumn("dose", "number"),), n[:, 0], n, torch.zeros(1, dtype=torch.float64), n * values,
        n * (values.square() + spread**2), torch.zeros(2, 0, dtype=torch.int64),
    )  # fmt: skip
    assert described(one)[0].cells == cells


def test_columns_come_in_order_of_how_much_they_tell_apart():
    columns = described(profile())
    assert [column.effect for column in columns] == sorted((column.effect for column in columns), reverse=True)
    assert columns[-1].name == "noise"
    assert columns[-1].effect == pytest.approx(0, abs=0.01)
    cells = {column.name: column.cells for column in columns}
    assert cells["age"] == ["70 ± 5", "30 ± 5"] or cells["age"] == ["70.0 ± 5.0", "30.0 ± 5.0"]
    assert cells["town"] == ["Ulm (90%)", "Bonn (85%)"]
    assert cells["smokes"] == ["90% yes", "10% yes"]
    assert cells["visit"][0].startswith("2024-03-01 ± 20")


def test_clusters_that_nothing_tells_apart_say_so():
    same = profile()
    alike = same.sum.mean(0, keepdim=True).expand(2, -1)
    even = torch.tensor([[20, 18, 2], [20, 18, 2]])
    flat = dataclasses.replace(same, sum=alike, counts=even, squares=same.squares.mean(0, keepdim=True).expand(2, -1))
    assert all(sentence.count("no column by itself distinguishes it from") == 1 for sentence in sentences(flat))


def three(noise, old=(70.0, 70.0, 30.0)):
    """Three clusters of 40: of one age or two, with the given means of noise."""
    n, day = torch.full((3, 5), 40), 19000.0
    means = torch.tensor([[age, 0, 0.5, own, day] for age, own in zip(old, noise, strict=True)], dtype=torch.float64)
    squares = n * (means.square() + torch.tensor([5.0, 0, 0.5, 1.0, 20.0], dtype=torch.float64).square())
    nowhere = torch.zeros(5, dtype=torch.float64)
    return ClusterProfile(COLUMNS, n[:, 0], n, nowhere, n * means, squares, torch.tensor([[20, 20, 0]] * 3))


def test_clusters_of_which_the_same_is_said_are_told_apart():
    first, second, third = sentences(three([1.0, 1.6, 1.3]))
    assert first == (
        "Cluster 0 (40 samples): high age (70 against 57); unlike cluster 1: lower noise (1.0 against 1.6)."
    )
    assert second.endswith("unlike cluster 0: higher noise (1.6 against 1.0).")
    assert third == "Cluster 2 (40 samples): low age (30 against 57)."


def test_clusters_that_differ_in_no_column_say_so():
    first, second, third = sentences(three([1.0, 1.0, 1.0]))
    assert first.endswith(": high age (70 against 57); no column by itself distinguishes it from cluster 1.")
    assert second.endswith(": high age (70 against 57); no column by itself distinguishes it from cluster 0.")
    assert "unlike" not in third
    assert "cluster 2" not in first + second + third


def test_several_clusters_of_which_the_same_is_said_differ_from_the_others_together():
    wide = sentences(three([1.0, 1.6, 1.3], old=(70.0, 70.0, 70.0)))
    assert [sentence.partition("): ")[2] for sentence in wide] == [
        "no column by itself distinguishes it from the others."
    ] * 3, "to be told apart from all others is what a sentence says anyway"


def test_phrases_of_pairs_suit_the_kind_of_a_column():
    first, second = (contrasts(profile(), *pair) for pair in ((0, [1]), (1, [0])))
    assert {words for _, words in first} == {
        "higher age (70 against 30)", "town more often Ulm (90% against 10%)",
        "smokes more often yes (90% against 10%)", "later visit (2024-03-01 against 2023-03-01)", "",
    }  # fmt: skip
    assert "smokes less often yes (10% against 90%)" in [words for _, words in second]
    assert [effect for effect, _ in first] == sorted((effect for effect, _ in first), reverse=True)
    none = torch.tensor([[1] * 5, [0] * 5])
    unknown = profile(filled=40 * none, sum=profile().sum * none, counts=torch.tensor([[4, 36, 0], [0, 0, 0]]))
    assert [words for _, words in contrasts(unknown, 0, [1])] == [""] * 5


def test_a_cluster_of_too_few_samples_is_not_described():
    small = dataclasses.replace(profile(), samples=torch.tensor([40, 0]))
    assert sentences(small)[1] == "Cluster 1: too few samples at any one client to be described."


def test_an_empty_column_is_shown_without_effect():
    none = torch.tensor([1, 1, 1, 0, 1])
    whole = profile()
    empty = dataclasses.replace(whole, filled=whole.filled * none, sum=whole.sum * none, squares=whole.squares * none)
    cells = {column.name: column for column in described(empty)}
    assert cells["noise"].cells == ["–", "–"]
    assert cells["noise"].effect == 0


def test_who_gave_nothing_is_named():
    lost = profile(missing={1: "Site 'south' has a privacy budget."})
    assert remarks(lost, ["north.csv", "south.csv"])[-1:] == [
        "The descriptions of clusters are without south (Site 'south' has a privacy budget)."
    ]


def test_samples_that_clients_do_not_report_are_counted():
    known = profile(members={0: torch.tensor([30, 20]), 1: torch.tensor([10, 20])}, counts=profile().counts * 0)
    assert remarks(known) == remarks(dataclasses.replace(known, rows=80)) == []
    assert remarks(dataclasses.replace(known, rows=1087, min_members=7)) == [
        "1,007 of 1,087 samples are in no description: a client does not report fewer than 7 samples of a cluster, nor "
        "some of its largest cluster from which they could be inferred."
    ]
    assert ClusterProfile.from_tree(dataclasses.replace(known, rows=81, min_members=7).tree()).rows == 81
    before = {name: value for name, value in known.tree().items() if name not in ("rows", "min_members")}
    assert ClusterProfile.from_tree(before).withheld == 0


def test_clusters_that_one_client_has_nearly_alone_are_named():
    named = profile().counts * torch.tensor([1, 1, 0])
    assert remarks(profile(counts=named), ["north.csv", "south.csv"]) == [
        "Nearly all samples of cluster 0 come from north: where a client measures or codes differently, its samples "
        "look like a cluster."
    ]
    spread = profile(counts=named, members={0: torch.tensor([35, 10]), 1: torch.tensor([5, 30])})
    assert remarks(spread) == []
    both = profile(counts=named, members={0: torch.tensor([40, 1]), 1: torch.tensor([0, 39])})
    assert "Nearly all samples of cluster 0 come from 0 and of cluster 1 from 1: where" in remarks(both)[0]
    same = profile(counts=named, members={0: torch.tensor([40, 40, 0]), 1: torch.tensor([1, 0, 60])})
    assert "Nearly all samples of clusters 0 and 1 come from 0: where" in remarks(same)[0]
    assert remarks(profile(counts=named, members={0: torch.tensor([40, 40])})) == []


def test_a_cluster_of_one_client_is_named_where_others_have_few_or_perhaps_none():
    """As births of which a client has the weight in kg, and samples of which it has codes of missing values."""
    named = profile().counts * torch.tensor([1, 1, 0])
    births = {
        0: torch.tensor([249, 5]),
        1: torch.tensor([9, 230]),
        2: torch.tensor([8, 240]),
        3: torch.tensor([0, 250]),
    }
    kg = profile(counts=named, members=births, samples=torch.tensor([266, 725]), rows=996)
    assert remarks(kg)[0].startswith("Nearly all samples of cluster 0 come from 0: where")
    assert sentences(kg)[0].endswith("; clients 0 (94%), 1 and 2, few or none at others.")
    everywhere = births | {3: torch.tensor([6, 250])}
    assert sentences(profile(members=everywhere))[0].endswith("; all 4 clients, mostly 0 (92%).")
    codes = {0: torch.tensor([36, 70]), **{other: torch.tensor([0, 100]) for other in (1, 2, 3)}}
    pbc = profile(counts=named, members=codes, samples=torch.tensor([36, 370]), rows=418)
    assert remarks(pbc)[0].startswith("Nearly all reported samples of cluster 0 come from 0: where")


def test_a_client_with_nearly_all_samples_has_nearly_all_of_every_cluster():
    named = profile().counts * torch.tensor([1, 1, 0])
    large = {0: torch.tensor([13_000, 7_000]), 1: torch.tensor([200, 100])}
    assert remarks(profile(counts=named, members=large)) == []
    apart = {0: torch.tensor([13_000, 7_000]), 1: torch.tensor([300, 0])}
    assert "Nearly all samples of cluster 1 come from 0: where" in remarks(profile(counts=named, members=apart))[0]


def test_samples_that_others_may_have_hide_no_cluster_of_one_client():
    """Withheld samples, five here, may be in any cluster: of small ones they could be more than a twentieth."""
    members = {0: [53, 42, 0, 0, 0], 1: [50, 56, 0, 0, 0], 2: [0, 0, 65, 49, 31]}
    parts = {client: torch.tensor(own) for client, own in members.items()}
    five = torch.ones(5, 5, dtype=torch.int64)
    known = profile()
    facts = {name: getattr(known, name)[:1] * five for name in ("filled", "sum", "squares")}
    meters = dataclasses.replace(
        known, samples=torch.tensor([103, 98, 65, 49, 31]), counts=torch.zeros(5, 3), members=parts, rows=351, **facts
    )
    assert "Nearly all samples of clusters 2, 3 and 4 come from 2: where" in remarks(meters)[0]
    assert not any("Nearly all" in text for text in remarks(dataclasses.replace(meters, rows=0, min_members=14)))


def test_pooled_categories_are_no_value_called_other():
    rare = profile(counts=torch.tensor([[4, 8, 28], [30, 8, 2]]))
    assert "town mostly one of the rare categories (70% against 38%)" in sentences(rare)[0]


def test_one_column_that_explains_the_clusters_is_reported():
    alone = profile()
    means = torch.tensor([[50.0, 0, 0.5, 1.0, 19000.0]] * 2, dtype=torch.float64)
    spreads = torch.tensor([5.0, 0, 0.5, 1.0, 20.0], dtype=torch.float64)
    alone = dataclasses.replace(
        alone, sum=40 * means, squares=40 * (means.square() + spreads.square()),
        counts=torch.tensor([[40, 0, 0], [0, 40, 0]]),
    )  # fmt: skip
    assert remarks(alone)[0].startswith("Column 'town' alone explains the clusters")


def test_a_page_shows_a_cell_for_each_cluster():
    view = descriptions(profile(), ["north.csv", "south.csv"])
    assert len(view.cells) == len(view.columns) == 5
    assert all(len(row) == 2 for row in view.cells)
    assert view.shifts[view.columns.index("age")][0] > 0 > view.shifts[view.columns.index("age")][1]


def test_a_typical_sample_is_in_the_units_of_the_data():
    known = profile()
    assert not descriptions(known).typical
    few, middle = torch.full((2, 5), 6), known.sum / 40 * 6
    few[1, 0] = 0
    typical = {"typical_filled": few, "typical_sum": middle, "typical_counts": torch.tensor([[1, 5, 0], [4, 0, 2]])}
    view = descriptions(dataclasses.replace(known, **typical))
    cells = dict(zip(view.columns, view.typical, strict=True))
    assert list(view.typical_rows) == [6, 6]
    assert cells["age"] == ["70", "–"]
    assert sorted(cells.values())[-2:] == sorted([cells["town"], cells["smokes"]])
    assert cells["town"] == ["Ulm", "Bonn"]
    assert cells["smokes"] == ["yes", "no"]


def test_samples_that_clients_do_not_report_may_be_anywhere():
    """Four samples of a cluster at a client that reports none are possible: it is not known to be another's alone."""
    few = profile(members={0: torch.tensor([40, 5]), 1: torch.tensor([30, 0]), 2: torch.tensor([30, 0])}, rows=111)
    assert sentences(few, ["north.csv", "south.csv", "west.csv"])[1].endswith("; client north, few or none at others.")
    assert not any("Nearly all" in text for text in remarks(few))
    assert any(
        "Nearly all samples of cluster 1 come from 0" in text for text in remarks(dataclasses.replace(few, rows=80))
    )
    known = dataclasses.replace(few, rows=80)
    assert sentences(known)[1].endswith("; client 0.")
