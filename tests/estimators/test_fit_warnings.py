"""What looks wrong in the data is a warning of fit, and what was done with them is a note alone."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import fedkin


def meters(seed: int, scale: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = rng.normal(5, 1, (60, 2)) + 6 * rng.integers(0, 2, (60, 1))
    return scale * pd.DataFrame(rows, columns=["night", "day"])


def test_another_unit_is_one_warning_where_fit_is_called() -> None:
    clients = {"north": meters(0), "south": meters(1), "west": meters(2, 1000)}
    with pytest.warns(UserWarning, match="at client west: 'night' .about .* times larger") as said:
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
