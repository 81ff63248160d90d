"""Angles between subspaces."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from fedkin.clustering.subspace_angles import angles_between


def sets(*seeds: int, count: int = 3, features: int = 8) -> torch.Tensor:
    drawn = [torch.randn(count, features, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(drawn)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_smallest_angle_is_scipys(count):
    three = sets(0, 1, 2, count=count)
    found = angles_between(three, "smallest")
    for one in range(3):
        for other in range(one):
            expected = np.degrees(subspace_angles(three[one].T.numpy(), three[other].T.numpy()).min())
            assert float(found[one, other]) == pytest.approx(expected, abs=1e-4)
    assert torch.equal(found, found.T)


def test_the_mean_angle_is_of_vectors_that_both_have_whatever_their_sign():
    one = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    other = torch.tensor([[-1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    nothing = torch.zeros(3, 2)
    found = angles_between(torch.stack([one, other, nothing]), "mean")
    assert float(found[0, 1]) == pytest.approx((0 + 45) / 2, abs=1e-5)
    assert found[0, 2] == found[1, 2] == 90.0
    assert found.diagonal().tolist() == [0.0, 0.0, 0.0]
