"""The space: a grid of discrete columns is no cluster, and what neighbours differ by does not count."""

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.clustering.metrics import adjusted_rand, pooled
from fedkin.core import Client, FedkinError
from fedkin.data.blocks import common_blocks
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.kingraph_space import client_features, client_points, described, send_columns


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


def test_empty_cells_are_no_value_and_their_indicator_is_discrete():
    one = table(80)
    one.loc[::7, "stage"] = np.nan
    one.loc[::9, "length"] = np.nan
    found = blocks_of([one, table(60, 1)], indicator=True)
    assert found["stage"][0] >= 0
    assert found["length"][0] == -1
    assert found["length"][1] >= 0


def test_columns_of_arrays_are_looked_at_too():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.column_stack([rng.normal(size=50), rng.integers(0, 2, 50)])).float()
    assert send_columns.run([Client(0, x)], [{}])[0]["blocks"].tolist() == [-1, 1]


def test_a_client_without_rows_cannot_tell():
    assert send_columns.run([Client(0, torch.zeros(0, 3))], [{}])[0]["blocks"].tolist() == [-2, -2, -2]


def test_indicators_in_arrays_are_one_column():
    rng = np.random.default_rng(0)
    kinds = np.eye(4)[np.r_[rng.integers(0, 3, 50), rng.integers(0, 4, 50)]]  # a client lacks the fourth
    x = np.column_stack([rng.integers(0, 2, 100), rng.normal(size=100), (kinds - kinds.mean(0)) / 0.3, kinds[:, :2]])
    clients = [Client(at, part) for at, part in enumerate(torch.from_numpy(x).float().split(50))]
    assert described(LocalFederation(clients, seed=0), private=False).blocks.tolist() == [0, -1, 2, 2, 2, 2, 6, 7]
    own = [send_columns.run([client], [{}])[0]["blocks"] for client in clients]
    of_another_width = torch.zeros(3, dtype=torch.int64)
    assert common_blocks([*own, of_another_width], 8).tolist() == [0, -1, 2, 2, 2, 2, 6, 7]


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


def test_random_categories_are_one_cluster():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{at}": rng.choice(list("abcd"), 1_200) for at in range(8)})
    model = fedkin.KinGraph(random_state=0).fit([frame[at::3].reset_index(drop=True) for at in range(3)])
    assert model.n_clusters_ == 1


def test_a_random_category_beside_numbers_changes_nothing():
    frame, _ = latent(600, 0, 6, seed=1)
    parts = [frame[at::3].reset_index(drop=True) for at in range(3)]
    alone = np.concatenate(fedkin.KinGraph(random_state=0).fit(parts).labels_)
    rng = np.random.default_rng(0)
    more = [part.assign(colour=rng.choice(list("rgb"), len(part))) for part in parts]
    beside = np.concatenate(fedkin.KinGraph(random_state=0).fit(more).labels_)
    assert adjusted_rand(alone, beside) > 0.98


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


@pytest.mark.parametrize(("number", "right"), [("auto", 3), (3, 4)])
def test_a_random_column_hides_no_clusters_of_small_clients(number: int | str, right: int):
    """Without differences between neighbours it cuts three clouds into six."""
    found = []
    for seed in range(4):
        rng, truth = generator(seed), torch.arange(150) % 3
        clouds = torch.tensor([[0.0, 0], [8, 0], [0, 8]])[truth] + torch.randn(150, 2, generator=rng)
        x = torch.cat([clouds, torch.rand(150, 1, generator=rng)], dim=1)
        clients = [Client(i, part) for i, part in enumerate(((x - x.mean(0)) / x.std(0)).split(50))]
        method, fed = KinGraphMethod(n_clusters=number), LocalFederation(clients, 0)
        state = method.init(fed)
        while not state.finished:
            state, _ = method.step(fed, state)
        found.append(adjusted_rand(truth, pooled([client.state["clusters"] for client in clients])))
    assert sum(index > 0.95 for index in found) >= right


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
