"""Clusters in words, and new rows in files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

import fedkin


@pytest.fixture(scope="module")
def wines():
    wine = load_wine(as_frame=True)
    frame = wine.data.assign(town=np.random.default_rng(0).choice(["Bonn", "Ulm"], len(wine.data)))
    site = (wine.target + frame.index // 2 % 2) % 3  # two of the three kinds at each
    return {name: frame[site == at].reset_index(drop=True) for at, name in enumerate(("a", "b", "c"))}


@pytest.fixture(scope="module")
def model(wines):
    return fedkin.FFCM(n_clusters=3, random_state=0).fit(wines)


def test_describe_has_a_row_per_cluster_in_original_units(model, wines):
    frame = model.describe()
    assert frame.index.tolist() == [0, 1, 2]
    assert frame.columns[:2].tolist() == ["samples", "sentence"]
    assert 0.9 < frame["samples"].sum() / sum(map(len, wines.values())) <= 1  # a few stay at their clients
    rows = pd.concat(wines.values())
    labels = np.concatenate(model.labels_)
    for cluster in range(3):
        assert frame.loc[cluster, "proline"] == pytest.approx(rows["proline"][labels == cluster].mean(), rel=0.05)
    assert frame.columns[-1] == "town"
    assert frame["town"].isin(["Bonn", "Ulm"]).all()
    assert frame.attrs["effects"]["flavanoids"] > 0.6 > 0.05 > frame.attrs["effects"]["town"]
    assert all(text.startswith(f"Cluster {cluster} (") for cluster, text in frame["sentence"].items())


def test_new_rows_may_be_files(model, wines, tmp_path):
    own = wines["a"]
    own.to_csv(tmp_path / "new.csv", index=False)
    assert (model.predict(str(tmp_path / "new.csv")) == model.predict(own)).all()
    both = model.predict([tmp_path / "new.csv", tmp_path / "new.csv"])
    assert [len(labels) for labels in both] == [len(own)] * 2
    with pytest.raises(ValueError, match=r"nowhere\.csv' does not exist"):
        model.predict(str(tmp_path / "nowhere.csv"))
