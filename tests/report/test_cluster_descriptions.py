"""Clusters in words, as markup."""

import pytest

from fedkin.core import FedkinError
from fedkin.report.cluster_descriptions import ClusterDescriptions, described_clusters


def view(**changes):
    fields = {
        "clusters": [0, 1], "sentences": ["Cluster 0: <old>.", "Cluster 1: young."], "columns": ["age", "noise"],
        "effects": [0.9, 0.0], "cells": [["70 ± 5", "30 ± 5"], ["1", "1"]], "shifts": [[1.0, -9.0], [0.0, 0.0]],
        "notes": ["Without south."], "min_effect": 0.06,
    }  # fmt: skip
    return ClusterDescriptions(**{**fields, **changes})


def test_sentences_stand_above_the_table_and_are_escaped():
    markup = described_clusters(view())
    assert "&lt;old&gt;" in markup
    assert markup.index("young") < markup.index("Without south") < markup.index("70 ± 5")


def test_cells_are_shaded_by_how_far_they_are_off():
    markup = described_clusters(view())
    assert '<td class="p3">70 ± 5</td>' in markup
    assert '<td class="n5">30 ± 5</td>' in markup
    assert '<tr class="faint"><th scope="row">noise</th>' in markup


def test_long_names_and_categories_are_broken_into_lines():
    markup = described_clusters(
        view(
            columns=["age", "n" * 30],
            cells=[["70 ± 5", "30 ± 5"], ["c" * 30, "1"]],
            typical=[["70", "30"], ["d" * 30, "1"]],
            typical_rows=[12, 10],
        )
    )
    assert markup.count(f'<th scope="row" class="long">{"n" * 30}</th>') == 2
    assert f'<td class="p0 long">{"c" * 30}</td>' in markup or f'<td class="n0 long">{"c" * 30}</td>' in markup
    assert f'<td class="long">{"d" * 30}</td>' in markup
    assert markup.count("long") == 4


def test_a_cell_too_few_is_refused():
    with pytest.raises(FedkinError):
        view(cells=[["70"], ["1", "1"]])


def test_typical_samples_stand_below_where_they_are_known():
    assert "Typical samples" not in described_clusters(view())
    markup = described_clusters(view(typical=[["71", "<5"], ["1", "–"]], typical_rows=[12, 10]))
    assert markup.index("70 ± 5") < markup.index("Typical samples") < markup.index("<td>71</td><td>&lt;5</td>")
    assert "<td>12</td><td>10</td>" in markup
    with pytest.raises(FedkinError):
        view(typical=[["71", "5"]], typical_rows=[12, 10])
