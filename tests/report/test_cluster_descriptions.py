"""Clusters in words, as markup."""

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
