"""Units of squares, and tables of numbers of any size."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedkin
from fedkin.clustering.metrics import adjusted_rand
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.data.statistics import unit_of
from fedkin.engines.local import LocalFederation

LARGE = {"debt": 3e13, "milliseconds": 1.7e12, "nanoseconds": 1.7e18}


@given(reach=st.floats(1e-140, 1e20))
def test_a_unit_is_a_power_of_two_at_least_as_large(reach: float) -> None:
    unit = float(unit_of(torch.tensor([reach], dtype=torch.float64)))
    assert reach <= unit <= 2 * reach
    assert np.frexp(unit)[0] == 0.5
    assert unit_of(torch.zeros(2)).tolist() == [1, 1]


def large(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 120)
    own = {name: size * (1 + 0.1 * truth + 0.01 * rng.normal(size=120)) for name, size in LARGE.items()}
    return pd.DataFrame(own).assign(small=1e-9 * (truth + 0.1 * rng.normal(size=120))), truth


@pytest.mark.parametrize("model", [fedkin.KinGraph(n_clusters=3), fedkin.KFed(n_clusters=3)], ids=["kin-graph", "kfed"])
def test_numbers_of_any_size_are_clustered(model: fedkin.KinGraph | fedkin.KFed) -> None:
    frames, truths = zip(*(large(seed) for seed in range(3)), strict=True)
    found = model.set_params(random_state=0).fit(list(frames))
    assert adjusted_rand(np.concatenate(truths), np.concatenate(found.labels_)) == 1


@pytest.mark.parametrize("secure", [False, True])
def test_they_are_standardised_by_sums_open_or_hidden(secure: bool) -> None:
    frames = [large(seed)[0] for seed in range(3)]
    clients = ClientFiles(frames).build().clients
    fed = LocalFederation(clients, seed=0)
    fed.secure_sums = secure
    prepare(fed, PreparingOptions(scaling="standard"))
    x, raw = torch.cat([client.x for client in clients]), pd.concat(frames)
    wanted = torch.from_numpy(((raw - raw.mean()) / raw.std(ddof=0)).to_numpy()).float()
    columns = slice(None, 3) if secure else slice(None)  # a secure sum has fixed point
    torch.testing.assert_close(x[:, columns], wanted[:, columns], atol=1e-4, rtol=1e-4)
