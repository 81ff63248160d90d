"""Columns of free text in tables: recognised, embedded at the client, and one block of the encoding."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.core import FedkinError
from fedkin.core.errors import FedkinWarning
from fedkin.data.inputs import load_clients
from fedkin.data.options import TableOptions

WORDS = HashingVectorizer(n_features=64, stop_words="english").transform
RNG = np.random.default_rng(0)


def complaints(rows: int, first: int = 0) -> pd.DataFrame:
    """Complaints on pumps and invoices in turn, each with a number of its own, beside a column of noise."""
    about = ["the pump leaks oil again, ticket", "our invoice was paid twice, ticket"]
    texts = [f"{about[at % 2]} {first + at}" for at in range(rows)]
    return pd.DataFrame({"age": RNG.normal(size=rows), "complaint": texts})


def test_free_text_is_recognised_and_categories_are_not() -> None:
    frame = complaints(20)
    frame["town"] = ["a town of four words", "another town of five words"] * 10
    frame["code"] = [f"X{at}" for at in range(20)]
    (read,) = load_clients([frame])
    assert read.table is not None
    assert list(read.table.texts) == ["complaint"]
    assert read.table.names == ["age", "town", "code"]
    assert list(read.table.rows(torch.tensor([3])).texts["complaint"].texts.items) == [frame.complaint[3]]
    (named,) = load_clients([frame], options=TableOptions(text=["town"], categorical=["complaint"]))
    assert named.table is not None
    assert list(named.table.texts) == ["town"]


def test_what_a_column_says_tells_rows_apart() -> None:
    clients = {"a": complaints(60), "b": complaints(60, 100)}
    clients["b"].loc[5, "complaint"] = None
    model = fedkin.KMeans(n_clusters=2, encode=WORDS, random_state=0).fit(clients)
    truth = np.tile([0, 1], 60)
    truth_of_filled = np.delete(truth, 65)
    assert adjusted_rand_score(truth_of_filled, np.delete(np.concatenate(model.labels_), 65)) > 0.9
    encoding = model.preparation_.encoding
    assert encoding is not None
    assert len(encoding.names) == encoding.width == 1 + encoding.text_directions.shape[2] <= 17
    prepared = torch.cat([model.preparation_.apply(one) for one in clients.values()])
    assert float(prepared[:, 1:].var(0, correction=0).sum()) == pytest.approx(1.0, abs=0.1)
    assert (model.predict(complaints(10, 500)) == model.labels_["a"][:10]).all()
    lines = model.describe()["words"].tolist()
    assert sorted("pump" in line for line in lines) == [False, True]
    with pytest.raises(FedkinError, match="complaint"):
        model.predict(complaints(4)[["age"]])


def test_without_an_encoder_a_warning_names_the_column_and_the_option() -> None:
    with pytest.warns(FedkinWarning, match="Column 'complaint' holds free text.*encode="):
        model = fedkin.KMeans(n_clusters=2, random_state=0).fit([complaints(30), complaints(30, 50)])
    assert model.preparation_.shape == (1,)


def test_text_alone_without_an_encoder_is_refused_with_what_to_give() -> None:
    with pytest.raises(FedkinError, match=r"holds texts.*encode="):
        fedkin.KMeans(n_clusters=2).fit([complaints(30)[["complaint"]], complaints(30, 50)[["complaint"]]])


def test_text_at_some_clients_alone_is_left_out_with_a_note() -> None:
    clients = [complaints(30).assign(height=1.0 * np.arange(30)), complaints(30).assign(height=2.0 * np.arange(30))]
    clients[1] = clients[1].drop(columns="complaint")
    model = fedkin.KMeans(n_clusters=2, encode=WORDS, random_state=0).fit(clients)
    assert any("Free text is left out" in note for note in model.preparation_.notes)
    assert model.preparation_.shape == (2,)


def test_a_file_with_one_column_of_texts_is_a_list_of_them() -> None:
    frames = [complaints(20)[["complaint"]], complaints(20, 40)[["complaint"]]]
    model = fedkin.KMeans(n_clusters=2, encode=WORDS, random_state=0).fit(frames)
    assert adjusted_rand_score(np.tile([0, 1], 20), np.concatenate(model.labels_)) == 1
