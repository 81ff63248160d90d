"""Words that distinguish clusters of texts, and what of them leaves a client."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import HashingVectorizer

import fedkin
from fedkin.core import Client
from fedkin.core.client import Samples
from fedkin.data.cluster_words import (
    count_words,
    send_shared_words,
    send_word_digests,
    words_of_clusters,
)
from fedkin.data.options import TableOptions
from fedkin.data.preparation import restore_preparation
from fedkin.data.sources import load
from fedkin.deploy.server_app import serve
from fedkin.deploy.site_app import keep
from fedkin.engines.local import LocalFederation
from fedkin.engines.site import Site
from fedkin.experiment.config import load_config
from fedkin.features.encoders import Encoder
from fedkin.secure_aggregation.client_tasks import TAG, SiteIdentity, send_key
from nodes import nodes_of

PUMPS, INVOICES = ["oil leaks below the pump", "the pump leaks"], ["the invoice was paid twice", "wrong invoice"]
SMITH = ["ms smith has the pump"] * 9 + PUMPS * 3
WORDS = HashingVectorizer(n_features=64, stop_words="english").transform


def client(number: int, texts: list[str], clusters: list[int], **more: int) -> Client:
    state = {"clusters": torch.tensor(clusters)}
    noise = torch.Generator().manual_seed(number)  # as in a simulation
    return Client(
        number, torch.zeros(len(texts), 2), state=state, samples=Samples("texts", texts, "x"), noise=noise, **more
    )


def federation(*more: Client) -> LocalFederation:
    ours = [client(at, PUMPS * 4 + INVOICES * 4, [0] * 8 + [1] * 8) for at in range(2)]
    return LocalFederation([*ours, *more], 0)


def group(*clients: Client) -> dict[str, Any]:
    keys = [send_key.run([each], [{}])[0]["key"] for each in clients]
    ids = [each.id for each in clients]
    return {"ids": ids, "keys": torch.stack(keys), "tag": torch.zeros(TAG, dtype=torch.uint8), "min_members": 5}


def test_clusters_are_named_by_what_others_lack() -> None:
    pumps, invoices = words_of_clusters(federation(), 2)
    assert {"pump", "leaks"} <= set(pumps)
    assert invoices[0] == "invoice"
    assert "the" not in pumps + invoices


def test_a_word_of_one_client_alone_never_leaves_it() -> None:
    ours, other = client(0, SMITH, [0] * 15), client(1, PUMPS * 8, [0] * 16)
    asked = group(ours, other)
    digests = [send_word_digests.run([each], [asked])[0]["digests"] for each in (ours, other)]
    [reply] = send_shared_words.run([ours], [asked | {"digests": digests[1][0]}])
    assert reply["words"] == ["leaks", "pump", "the"]
    # Neither its own digests, sent back to it, nor those of another request make it say more, ...
    assert send_shared_words.run([ours], [asked | {"digests": digests[0].flatten(0, 1)}])[0]["words"] == []
    later = asked | {"tag": torch.ones(TAG, dtype=torch.uint8), "digests": digests[1][0]}
    assert send_shared_words.run([ours], [later])[0]["words"] == []
    # ... and of words that a server guesses it counts none but those.
    send_shared_words.run([ours], [asked | {"digests": digests[1][0]}])
    [counted] = count_words.run([ours], [{"min_members": 5, "n_clusters": 1, "words": ["pump", "smith"]}])
    assert counted["counts"].tolist() == [[15, 0]]
    ours.identity = SiteIdentity("run", None, {"south": "the key of a site that is not in the group"})
    assert send_word_digests.run([ours], [asked]) == [{}]


def test_words_and_cells_of_few_texts_are_not_reported() -> None:
    payload = {"min_members": 1, "n_clusters": 2, "words": ["common", "rare", "word"]}
    for least, expected in ((0, ["common", "word"]), (20, [])):
        few, other = (
            client(at, ["rare word"] * 4 + ["common word"] * 6, [1, 0, 0, 0, 0, 0, 0, 0, 1, 1], min_members=least)
            for at in (0, 1)
        )
        asked = group(few, other)
        digests = send_word_digests.run([other], [asked])[0]["digests"]
        assert send_shared_words.run([few], [asked | {"digests": digests[0]}])[0]["words"] == expected
        [reply] = count_words.run([few], [payload])
        # One text of seven that lacks a word is hidden, too.
        assert reply["counts"].tolist() == ([[0, 0, 0], [0, 0, 0]] if least else [[7, 0, 7], [0, 0, 0]])
        assert reply["members"].tolist() == ([0, 0] if least else [7, 0])


def test_an_estimator_describes_clusters_of_texts() -> None:
    clients = [PUMPS * 5 + INVOICES * 5 for _ in range(2)]
    found = fedkin.KMeans(n_clusters=2, features=WORDS, random_state=0).fit(clients).describe()
    assert found["samples"].tolist() == [20, 20]
    assert sorted("pump" in line for line in found["words"]) == [False, True]


def test_real_sites_name_topics_of_a_text_column_by_hidden_sums(tmp_path: Path) -> None:
    sites = []
    for name, more in (("north", []), ("south", []), ("west", ["ms smith wants her money back"] * 8)):
        texts = [f"{text}, case {name} {at}" for at, text in enumerate([*(PUMPS + INVOICES) * 8, *more])]
        path = tmp_path / f"{name}.csv"
        pd.DataFrame({"ticket": texts, "hours": np.arange(len(texts)) % 4 // 2 * 9}).to_csv(path, index=False)
        options = TableOptions(encoder=Encoder(WORDS))
        read = load(str(path), options=options)
        sites.append(
            Site(name, tmp_path / name, read.x, features=read.features, table=read.table, reading=options,
                 prepare=restore_preparation)
        )  # fmt: skip
    settings = ["data.source=federation", "simulation.scenario=files", "simulation.engine=flower", "federation.sites=3"]
    outcome = serve(nodes_of(sites, keep), load_config("kfed", [*settings, "method.n_clusters=2"]), tmp_path / "out")
    assert sorted("pump" in named for named in outcome.words) == [False, True]
    asked = json.loads((tmp_path / "out" / "messages.json").read_text())
    assert any(name.endswith(f":{count_words.name}") for name in asked)
    assert count_words.name not in asked  # under masks alone
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"smith" not in written
    assert b"invoice" in written
