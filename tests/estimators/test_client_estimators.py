"""Estimators that cluster by one message each: images of digits, half of the clients with theirs turned by 90°."""

import copy
import doctest
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits

import fedkin
from fedkin.core import FedkinError
from fedkin.data.inputs.federation_input import COLLECTIONS
from fedkin.estimators import client_estimators
from fedkin.methods.clients.embedding import embedding
from fedkin.methods.clients.embedding.embedding import message_of
from fedkin.privacy.accounting import bit_epsilon

GIVE = "give clients as pairs (x, y), arrays of labels as y, or the name of the column of labels as y."
X, Y = load_digits(return_X_y=True)
IMAGES = X.reshape(-1, 8, 8) / 16
CLIENTS = [(np.rot90(IMAGES[i::14], i % 2, (1, 2)).copy(), Y[i::14]) for i in range(14)]
NEWCOMERS = CLIENTS[12:]
CLIENTS = CLIENTS[:12]
SAMPLES = [x for x, _ in CLIENTS]
FOUND = [0, 1] * 6


def quick(**options: Any) -> fedkin.Embedding:
    return fedkin.Embedding(
        **{"module": "perceptron", "rounds": 2, "learning_rate": 0.2, "pretraining_rounds": 4, "random_state": 0}
        | options
    )


@pytest.fixture(scope="module")
def model() -> fedkin.Embedding:
    return quick().fit(CLIENTS)


@pytest.fixture(scope="module")
def unlabelled() -> fedkin.Embedding:
    return quick(form="prototypes").fit(SAMPLES)


def test_clusters_messages_and_their_price_are_reported(model: fedkin.Embedding) -> None:
    assert model.client_labels_.tolist() == FOUND
    assert (model.n_clusters_, len(model.models_), model.separable_) == (2, 2, True)
    assert (model.embeddings_.shape, model.embeddings_.dtype) == ((12, 200), np.uint8)
    assert set(np.unique(model.embeddings_)) == {0, 1}
    assert model.epsilon_ == pytest.approx(200 * bit_epsilon(0.1))
    assert [entry["phase"] for entry in model.records_] == ["pre-training"] * 4 + ["embedding"] + ["training"] * 2


def test_embeddings_are_alike_within_clusters(model: fedkin.Embedding) -> None:
    first, second = (model.embeddings_[np.array(FOUND) == cluster].mean(0) for cluster in (0, 1))
    assert np.abs(first - second).mean() > 0.2


