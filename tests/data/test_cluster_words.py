"""Words that distinguish clusters of texts, and what of them leaves a client."""

from dataclasses import replace

import torch
from sklearn.feature_extraction.text import HashingVectorizer

import fedkin
from fedkin.core import Client
from fedkin.core.client import Samples
from fedkin.core.seeds import Secret
from fedkin.data.profile import telling_words, word_counts, words_of_clusters
from fedkin.engines.local import LocalFederation

PUMPS, INVOICES = ["oil leaks below the pump", "the pump leaks"], ["the invoice was paid twice", "wrong invoice"]


def client(number: int, texts: list[str], clusters: list[int], **more: int) -> Client:
    state = {"clusters": torch.tensor(clusters)}
    noise = torch.Generator().manual_seed(0)  # as in a simulation
    return Client(
        number, torch.zeros(len(texts), 2), state=state, samples=Samples("texts", texts, "x"), noise=noise, **more
    )


def federation(*more: Client) -> LocalFederation:
    ours = [client(at, PUMPS * 4 + INVOICES * 4, [0] * 8 + [1] * 8) for at in range(2)]
    return LocalFederation([*ours, *more], 0)


def test_clusters_are_named_by_what_others_lack() -> None:
    pumps, invoices = words_of_clusters(federation(), 2)
    assert {"pump", "leaks"} <= set(pumps)
    assert invoices[0] == "invoice"
    assert "the" not in pumps + invoices


def test_a_word_of_one_client_alone_names_no_cluster() -> None:
    found = words_of_clusters(federation(client(2, ["ms smith has the pump"] * 9 + PUMPS * 3, [0] * 15)), 2)
    assert "smith" not in str(found)
    assert "pump" in str(found)


def test_words_and_cells_of_few_texts_are_not_reported() -> None:
    payload = {"min_members": 1, "n_clusters": 2}
    few = client(0, ["rare word"] * 4 + ["common word"] * 6, [1, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    reply = word_counts.run([few], [payload])[0]
    assert reply["words"] == ["common", "word"]
    assert reply["members"].tolist() == [7, 0]
    assert reply["counts"].tolist() == [[7, 7], [0, 0]]  # one text of seven that lacks a word is hidden, too
    strict = client(0, ["rare word"] * 4 + ["common word"] * 6, [0] * 10, min_members=20)
    assert word_counts.run([strict], [payload])[0]["words"] == []


def test_a_real_site_sends_nothing() -> None:
    site = replace(client(0, ["ms smith has the pump"] * 9, [0] * 9), noise=Secret(bytes(32)))
    assert word_counts.run([site], [{"min_members": 5, "n_clusters": 1}]) == [{}]


def test_without_texts_or_with_secure_sums_there_are_no_words() -> None:
    assert words_of_clusters(LocalFederation([Client(0, torch.zeros(4, 2))], 0), 2) == []
    assert telling_words([], torch.zeros(2, 0), torch.zeros(2)) == [[], []]


def test_an_estimator_describes_clusters_of_texts() -> None:
    clients = [PUMPS * 5 + INVOICES * 5 for _ in range(2)]
    words = HashingVectorizer(n_features=64, stop_words="english").transform
    found = fedkin.KMeans(n_clusters=2, features=words, random_state=0).fit(clients).describe()
    assert found["samples"].tolist() == [20, 20]
    assert sorted("pump" in line for line in found["words"]) == [False, True]
