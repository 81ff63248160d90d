"""What a fitted estimator shows of its clusters."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

import fedkin

WINE, _ = load_wine(return_X_y=True, as_frame=True)
CLIENTS = {"<script>north": WINE[::2].reset_index(drop=True), "south": WINE[1::2].reset_index(drop=True)}


@pytest.fixture(scope="module")
def model() -> fedkin.KFed:
    return fedkin.KFed(n_clusters=3, random_state=0).fit(CLIENTS).rename({1: "<b>frail"})


@pytest.mark.parametrize(
    ("name", "meant"), [("to_excel", "to_frame"), ("centroids_", "cluster_centers_"), ("labels", "labels_"), ("x9", "")]
)
def test_names_of_other_libraries_get_the_one_that_is_meant(model: fedkin.KFed, name: str, meant: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(model, name)
    assert str(caught.value) == f"KFed has no attribute '{name}'{meant and f'; there is {meant}'}."
    assert not hasattr(model, "_no_such")


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


def test_plots_are_pages_of_what_there_is(model: fedkin.KFed, tmp_path: Path) -> None:
    kinds = {"map": ["map"], "profile": ["descriptions"], "sizes": ["sizes"]}
    assert {kind: [part.anchor for part in model.plot(kind).view.parts] for kind in kinds} == kinds
    (drawn,), sizes = model.plot("map").view.parts[0].figures, model.plot("sizes")
    frame = model.to_frame().set_index(["client", "sample"])["cluster"]
    rows = [(list(CLIENTS)[client], int(row)) for client, row in zip(drawn.clients, drawn.ids, strict=True)]
    assert frame[rows].tolist() == drawn.cuts[drawn.chosen].tolist()
    assert len(rows) == 178
    (table,) = sizes.view.parts[0].figures
    assert [(name, cells[-1].text) for name, cells in table.rows] == [(name, "89") for name in CLIENTS]
    sizes.save(tmp_path / "sizes.html")
    page = (tmp_path / "sizes.html").read_text()
    assert "<b>frail" not in page
    assert "<script>north" not in page
    with pytest.raises(fedkin.FedkinError, match="scales"):
        model.plot("scales")


def test_a_notebook_shows_a_plot_and_a_copy_without_samples_has_no_map(model: fedkin.KFed) -> None:
    shown = model.plot("map")._repr_html_()
    assert shown.startswith("<iframe")
    assert shown.count("&lt;circle") == 178
    copied = pickle.loads(pickle.dumps(model))
    with pytest.raises(fedkin.FedkinError):
        copied.plot("map")


def test_a_cut_is_mapped_with_its_own_clusters_and_all_scales() -> None:
    graph = fedkin.KinGraph(random_state=0).fit(CLIENTS)
    cut = graph.cut(2)
    (drawn,) = cut.plot("map").view.parts[0].figures
    assert drawn.scales[drawn.chosen].endswith("(found)")
    assert set(drawn.cuts[drawn.chosen]) == set(np.concatenate(cut.labels_))  # one of two may keep its number
    assert len(drawn.cuts) == len(cut.scales_)
