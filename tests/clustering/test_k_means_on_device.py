import numpy as np
import torch
from sklearn.cluster import KMeans

from fedkin.clustering.k_means_on_device import _lloyd, best_of_starts


def drawn(n: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, width, generator=torch.Generator().manual_seed(seed))


def test_it_is_scikit_learns_to_rounding() -> None:
    for seed in range(3):
        x = drawn(400, 5, seed)
        theirs = KMeans(6, n_init=4, random_state=seed, algorithm="lloyd").fit(x.numpy())
        centres, labels, iterations = best_of_starts(x, 6, 4, 300, seed)
        assert np.array_equal(labels.numpy(), theirs.labels_)
        assert np.allclose(centres.numpy(), theirs.cluster_centers_, atol=1e-5)
        assert iterations == theirs.n_iter_


def test_a_cluster_that_loses_its_points_gets_the_farthest_one() -> None:
    x = torch.tensor([[0.0], [0.1], [0.2], [10.0], [10.1], [30.0]])
    with_empty = torch.tensor([[[0.1], [10.0], [-500.0]]])  # nothing is nearest to the last
    centres, labels, _ = _lloyd(x, with_empty, 300)
    assert labels.tolist() == [[0, 0, 0, 1, 1, 2]]
    assert torch.allclose(centres[0, :, 0], torch.tensor([0.1, 10.05, 30.0]))
