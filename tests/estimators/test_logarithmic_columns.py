"""Columns on a logarithmic scale in estimators: what it gives, new rows, and means in original units."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import fedkin

NAMES = ["rent", "food", "travel", "gifts"]


def amounts(seed: int = 2) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    """Two kinds of households at three clients: what one spends more of, another spends less of, by a factor of 20."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, 240)
    away = 1.5 * (2 * kinds[:, None] - 1) * np.array([-1, 1, -1, 1])
    table = pd.DataFrame(np.exp(np.log(100) + away + rng.normal(size=(240, 4))).round(2), columns=NAMES)
    return {name: table[80 * at : 80 * at + 80] for at, name in enumerate(("north", "south", "west"))}, kinds


@pytest.mark.parametrize("method", [fedkin.KinGraph, fedkin.KFed])
def test_lognormal_clusters_are_found_by_their_logarithms(method):
    clients, kinds = amounts()
    plain = method(n_clusters=2, random_state=0).fit(clients)
    scaled = method(n_clusters=2, log=NAMES, random_state=0).fit(clients)
    before, after = (adjusted_rand_score(kinds, np.concatenate(own.labels_)) for own in (plain, scaled))
    assert before < 0.5
    assert after > 0.95
    assert any("are skewed" in note for note in plain.preparation_.notes)
    assert not any("are skewed" in note for note in scaled.preparation_.notes)


def test_it_is_as_if_logarithms_had_been_taken_beforehand():
    clients, _ = amounts()
    scaled = fedkin.KinGraph(log=NAMES, random_state=0).fit(clients)
    taken = fedkin.KinGraph(random_state=0).fit({name: np.log(own) for name, own in clients.items()})
    assert (np.concatenate(scaled.labels_) == np.concatenate(taken.labels_)).all()
    assert (scaled.predict(clients["west"]) == taken.predict(np.log(clients["west"]))).all()


@pytest.fixture(scope="module")
def model():
    return fedkin.KFed(n_clusters=2, log=NAMES[:3], log1p="gifts", random_state=0).fit(amounts()[0])


def test_new_rows_are_read_in_the_same_way(model):
    new = amounts(3)[0]["north"]
    found = model.predict(new)
    assert (model.predict(new[NAMES[::-1]]) == found).all()
    assert (model.predict(new.to_numpy()) == found).all()
    with_zeros = new.assign(gifts=0.0)
    assert len(model.predict(with_zeros)) == 80
    with pytest.raises(ValueError, match=r"^Column 'rent' of .* holds 0 in row 3, but log needs .* above 0; correct"):
        model.predict(new.assign(rent=[*new["rent"][:2], 0, *new["rent"][3:]]))
    array = new.to_numpy(copy=True)
    array[5, 1] = -1
    with pytest.raises(ValueError, match=r"^Column 'food' of .* holds -1 in row 6, but log needs .* above 0; correct"):
        model.predict(array)


def test_clusters_are_described_by_geometric_means(model):
    clients, _ = amounts()
    rows, labels, frame = pd.concat(clients.values()), np.concatenate(model.labels_), model.describe()
    for cluster in range(2):
        own = rows[labels == cluster]
        assert frame.loc[cluster, "rent"] == pytest.approx(np.exp(np.log(own["rent"]).mean()), rel=0.02)
        assert frame.loc[cluster, "gifts"] == pytest.approx(np.expm1(np.log1p(own["gifts"]).mean()), rel=0.02)
        assert "rent (geometric mean " in frame.loc[cluster, "sentence"]
    assert [text.partition(" are ")[0] for text in frame.attrs["remarks"][:2]] == [
        "Means of columns 'rent', 'food', 'travel'", "Means of column 'gifts'",
    ]  # fmt: skip
    typical = model.representatives()
    assert 0.5 < (typical["rent"] / frame["rent"]).min() <= (typical["rent"] / frame["rent"]).max() < 2


def test_what_has_no_logarithm_is_refused_in_a_sentence():
    clients, _ = amounts()
    clients["north"] = clients["north"].assign(rent=[0.0] * 2 + [*clients["north"]["rent"][2:]])
    with pytest.raises(ValueError, match=r"and 2 such cells in all, .* in log1p, .* na_values=\[\.\.\.\]\) and give"):
        fedkin.KFed(n_clusters=2, log=["rent"]).fit(clients)
    with pytest.raises(ValueError, match=r"^Unknown column in log 'rents'; did you mean 'rent'\?$"):
        fedkin.KFed(n_clusters=2, log=["rents"]).fit(clients)
    with pytest.raises(ValueError, match=r"^Column 'rent' is both in categorical and in log; it can be in one\.$"):
        fedkin.KFed(n_clusters=2, log=["rent"], categorical=["rent"]).fit(clients)
