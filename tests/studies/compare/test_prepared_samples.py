import numpy as np
import pytest
import torch

from fedkin.core import Client
from fedkin.core.table import Column, Table
from fedkin.data.encoding import PreparingOptions
from fedkin.data.population import Population
from fedkin.studies.compare.prepared_samples import numbers_of, prepared_samples

COLUMNS = (Column("age"), Column("town", "category", ("Bonn", "Ulm")))


def client(i: int, seed: int) -> Client:
    rng = torch.Generator().manual_seed(seed)
    age = 50 + 10 * torch.randn(40, generator=rng, dtype=torch.float64)
    town = torch.arange(40, dtype=torch.float64) % 2
    age[3] = torch.nan
    table = Table(COLUMNS, torch.stack([age, town], 1))
    return Client(i, table.values, table=table)


def test_tables_are_encoded_as_in_a_run_and_the_population_stays_raw() -> None:
    people = Population([client(0, 0), client(1, 1)], None, [])
    found = prepared_samples(people, PreparingOptions(), seed=0)
    assert found.blocks == (("age", 0, 1), ("town", 1, 3))
    x = numbers_of(found, np.arange(80))
    assert np.isfinite(x).all()
    assert x[:, 0].std() == pytest.approx(1, abs=0.05)
    assert x[:, 1:].var(0).sum() == pytest.approx(1, abs=1e-5)  # a column counts once, whatever it is encoded as
    assert people.clients[0].x.isnan().any()
    assert not people.clients[0].state


def test_absent_clients_are_prepared_too() -> None:
    people = Population([client(i, i) for i in range(3)], None, [], absent=(2,))
    found = prepared_samples(people, PreparingOptions(), seed=0)
    assert [tuple(each.x.shape) for each in found.population.clients] == [(40, 3)] * 3
    assert found.population.clients[2].x.isfinite().all()


def test_columns_of_arrays_are_numbered_and_images_have_none() -> None:
    arrays = Population([Client(i, torch.randn(30, 2)) for i in range(2)], None, [])
    assert prepared_samples(arrays, PreparingOptions(), 0).blocks == (("column 1", 0, 1), ("column 2", 1, 2))
    images = Population([Client(i, torch.rand(5, 1, 8, 8)) for i in range(2)], None, [])
    assert prepared_samples(images, PreparingOptions(), 0).blocks == ()
