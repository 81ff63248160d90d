"""Numbers that show clusters are not outweighed by a category beside them, and categories that do are not lost."""

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.clustering.metrics import adjusted_rand, pooled
from fedkin.methods.samples.kingraph.downweighted_categories import are_better_separated


def clients(agreement, seed=0, categories=1, clear=True):
    """Three clients of three clusters, in two numbers or in categories alone, which mostly tell the cluster."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 450)
    means = np.array([[0, 5], [3, 0], [6, 5]])[truth] * clear
    table = pd.DataFrame(means + rng.normal(size=(450, 2)), columns=["alpha", "beta"])
    for at in range(categories):
        table[f"type {at}"] = np.array(list("uvw"))[np.where(rng.random(450) < agreement, truth, (truth + 1) % 3)]
    return [table[site::3] for site in range(3)], [torch.from_numpy(truth[site::3]) for site in range(3)]


def agreement_of(model, truth):
    return adjusted_rand(pooled(truth), pooled(list(model.labels_)))


@pytest.mark.parametrize("agreement", [0.6, 0.8])
@pytest.mark.parametrize("number", ["auto", 3])
def test_a_category_does_not_outweigh_two_numbers_with_clusters(agreement, number):
    tables, truth = clients(agreement)
    model = fedkin.KinGraph(n_clusters=number, random_state=0).fit(tables)
    assert agreement_of(model, truth) > 0.95
    again = torch.as_tensor(model.predict(tables[0]))  # new rows are in the same space
    assert (again == torch.as_tensor(model.labels_[0])).double().mean() > 0.95
    assert model.records_[-1]["categories_downweighted"] is True
    assert model.cut(3).n_clusters_ == 3


def test_unstable_single_and_worse_clusters_are_not_taken():
    points = torch.tensor([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    right, wrong = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 1, 0, 1, 0, 1])
    assert are_better_separated(points, right, wrong, {"stability": 0.95})
    assert not are_better_separated(points, right, wrong, {"stability": 0.94})
    assert not are_better_separated(points, torch.zeros(6, dtype=torch.int64), wrong, {"stability": 1.0})
    assert not are_better_separated(points, wrong, right, {"stability": 1.0})
