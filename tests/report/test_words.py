"""Clusters in words."""

import dataclasses

import pandas as pd
import pytest
import torch

from fedkin.core.client import Column
from fedkin.data.profile import ClusterProfile
from fedkin.report.words import described, sentences

COLUMNS = (
    Column("age", "number"),
    Column("town", "category", ("Bonn", "Ulm")),
    Column("smokes", "boolean", ("no", "yes")),
    Column("noise", "number"),
    Column("visit", "date"),
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


def test_a_typical_sample_is_in_the_units_of_the_data():
    known = profile()
    assert not any(column.typical for column in described(known))
    few, middle = torch.full((2, 5), 6), known.sum / 40 * 6
    few[1, 0] = 0
    typical = {"typical_filled": few, "typical_sum": middle, "typical_counts": torch.tensor([[1, 5, 0], [4, 0, 2]])}
    cells = {column.name: column.typical for column in described(dataclasses.replace(known, **typical))}
    assert cells["age"] == ["70", "–"]
    assert cells["town"] == ["Ulm", "Bonn"]
    assert cells["smokes"] == ["yes", "no"]


# Columns.


@pytest.mark.parametrize("value", [1.23765e18, 123456789.1, 0.1, -7.0])
def test_a_column_of_one_value_distinguishes_nothing_whatever_rounding_makes_of_its_sums(value):
    column = numbers([value] * 333, [value] * 501, [value] * 7, rounding=1e-14)
    assert column.effect == 0
    assert [weight for weight, _ in column.phrases] == [0, 0, 0]
    assert column.shifts == [0, 0, 0]
    assert len(set(column.values)) == len(set(column.cells)) == len(set(column.typical)) == 1


def numbers(*clusters, rounding):
    """The description of a column whose clusters hold these numbers."""
    values = [torch.tensor(own, dtype=torch.float64)[:, None] for own in clusters]
    filled = torch.tensor([[len(own)] for own in clusters])
    around = torch.cat(values).mean(0)
    squares = torch.stack([(own - around).square().sum(0) for own in values])
    sums = torch.stack([own.sum(0) for own in values])
    sums *= 1 + rounding * torch.arange(len(sums))[:, None]
    none = torch.zeros(len(values), 0, dtype=torch.int64)
    columns = (Column("weight", "number"),)
    profile = ClusterProfile(columns, filled[:, 0], filled, around, sums, squares, none, filled, sums, none)
    return described(profile)[0]
