"""Estimators that cluster by one message each: images of digits, half of the clients with theirs turned by 90°."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import fedkin
from fedkin.core import FedkinError
from fedkin.privacy.accounting import bit_epsilon

X, Y = load_digits(return_X_y=True)
IMAGES = X.reshape(-1, 8, 8) / 16
CLIENTS = [(np.rot90(IMAGES[i::14], i % 2, (1, 2)).copy(), Y[i::14]) for i in range(14)]
NEWCOMERS = CLIENTS[12:]
CLIENTS = CLIENTS[:12]
FOUND = [0, 1] * 6


def quick(**options: Any) -> fedkin.Embedding:
    return fedkin.Embedding(
        **{"module": "perceptron", "rounds": 2, "learning_rate": 0.2, "pretraining_rounds": 4, "random_state": 0}
        | options
    )


@pytest.fixture(scope="module")
def model() -> fedkin.Embedding:
    return quick().fit(CLIENTS)


def test_clusters_messages_and_their_price_are_reported(model: fedkin.Embedding) -> None:
    assert model.client_labels_.tolist() == FOUND
    assert (model.n_clusters_, len(model.models_), model.separable_) == (2, 2, True)
    assert (model.embeddings_.shape, model.embeddings_.dtype) == ((12, 200), np.uint8)
    assert set(np.unique(model.embeddings_)) == {0, 1}
    assert model.epsilon_ == pytest.approx(200 * bit_epsilon(0.1))
    assert [entry["phase"] for entry in model.records_] == ["pre-training"] * 4 + ["embedding"] + ["training"] * 2


def test_newcomers_are_placed_and_served(model: fedkin.Embedding) -> None:
    assert [model.assign(x, y) for x, y in NEWCOMERS] == [0, 1]
    x, y = NEWCOMERS[1]
    assert model.score(x, y, cluster=1) > model.score(x, y, cluster=0)
    with pytest.raises(FedkinError, match=r"^The data given has no labels, which a newcomer needs to find"):
        model.assign(x)


def test_a_budget_is_kept_and_no_flips_cost_everything() -> None:
    assert quick(epsilon=50.0, rounds=1).fit(CLIENTS).epsilon_ == pytest.approx(50)
    bare = quick(flip=0.0, rounds=1).fit(CLIENTS)
    assert bare.epsilon_ == math.inf
    assert bare.client_labels_.tolist() == FOUND
