"""What a fitted estimator shows of its clusters."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

import fedkin

WINE, _ = load_wine(return_X_y=True, as_frame=True)
CLIENTS = {"<script>north": WINE[::2].reset_index(drop=True), "south": WINE[1::2].reset_index(drop=True)}


@pytest.fixture(scope="module")
def model() -> fedkin.KFed:
    return fedkin.KFed(n_clusters=3, random_state=0).fit(CLIENTS).rename({1: "<b>frail"})


def test_a_frame_has_a_row_per_sample(model: fedkin.KFed) -> None:
    frame = model.to_frame()
    assert list(frame) == ["client", "sample", "cluster", "name", "confidence"]
    north = frame[frame["client"] == "<script>north"]
    np.testing.assert_array_equal(north["cluster"], model.labels_["<script>north"])
    np.testing.assert_array_equal(north["sample"], np.arange(len(north)))
    np.testing.assert_allclose(north["confidence"], model.confidence(CLIENTS["<script>north"]), atol=1e-6)
    assert set(frame.loc[frame["cluster"] == 1, "name"]) == {"<b>frail"}
    assert set(frame.loc[frame["cluster"] != 1, "name"]) == {""}
    left = fedkin.KFed(n_clusters=3, random_state=0).fit(CLIENTS)
    left.forget("south", CLIENTS)
    forgotten = left.to_frame().query("client == 'south'")
    assert (forgotten["cluster"] == -1).all()
    assert forgotten["confidence"].isna().all()


def test_centroids_are_in_the_units_of_the_data(model: fedkin.KFed) -> None:
    columns = {name: i for i, name in enumerate(model.preparation_.columns)}
    assert sorted(columns) == sorted(WINE)
    rows = np.concatenate([frame[list(columns)] for frame in CLIENTS.values()])
    labels = np.concatenate(model.labels_)
    for cluster, centre in enumerate(model.cluster_centers_):
        spread = rows.std(axis=0)
        assert (abs(rows[labels == cluster].mean(axis=0) - centre) < spread / 2).all()
    arrays = fedkin.KMeans(n_clusters=3, random_state=0).fit([100 + WINE.to_numpy()])
    means = [100 + WINE.to_numpy()[arrays.labels_[0] == cluster].mean(axis=0) for cluster in range(3)]
    np.testing.assert_allclose(arrays.cluster_centers_, means, rtol=0.01)
    graph = fedkin.KinGraph(random_state=0).fit(CLIENTS)
    with pytest.raises(AttributeError, match="describe"):
        graph.cluster_centers_  # noqa: B018
    assert not hasattr(graph, "cluster_centers_")


def test_a_summary_has_a_line_per_cluster(model: fedkin.KFed) -> None:
    title, *lines = model.summary().splitlines()
    assert title == "KFed: 3 clusters of 178 samples of 2 clients."
    assert len(lines) == 3
    assert lines[1].startswith("Cluster 1, <b>frail (")


def test_clusters_of_clients_list_their_clients() -> None:
    rng = np.random.default_rng(0)
    clients = {name: (rng.normal(size=(40, 3)), rng.integers(0, 2, 40)) for name in ("north", "south", "west")}
    model = fedkin.Local(rounds=1, random_state=0).fit(clients).rename({2: "alone"})
    assert isinstance(model.to_frame(), pd.DataFrame)
    assert model.to_frame()["name"].tolist() == ["", "", "alone"]
    assert "Cluster 2, alone: 1 client: west." in model.summary()
