import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.seeds import derive_generator
from fedkin.methods.samples.fedcref import association
from fedkin.nn.stack import Autoencoder


def planted(kinds, clients, rng, same=0.55, other=0.95, noise=0.03):
    kinds = np.asarray(kinds)
    losses = np.where(np.equal.outer(kinds, kinds), same, other) + rng.normal(0, noise, (len(kinds),) * 2)
    return losses.clip(0, 1)


def as_partition(clusters):
    return {frozenset(members) for members in clusters}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_halves_are_even_within_every_cluster(labels):
    labels = torch.tensor(labels)
    halves = association.split_halves(labels, derive_generator(0))
    for cluster in labels.unique():
        inside = halves[labels == cluster]
        assert 0 <= (inside == 0).sum() - (inside == 1).sum() <= 1


def test_a_sample_is_never_judged_by_a_model_of_its_own_half():
    model = Autoencoder((4, 3, 2))
    pairs = model.initial([derive_generator(0, k) for k in range(6)]).unflatten(0, (3, 2))
    x, halves = torch.rand(5, 4, generator=derive_generator(1)), torch.tensor([0, 1, 0, 1, 1])
    errors = association.held_out_errors(model, pairs, x, halves)
    for n in range(5):
        torch.testing.assert_close(errors[:, n], model.errors(pairs[:, 1 - halves[n]], x[n : n + 1])[:, 0])


def test_shares_count_losses_and_half_of_ties():
    own, foreign = torch.tensor([1.0, 1.0, 1.0, 1.0]), torch.tensor([[2.0, 2.0, 0.5, 1.0]])
    losses = association.loss_rates(own, foreign, torch.tensor([0, 0, 1, 1]), 2)
    assert losses.tolist() == [[1.0], [0.25]]


@given(st.integers(0, 100), st.permutations(range(12)))
def test_planted_clusters_are_found_in_any_order(seed, order):
    kinds, clients = np.array([0, 1, 2] * 4), np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    losses = planted(kinds, clients, np.random.default_rng(seed))
    clusters, cut = association.match_by_linkage(losses, clients.tolist())
    assert as_partition(clusters) == {frozenset(np.flatnonzero(kinds == kind)) for kind in range(3)}
    shuffled, other_cut = association.match_by_linkage(losses[np.ix_(order, order)], clients[order].tolist())
    assert as_partition([[order[a] for a in members] for members in shuffled]) == as_partition(clusters)
    assert cut == pytest.approx(other_cut)


@pytest.mark.parametrize(
    ("heights", "low", "high"),
    [([], 0.6, 0.8), ([0.5, 0.55, 0.95], 0.6, 0.8), ([0.5, 0.62, 0.74, 0.78], 0.62, 0.74), ([0.7], 0.6, 0.8)],
)
def test_the_cut_lies_in_the_widest_gap(heights, low, high):
    assert low <= association.choose_cut(np.array(heights)) <= high