def test_codes_of_samples_have_other_uses(model: fedkin.Embedding) -> None:
    codes = model.transform(IMAGES[:40])
    assert codes.shape == (40, model.embeddings_.shape[1] // 10)
    assert codes.dtype == np.float32
    first, second = model.transform([IMAGES[:40], IMAGES[40:50]])
    assert np.array_equal(first, codes)
    assert np.allclose(model.transform({"north": IMAGES[40:50]})["north"], second)
    found = fedkin.KinGraph(n_clusters=3, features=model.transform, random_state=0).fit([IMAGES[:90], IMAGES[90:180]])
    assert found.transform(IMAGES[:5]).shape[0] == 5
    with pytest.raises(FedkinError, match="The samples have shape"):
        model.transform(np.zeros((3, 7)))


def test_newcomers_are_placed_and_served(model: fedkin.Embedding) -> None:
    assert [model.assign(x, y) for x, y in NEWCOMERS] == [0, 1]
    x, y = NEWCOMERS[1]
    assert model.score(x, y, cluster=1) > model.score(x, y, cluster=0)
    with pytest.raises(
        FedkinError, match=r"^The data given has no labels, which a newcomer needs to find its cluster\.$"
    ):
        model.assign(x)


def test_a_newcomers_message_follows_from_the_seed(model: fedkin.Embedding, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def listened(*arguments: Any) -> Any:
        message, remembered = message_of(*arguments)
        sent.append(message)
        return message, remembered

    monkeypatch.setattr(embedding, "message_of", listened)
    for _ in range(2):
        model.assign(*NEWCOMERS[0])
    assert torch.equal(*sent)


def test_a_budget_is_kept_and_no_flips_cost_everything() -> None:
    assert quick(epsilon=50.0, rounds=1).fit(CLIENTS).epsilon_ == pytest.approx(50)
    bare = quick(flip=0.0, rounds=1).fit(CLIENTS)
    assert bare.epsilon_ == math.inf
    assert bare.client_labels_.tolist() == FOUND


def test_messages_that_are_noise_show_no_clusters() -> None:
    model = quick(flip=0.5, rounds=1, pretraining_rounds=1).fit(CLIENTS)
    assert not model.separable_
    assert model.client_labels_.tolist() == [0] * 12
    assert model.epsilon_ == 0


def test_clients_need_no_labels(unlabelled: fedkin.Embedding) -> None:
    assert unlabelled.client_labels_.tolist() == FOUND
    assert (unlabelled.models_, unlabelled.classes_.tolist(), unlabelled.n_clusters_) == ([], [], 2)
    assert [unlabelled.assign(x) for x, _ in NEWCOMERS] == [0, 1]
    assert [entry["phase"] for entry in unlabelled.records_] == ["pre-training"] * 4 + ["embedding"]


@pytest.mark.parametrize("whose", [{}, {"client": 0}, {"cluster": 0}])
@pytest.mark.parametrize("ask", ["predict", "predict_proba"])
def test_without_labels_there_are_no_models(ask: str, whose: dict[str, int], unlabelled: fedkin.Embedding) -> None:
    with pytest.raises(FedkinError) as raised:
        getattr(unlabelled, ask)(SAMPLES[0], **whose)
    assert str(raised.value) == "The clients of fit had no labels, so there are clusters but no models to predict with."


def test_a_pair_without_labels_is_samples_alone(unlabelled: fedkin.Embedding) -> None:
    other = quick(form="prototypes").fit([(x, None) for x in SAMPLES])
    assert np.array_equal(other.embeddings_, unlabelled.embeddings_)


def test_prototypes_of_labelled_clients_get_models() -> None:
    model = quick(form="prototypes").fit(CLIENTS)
    assert model.client_labels_.tolist() == FOUND
    assert model.score(*CLIENTS[1], client=1) > 0.3
    assert [model.assign(x) for x, _ in NEWCOMERS] == [model.assign(x, y) for x, y in NEWCOMERS] == [0, 1]


@pytest.mark.parametrize(
    ("form", "given", "sentence"),
    [
        ("classes", SAMPLES, f"Client 0 has no labels; {GIVE}"),
        ("classes", [(SAMPLES[0], None)], f"Client 0 has no labels; {GIVE}"),
        (
            "prototypes",
            [SAMPLES[0], CLIENTS[1]],
            f"Client 0 has no labels, unlike Client 1; {GIVE}",
        ),
        (
            "prototypes",
            [CLIENTS[0], (SAMPLES[1], None)],
            f"Client 1 has no labels, unlike Client 0; {GIVE}",
        ),
        ("prototypes", SAMPLES[0], f"fit takes {COLLECTIONS}; got a single array and no labels."),
        ("prototypes", [], "The list of clients is empty; at least one is needed."),
        (
            "prototypes",
            [(1, 2, 3)],
            f"fit takes {COLLECTIONS}; got a single table.",
        ),
    ],
)
def test_clients_that_cannot_be_used_are_refused(form: str, given: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        quick(form=form).fit(given)
    assert str(raised.value) == sentence


def test_the_seed_decides_and_copies_do_the_same(model: fedkin.Embedding) -> None:
    x, y = NEWCOMERS[1]
    for twin in (clone(model).fit(CLIENTS), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(twin.embeddings_, model.embeddings_)
        assert torch.equal(twin.result_["models"], model.result_["models"])
        assert twin.assign(x, y) == 1
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(CLIENTS).embeddings_, model.embeddings_)


def test_a_list_among_the_defaults_is_each_estimators_own() -> None:
    first, second = fedkin.Embedding(), fedkin.Embedding()
    first.flips.append(0.2)
    assert (second.flips, fedkin.Embedding().flips) == ([], [])
    assert clone(fedkin.Embedding(flips=[0.1, 0.2])).flips == [0.1, 0.2]
    assert repr(second) == "Embedding()"


@pytest.mark.parametrize("style", ["class", "client"])
def test_ladd_clusters_by_brightness(style: str) -> None:
    bright = [(np.clip(IMAGES[i::8] * 0.5 + 0.5 * (i < 3), 0, 1), Y[i::8]) for i in range(6)]
    dark = (IMAGES[6::8] * 0.5, Y[6::8])
    model = fedkin.LADD(module="perceptron", rounds=1, n_clusters=2, style=style, random_state=0).fit(bright)
    labels = model.client_labels_
    assert labels.tolist() == [labels[0]] * 3 + [labels[3]] * 3
    assert labels[0] != labels[3]
    assert model.assign(*dark) == labels[3]
    if style == "client":
        assert model.assign(dark[0]) == labels[3]
    else:
        with pytest.raises(FedkinError, match="has no labels, which a newcomer needs"):
            model.assign(dark[0])


def test_the_documented_example_is_true() -> None:
    outcome = doctest.testmod(client_estimators)
    assert outcome.attempted > 5
    assert outcome.failed == 0
