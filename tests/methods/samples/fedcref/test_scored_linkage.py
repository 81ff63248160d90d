import numpy as np
import pytest

from fedkin.methods.samples.fedcref.association import match_by_linkage, match_scored


def all_pairs(losses, clients):
    pairs = np.argwhere(np.triu(~np.equal.outer(clients, clients)))
    return pairs, ((losses + losses.T) / 2)[pairs[:, 0], pairs[:, 1]]


def planted(kinds, rng, noise=0.03):
    losses = np.where(np.equal.outer(kinds, kinds), 0.55, 0.95) + rng.normal(0, noise, (len(kinds), len(kinds)))
    return losses.clip(0, 1)


@pytest.mark.parametrize("seed", range(3))
def test_with_all_pairs_it_is_the_linkage_of_all(seed):
    rng, clients = np.random.default_rng(seed), np.repeat(np.arange(8), 4)
    losses = planted(np.concatenate([rng.permutation(7)[:4] for _ in range(8)]), rng)
    found, _ = match_scored(*all_pairs(losses, clients), clients.tolist())
    assert found == match_by_linkage(losses, clients.tolist())[0]


def test_few_pairs_find_what_all_pairs_find():
    rng, clients = np.random.default_rng(0), np.repeat(np.arange(60), 3)
    kinds = np.concatenate([rng.permutation(6)[:3] for _ in range(60)])
    pairs, losses = all_pairs(planted(kinds, rng), clients)
    kept = rng.random(len(pairs)) < 0.2
    found, _ = match_scored(pairs[kept], losses[kept], clients.tolist())
    assert sorted(map(tuple, found)) == sorted(tuple(np.flatnonzero(kinds == kind)) for kind in range(6))


def test_the_cut_may_be_given_or_lies_in_the_widest_gap():
    pairs, losses = np.array([[0, 1], [2, 3], [0, 2]]), np.array([0.5, 0.72, 0.9])
    assert match_scored(pairs, losses, [0, 1, 2, 3], cut=0.6)[0] == [[0, 1], [2], [3]]
    found, cut = match_scored(pairs, losses, [0, 1, 2, 3])
    assert (found, cut) == ([[0, 1], [2], [3]], pytest.approx(0.66))
