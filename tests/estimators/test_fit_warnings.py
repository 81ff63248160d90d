"""What looks wrong in the data is a warning of fit, and what was done with them is a note alone."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import fedkin


def meters(seed: int, scale: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = rng.normal(1, 1, (60, 2)) + 6 * rng.integers(0, 2, (60, 1))
    return scale * pd.DataFrame(rows, columns=["night", "day"])


def test_another_unit_is_one_warning_where_fit_is_called() -> None:
    clients = {"north": meters(0), "south": meters(1), "west": meters(2, 1000)}
    with pytest.warns(
        UserWarning,
        match="'night', 'day' at client west are about .* times as large as at the others.* See preparation_",
    ) as said:
        model = fedkin.KFed(n_clusters=2, random_state=0).fit(clients)
    assert [one.filename for one in said] == [__file__]
    assert len(model.preparation_.questions) == 1
    assert set(model.preparation_.questions) <= set(model.preparation_.notes)
    with pytest.warns(UserWarning, match="^The data look wrong") as said:
        fedkin.KinGraph(n_clusters=2, random_state=0).fit(clients)
    assert [one.filename for one in said if "look wrong" in str(one.message)] == [__file__]


def test_what_was_done_with_the_data_is_no_warning_and_a_warning_leaves_the_model_as_it_was() -> None:
    ordinary = [
        meters(seed).assign(patient_id=range(60), town=["Ulm", "Bonn"] * 30, ward=[f"w{seed}"] * 60) for seed in (0, 1)
    ]
    ordinary[0].loc[::7, "day"] = np.nan
    model = fedkin.KFed(n_clusters=2, random_state=0).fit(ordinary)
    assert len(model.preparation_.notes) >= 3
    assert model.preparation_.questions == ()
    before = pickle.dumps(model.preparation_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="look wrong"):
            model.fit([meters(0), meters(1), meters(2, 1000)])
    assert pickle.dumps(model.preparation_) == before


def test_new_rows_in_another_unit_are_one_warning_and_rows_of_fit_none() -> None:
    rng = np.random.default_rng(0)
    clients = [pd.DataFrame(rng.uniform(60, 190, (60, 5)), columns=list("abcde")).assign(f=0.0) for _ in range(3)]
    clients[1].loc[7, "f"] = 1.0
    model = fedkin.KFed(n_clusters=2, random_state=0).fit(clients)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(clients)
        model.predict(clients[1][5:9])
    with pytest.warns(UserWarning, match=r"'a' .* about 18 times smaller .* 'c' .* \.\.\. and 2 more\.$") as said:
        model.predict(clients[0] / 18)
    assert len(said) == 1


def test_fewer_clusters_of_clients_than_were_asked_for_are_a_warning_where_fit_is_called() -> None:
    rng = np.random.default_rng(0)
    alike = [(meters(seed), rng.integers(0, 2, 60)) for seed in range(2)]
    with pytest.warns(UserWarning, match="^3 clusters were asked for, and [12] ha(s|ve) clients; another seed") as said:
        model = fedkin.IFCA(n_clusters=np.int64(3), rounds=1, random_state=0).fit(alike)
    assert [one.filename for one in said] == [__file__]
    assert len(set(model.client_labels_)) < model.n_clusters_


@pytest.mark.filterwarnings("ignore:n_clusters is 6; here there can be at most 3")
@pytest.mark.filterwarnings("ignore:.*synthetic")
@pytest.mark.parametrize("method", [fedkin.KFed, fedkin.FFCM, fedkin.FedDPKMeans, fedkin.SDAFC, fedkin.KinGraph])
def test_clusters_without_samples_are_not_counted_and_are_a_warning(method: type) -> None:
    rows = np.array([[1 / 3, 1.7], [2 / 3, 0.1], [5.0, 3.3]])
    with pytest.warns(UserWarning, match="^6 clusters were asked for, and 3 have samples") as said:
        model = method(n_clusters=6, random_state=0).fit([np.repeat(rows, 10, axis=0)] * 3)
    assert {one.filename for one in said} == {__file__}
    assert model.n_clusters_ == len(np.unique(np.concatenate(model.labels_))) == 3
