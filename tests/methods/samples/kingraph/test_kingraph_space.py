"""The space: a grid of discrete columns is no cluster, and what neighbours differ by does not count."""

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.clustering.metrics import adjusted_rand, pooled
from fedkin.core import Client, FedkinError
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.kingraph_space import client_features, client_points, described


def blocks_of(frames, **options):
    clients = ClientFiles(frames).build().clients
    fed = LocalFederation(clients, seed=0)
    encoding = prepare(fed, PreparingOptions(**options)).encoding
    blocks = described(fed, private=False).blocks.tolist()
    return {name: blocks[start:end] for name, start, end in encoding.blocks}


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "length": rng.normal(size=rows),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], rows),
            "smokes": rng.choice(["yes", "no"], rows),
            "stage": rng.integers(1, 4, rows).astype(float),
            "grade": rng.integers(1, 6, rows),
        }
    )


def test_categories_truths_and_numbers_of_three_values_are_discrete():
    found = blocks_of([table(60), table(60, 1)])
    assert found["length"] == [-1]
    assert found["grade"] == [-1]
    assert len(set(found["town"])) == 1
    assert found["town"][0] >= 0
    assert found["smokes"][0] >= 0
    assert found["stage"][0] >= 0
    assert len({found["town"][0], found["smokes"][0], found["stage"][0]}) == 3


def test_a_number_is_continuous_if_it_is_at_one_client():
    one, other = table(60), table(60, 1)
    other["stage"] = np.arange(60.0)
    assert blocks_of([one, other])["stage"] == [-1]


def test_a_client_with_few_rows_cannot_tell():
    one, other = table(60), table(60, 1)
    assert blocks_of([one, other[:4]])["length"] == [-1]
    assert blocks_of([one[:4], other[:4]])["length"] == [-1]
    assert blocks_of([one, other[:4]])["stage"] != [-1]


def latent(rows, columns, numbers, seed, classes=4):
    """Rows of four classes, whose categories depend on the class alone."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    frame = pd.DataFrame(
        rng.normal(size=(classes, numbers))[truth] * 2.2 + rng.normal(size=(rows, numbers)),
        columns=[f"n{at}" for at in range(numbers)],
    )
    for at in range(columns):
        shares = rng.dirichlet(np.full(4, 0.35), classes)
        frame[f"c{at}"] = [rng.choice(list("abcd"), p=shares[own]) for own in truth]
    return frame, truth


@pytest.mark.parametrize(("columns", "numbers"), [(10, 0), (4, 5)], ids=["categories", "mixed"])
@pytest.mark.parametrize("common", [False, True])
def test_clusters_of_many_rows_are_not_cut_by_category(columns, numbers, common):
    frame, truth = latent(1_500, columns, numbers, seed=0)
    parts = [frame[at::3].reset_index(drop=True) for at in range(3)]
    model = fedkin.KinGraph(common_micro_clusters=common, random_state=0).fit(parts)
    found = np.concatenate(model.labels_)
    assert adjusted_rand(np.concatenate([truth[at::3] for at in range(3)]), found) > 0.85
    assert np.array_equal(model.predict(parts[0]), model.labels_[0])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("power", "least", "most"), [(0.0, -0.1, 0.6), (1.0, 0.9, 1.0)])
def test_columns_of_noise_hide_no_clusters(power: float, least: float, most: float):
    rng = generator()
    truth = torch.arange(900) % 4
    clusters = 6 * torch.eye(4)[truth] + torch.randn(900, 4, generator=rng)
    x = torch.cat([clusters, 4 * torch.randn(900, 12, generator=rng)], dim=1)
    clients = [Client(i, x[i::3]) for i in range(3)]
    method = KinGraphMethod(n_clusters=4, standardise=False, local_whitening=power)
    fed = LocalFederation(clients, 0)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    found = adjusted_rand(pooled([truth[i::3] for i in range(3)]), pooled([c.state["clusters"] for c in clients]))
    assert least <= found <= most


@pytest.mark.parametrize(("samples", "least", "whitened"), [(1, 1, False), (9, 5, False), (10, 5, True)])
def test_clients_with_few_samples_have_no_say(samples: int, least: int, whitened: bool):
    x = torch.randn(12 * samples, 3, generator=generator())
    clients = [Client(i, part) for i, part in enumerate(x.split(samples))]
    method, fed = KinGraphMethod(min_members=least), LocalFederation(clients, 0)
    state = method.init(fed)
    while not state.finished:
        before, (state, _) = state, method.step(fed, state)
        if state.whitened and not before.whitened:
            assert torch.equal(state.directions, before.directions) is not whitened
    assert state.counts.sum() == 12 * samples


@pytest.mark.parametrize("levels", [2, 4])
def test_random_categories_hide_no_clusters(levels: int):
    rng = generator()
    truth = torch.arange(900) % 3
    clusters = 8 * torch.eye(3)[truth] + torch.randn(900, 3, generator=rng)
    categories = torch.eye(levels)[torch.randint(levels, (900,), generator=rng)]
    categories = (categories - 1 / levels) * 4 / (1 - 1 / levels) ** 0.5  # the block varies as much as a column
    x = torch.cat([clusters, categories], dim=1)
    clients = [Client(i, x[i::3]) for i in range(3)]
    method, fed = KinGraphMethod(), LocalFederation(clients, 0)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    found = adjusted_rand(pooled([truth[i::3] for i in range(3)]), pooled([c.state["clusters"] for c in clients]))
    assert found > 0.95


SPACES = "fedkin.methods.samples.kingraph.kingraph_space"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: torch.cat([rows, rows[:1]]),
        lambda rows: rows[1:],
        lambda rows: rows.repeat(2, 1),
        lambda rows: rows[:, None],
        lambda rows: rows[:, 0],
    ],
    ids=["one more", "one less", "twice as many", "three dimensions", "one dimension"],
)
def test_features_that_are_not_one_row_per_sample_are_refused(spoil, monkeypatch: pytest.MonkeyPatch):
    """A sample with two rows would weigh twice in every sum, whatever a privacy budget allows."""
    space = {"features": "unit", "projection": None, "bound": 1.0}
    client = Client(0, torch.rand(6, 3))
    monkeypatch.setattr(f"{SPACES}.features_of", lambda space, x: spoil(x))
    with pytest.raises(FedkinError, match=r"^Features 'unit' are not one row of numbers per sample\.$"):
        client_features(client, space)
    monkeypatch.setattr(f"{SPACES}.features_of", lambda space, x: x)
    assert client_features(client, space).shape == (6, 3)  # what was refused was not kept


@pytest.mark.parametrize("rows", [2, 40])
def test_a_mean_of_several_rows_makes_no_more_points_of_a_sample(rows: int):
    """The server names the mean; with one sample its rows would become as many points."""
    space = {"features": "raw", "projection": None, "bound": None, "directions": torch.eye(3)}
    client = Client(0, torch.rand(1, 3))
    with pytest.raises(FedkinError, match=rf"^Points of 1 samples have shape \({rows}, 3\), not one row each\.$"):
        client_points(client, space | {"mean": torch.zeros(rows, 3)})
    assert client_points(client, space | {"mean": torch.zeros(3)}).shape == (1, 3)
