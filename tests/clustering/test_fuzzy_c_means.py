"""Fuzzy c-means against scikit-fuzzy, k-means as its limit, and laws that hold for all points."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means, memberships_of_sets

FUZZINESS = st.sampled_from([1.01, 1.1, 1.5, 2.0, 5.0])
SEEDS = st.integers(0, 10_000)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def memberships(points: Tensor, centres: Tensor, fuzziness: float) -> Tensor:
    return memberships_of_sets(points[None], centres, fuzziness)[0]


def blobs(each: int = 40, width: int = 4, clusters: int = 3, offset: float = 0.0, seed: int = 0) -> Tensor:
    rng = generator(seed)
    centres = 6 * torch.eye(clusters, width) + offset
    return centres.repeat_interleave(each, 0) + torch.randn(clusters * each, width, generator=rng)


@pytest.mark.parametrize("fuzziness", [1.3, 2.0, 3.0])
def test_the_same_as_scikit_fuzzy(fuzziness):
    library = pytest.importorskip("skfuzzy")
    points = blobs()
    centres, shares, *_ = library.cmeans(points.double().numpy().T, 3, fuzziness, error=1e-10, maxiter=3000, seed=0)
    found = fuzzy_c_means(points, points[[0, 50, 100]], fuzziness, tolerance=1e-6)
    order = torch.cdist(found.centres, torch.from_numpy(centres).float()).argmin(1).numpy()
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(found.centres, centres[order], atol=1e-3)
    np.testing.assert_allclose(memberships(points, found.centres, fuzziness), shares[order].T, atol=1e-3)
    np.testing.assert_allclose(found.supports, shares.sum(1)[order], rtol=1e-3)


@given(SEEDS, FUZZINESS, st.integers(1, 30), st.integers(1, 5), st.sampled_from([1, 7, 100]))
@settings(max_examples=25)
def test_memberships_sum_to_one_and_do_not_depend_on_chunks(seed, fuzziness, n, k, chunk):
    rng = generator(seed)
    points, centres = torch.randn(n, 3, generator=rng), torch.randn(k, 3, generator=rng)
    whole = memberships(points, centres, fuzziness)
    assert whole.shape == (n, k)
    torch.testing.assert_close(whole.sum(1), torch.ones(n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedkin.clustering.fuzzy_c_means._CHUNK", chunk)
        torch.testing.assert_close(memberships(points, centres, fuzziness), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("fuzziness", [1.1, 2.0, 10.0])
def test_a_point_on_centres_belongs_to_them_alone(fuzziness):
    points = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    centres = torch.tensor([[3.0, 4.0], [3.0, 4.0], [1.0, 1.0]])
    shares = memberships(points, centres, fuzziness)
    torch.testing.assert_close(shares[0], torch.tensor([0.5, 0.5, 0.0]))
    assert shares[1, 2] > shares[1, 0] == shares[1, 1] > 0
    found = fuzzy_c_means(points, points.clone(), fuzziness)
    torch.testing.assert_close(found.centres, points)
