"""Truth values as labels may be written in different ways in Python, too."""

import numpy as np
import pytest

import fedkin
from fedkin.core import FedkinError

RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 2, 60)
X = np.c_[4 * TRUTH, -3 * TRUTH] + RNG.normal(size=(60, 2))
WRITTEN = {
    "numbers": TRUTH,
    "truths": TRUTH == 1,
    "texts": np.array(["no", "yes"])[TRUTH],
    "german": np.array(["Nein", "Ja"])[TRUTH],
}


def fit(*ways):
    model = fedkin.FedAvg(rounds=3, random_state=0)
    return model.fit({f"{way}{at}": (X, WRITTEN[way]) for at, way in enumerate(ways)})


@pytest.mark.parametrize(
    ("ways", "classes", "note"),
    [
        (["numbers", "texts", "numbers"], [0, 1], "Labels no/yes at client texts1 count as 0/1."),
        (["numbers", "german"], [0, 1], "Labels Ja/Nein at client german1 count as 0/1."),
        (["texts", "numbers", "texts"], ["no", "yes"], "Labels 0/1 at client numbers1 count as no/yes."),
        (["german", "texts", "texts"], ["no", "yes"], "Labels Ja/Nein at client german0 count as no/yes."),
    ],
)
def test_labels_count_as_most_clients_write_them(ways, classes, note):
    model = fit(*ways)
    assert model.classes_.tolist() == classes
    assert note in model.preparation_.notes
    assert set(model.predict(X, client=0).tolist()) == set(classes)
    for way in WRITTEN:
        assert model.score(X, WRITTEN[way], client=0) > 0.9


def test_a_single_class_at_a_client_is_known_by_its_word():
    model = fedkin.FedAvg(rounds=1, random_state=0).fit([(X, TRUTH), (X[TRUTH == 1], ["yes"] * int(TRUTH.sum()))])
    assert model.classes_.tolist() == [0, 1]


def test_other_labels_are_refused_as_before():
    for other in (["ill", "well"], ["no", "maybe"]):
        with pytest.raises(FedkinError, match="has strings for labels where Client 0 has numbers; give all the same"):
            fedkin.FedAvg(rounds=1).fit([(X, TRUTH), (X, np.array(other)[TRUTH])])
    with pytest.raises(FedkinError, match="strings for labels where fit had numbers"):
        fit("numbers", "numbers").score(X, np.array(["ill", "well"])[TRUTH], client=0)
