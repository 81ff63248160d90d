"""Clusters of clients by class means whose noise is known, on made-up messages."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fedkin.methods.clients.embedding.class_sums import COUNTED, ClassMeans, cluster_class_means

CLASSES, WIDTH = 4, 6


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def planted(
    labels: list[int],
    deviation: float = 1.0,
    samples: int = 100,
    seed: int = 0,
    lacking: dict[int, list[int]] | None = None,
) -> Tensor:
    """Messages of clients in clusters whose classes have means of their own, of length 1/2."""
    draws = rng(seed)
    means = torch.randn(max(labels) + 1, CLASSES, WIDTH, generator=draws)
    means = 0.5 * torch.nn.functional.normalize(means, dim=2)
    messages = []
    for client, label in enumerate(labels):
        counts = torch.full((CLASSES,), float(samples))
        counts[(lacking or {}).get(client, [])] = 0
        spread = torch.randn(CLASSES, WIDTH, generator=draws) * (0.75 / WIDTH) ** 0.5  # of vectors of length 1
        exact = torch.cat(
            [counts[:, None] * means[label] + counts.sqrt()[:, None] * spread, COUNTED * counts[:, None]], 1
        )
        messages.append((exact + deviation * torch.randn(exact.shape, generator=draws)).flatten())
    return torch.stack(messages)


def found(messages: Tensor, deviation: float = 1.0, min_size: int = 2) -> list[int]:
    return cluster_class_means(ClassMeans.of(messages, CLASSES, deviation), min_size, rng()).labels.tolist()


def test_means_and_their_variances_are_those_of_sums_and_counts():
    message = torch.tensor([[[30.0, 40.0, 0.5 * 100], [1.0, 1.0, 0.1]]]).flatten(1)
    means = ClassMeans.of(message, 2, deviation=2.0)
    assert means.noise == 4.0
    assert means.present.tolist() == [[True, False]]
    np.testing.assert_allclose(means.means[0], [[0.3, 0.4], [0.0, 0.0]])
    added = (2.0 / 100) ** 2
    spread = 1 - 0.25 + 2 * added
    assert means.variances[0, 0] == pytest.approx(added + 1.8 * spread / (2 * 100))


@pytest.mark.parametrize("deviation", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("n", [1, 3, 8, 40])
def test_where_there_is_nothing_but_noise_there_is_one_cluster(n, deviation):
    for seed in range(3):
        assert found(planted([0] * n, deviation, seed=seed), deviation) == [0] * n


def test_a_class_that_a_client_lacks_does_not_part_it_from_its_cluster_but_most_of_them_do():
    some = planted([0, 0, 0, 1, 1, 1], lacking={0: [2], 4: [0]})
    assert found(some) == [0, 0, 0, 1, 1, 1]
    most = planted([0] * 6, lacking={0: [2, 3], 1: [2, 3], 2: [2, 3], 3: [0, 1], 4: [0, 1], 5: [0, 1]})
    assert found(most) == [0, 0, 0, 1, 1, 1]
    one = planted([0] * 6, lacking={0: [1, 2, 3], 3: [0], 4: [0], 5: [0]})
    assert found(one) == [0] * 6  # too few for a cluster
