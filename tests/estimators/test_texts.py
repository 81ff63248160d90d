"""Clients that are lists of texts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.core import FedkinError

TOPICS = [
    "the engine oil pump brake wheel gear motor piston clutch",
    "goal match team player referee league ball keeper pass",
    "flour oven sugar butter bake dough yeast pastry cream",
]


def tickets(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Texts of eight words of a topic each."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(len(TOPICS), size=count)
    return [" ".join(rng.choice(TOPICS[topic].split(), 8)) for topic in topics], topics.tolist()


def by_words(texts: list[str]) -> object:
    return HashingVectorizer(n_features=64, norm="l2").fit_transform(texts)


@pytest.mark.parametrize("form", [list, np.array, pd.Series])
def test_lists_of_texts_are_clustered_by_an_encoder(form: type) -> None:
    sites = {f"site {at}": tickets(80, at) for at in range(3)}
    model = fedkin.KinGraph(n_clusters=3, features=by_words, random_state=0)
    model.fit({name: form(texts) for name, (texts, _) in sites.items()})
    topics = [topic for _, own in sites.values() for topic in own]
    assert adjusted_rand_score(topics, np.concatenate(model.labels_)) > 0.9
    new, topics = tickets(30, 7)
    assert adjusted_rand_score(topics, model.predict(new)) > 0.9
    assert model.score({"site 0": new}, {"site 0": topics}) > 0.9


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("auto", "give a function of a list of texts, or a network"),
        (lambda texts: [1.0] * len(texts), r"into an array of shape \(40,\)"),
        (lambda texts: texts, "should be numbers"),
    ],
)
def test_texts_without_an_encoder_are_refused(features: object, words: str) -> None:
    clients = [tickets(40, at)[0] for at in range(2)]
    with pytest.raises(FedkinError, match=words):
        fedkin.KinGraph(features=features).fit(clients)


def test_embeddings_made_before_are_compared_by_direction() -> None:
    clients = [tickets(60, at) for at in range(2)]
    rows = [by_words(texts).toarray() * np.linspace(1, 9, 60)[:, None] for texts, _ in clients]
    model = fedkin.KinGraph(n_clusters=3, features="embedded", random_state=0).fit(rows)
    assert adjusted_rand_score(clients[0][1] + clients[1][1], np.concatenate(model.labels_)) > 0.9


@pytest.mark.parametrize("form", [lambda x, y: (x, y), lambda x, y: {"x": x, "y": y}])
def test_labels_that_are_texts_are_no_samples(form: object) -> None:
    rng = np.random.default_rng(0)
    clients = [form(rng.normal(size=(30, 3)), ["cat"] * 15 + ["dog"] * 15) for _ in range(2)]
    model = fedkin.KMeans(n_clusters=2, random_state=0).fit(clients)
    assert set(model.metrics_["metric"]) >= {"ari", "nmi"}
    again = fedkin.KMeans(n_clusters=2, random_state=0).fit(clients, eval=clients)
    assert [one.tolist() for one in again.labels_] == [one.tolist() for one in model.labels_]
