"""The space in which clusters of samples are scored."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.data.encoding import PreparingOptions
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.studies.compare import spaces
from fedkin.studies.compare.criteria import cohesion
from fedkin.studies.compare.prepared_samples import prepared_samples


def table(rows: int, seed: int = 0) -> tuple[list[pd.DataFrame], np.ndarray, np.ndarray]:
    """Two clusters of three numbers, two random categories, and what is a cluster by the categories."""
    rng = np.random.default_rng(seed)
    truth, letters = rng.integers(0, 2, rows), rng.integers(0, 3, (rows, 2))
    frame = pd.DataFrame(rng.normal(size=(rows, 3)) + 2.5 * truth[:, None], columns=list("uvw"))
    frame = frame.assign(ward=np.array(list("abc"))[letters[:, 0]], kind=np.array(list("xyz"))[letters[:, 1]])
    return [frame.iloc[part] for part in np.array_split(np.arange(rows), 3)], truth, letters @ [1, 3]


def test_random_categories_are_no_clusters() -> None:
    clients, truth, grid = table(900, seed=1)
    space = spaces.space_of(prepared_samples(ClientFiles(clients).build(), PreparingOptions(), 0).population, 0)
    assert cohesion(space, truth[space.rows]) > 0.05
    assert cohesion(space, grid[space.rows]) == pytest.approx(0, abs=0.01)


def test_columns_of_numbers_are_as_they_are() -> None:
    clients, *_ = table(300)
    numbers = [client.iloc[:, :3] for client in clients]
    population = prepared_samples(ClientFiles(numbers).build(), PreparingOptions(), 0).population
    space = spaces.space_of(population, 0)
    assert torch.equal(torch.from_numpy(space.points), torch.cat([client.x for client in population.clients]).double())
