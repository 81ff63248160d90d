"""Data that are split already."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.data.scenarios.partition_scenario import load_labelled


def test_clients_hold_out_a_share_in_the_order_of_their_rows(tmp_path):
    for name, n in (("a", 10), ("b", 1)):
        np.savez(tmp_path / f"{name}.npz", x=np.arange(n)[:, None], y=np.arange(n))
    population = ClientFiles(str(tmp_path), test_fraction=0.3).build(1)
    assert [(len(client), len(y)) for client, (_, y) in zip(population.clients, population.tests, strict=True)] == [
        (7, 3),
        (1, 0),
    ]
    for client, truth, (x, y) in zip(population.clients, population.truth, population.tests, strict=True):
        assert client.x[:, 0].tolist() == truth.tolist() == client.y.tolist() == sorted(truth.tolist())
        assert x[:, 0].tolist() == y.tolist()
        assert not set(y.tolist()) & set(truth.tolist())
    assert torch.equal(ClientFiles(str(tmp_path), test_fraction=0.3).build(1).tests[0][1], population.tests[0][1])


def test_tests_of_clients_need_labels(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    with pytest.raises(FedkinError, match=r"test_fraction is 0.5, but not every client has labels to test against\."):
        ClientFiles(str(tmp_path), test_fraction=0.5).build()
    with pytest.raises(FedkinError, match=r"test_fraction is -0.5; allowed: 0 to 1\."):
        ClientFiles(str(tmp_path), test_fraction=-0.5).build()


def test_labels_of_a_folder_of_clients_are_the_clients_own_and_the_truth(tmp_path):
    (tmp_path / "a.csv").write_text("a,kind\n1,dog\n2,cat\n")
    (tmp_path / "b.csv").write_text("a,kind\n3,fish\n")
    population = ClientFiles(str(tmp_path), label="kind").build()
    assert [client.x.tolist() for client in population.clients] == [[[1], [2]], [[3]]]
    assert [truth.tolist() for truth in population.truth] == [[1, 0], [2]]
    assert population.classes == ["cat", "dog", "fish"]
    assert [client.y.tolist() for client in population.clients] == [[1, 0], [2]]
    assert all(client.state == {} for client in population.clients)
    assert population.tests == []


def test_labels_at_some_clients_only_are_no_truth(tmp_path):
    (tmp_path / "a.csv").write_text("a,label\n1,dog\n")
    (tmp_path / "b.csv").write_text("a\n3\n")
    population = ClientFiles(str(tmp_path)).build()
    assert population.truth is None
    assert population.classes == []


def test_a_list_of_arrays_is_taken_as_it_is():
    population = ClientFiles([np.zeros((2, 8, 8)), torch.ones(1, 8, 8)]).build(seed=5)
    assert [client.x.shape for client in population.clients] == [(2, 1, 8, 8), (1, 1, 8, 8)]
    assert population.clients[0].x.shape[1:] == (1, 8, 8)
    assert population.truth is None


@pytest.mark.parametrize(
    ("first", "second"),
    [(["0.5", "-1.25"], ["", "3.5"]), (["0.5", "2"], ["1", "2"]), (["2024-01-31", "2024-02-01"], ["2024-03-01", ""])],
)
def test_coordinates_and_dates_are_no_labels_but_where_they_are_named(tmp_path, first, second):
    for name, cells in (("a", first), ("b", second)):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "".join(f"{at},{cell}\n" for at, cell in enumerate(cells)))
    built = ClientFiles(str(tmp_path)).build()
    assert (built.truth, built.features, built.notes) == (None, ["x", "y"], ())
    with pytest.raises(FedkinError, match=r"Column 'y' of .*(fractions|lacks 1 of 2 labels)"):
        ClientFiles(str(tmp_path), label="y").build()


def test_labels_after_a_column_that_cannot_be_labels_are_found(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,y,class\n1,0.5,u\n2,0.7,v\n")
    built = ClientFiles(str(tmp_path)).build()
    assert (built.classes, built.features) == (["u", "v"], ["x", "y"])


def test_far_too_many_labels_are_a_feature(tmp_path):
    for name, shift in (("a", 0), ("b", 60)):
        rows = "".join(f"{row % 7},{row % 60 + shift}\n" for row in range(240))
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{rows}")
    built = ClientFiles(str(tmp_path)).build()
    assert (built.truth, built.features) == (None, ["x", "y"])
    assert built.notes == (
        "Column 'y' is called like labels and is a feature, since it has 120 different values in 480 rows; if it is an "
        "outcome, which clusters should not depend on, name it in drop, or, if it holds labels, with data.label.",
    )
    assert len(ClientFiles(str(tmp_path), label="y").build().classes) == 120


def test_none_says_that_no_column_holds_labels(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,y\n1,0\n2,1\n")
    built = ClientFiles(str(tmp_path), label="none").build()
    assert (built.truth, built.features, len(built.guesses)) == (None, ["x", "y"], 1)
    np.savez(tmp_path / "c.npz", x=np.ones((3, 2)), y=[0, 1, 0])
    assert ClientFiles({"c": tmp_path / "c.npz"}, label="none").build().truth is None
    frames = {"n": pd.DataFrame({"x": [1, 2], "y": [0, 1]})}
    assert ClientFiles(frames, label="none").build().features == ["x", "y"]


@pytest.mark.parametrize(
    ("clients", "sentence"),
    [
        ([], "The list of clients is empty; at least one is needed."),
        (
            [[[1.0]], [[np.nan]]],
            "Client 1 has missing or infinite values in 1 of 1 samples; all must be finite float32.",
        ),
        (
            [[[1.0]], [[1.0]], [[1.0, 2.0]]],
            "Client 2 has 2 features where others have 1 features; all clients need the same.",
        ),
    ],
)
def test_lists_that_cannot_be_used_are_refused(clients, sentence):
    with pytest.raises(FedkinError) as error:
        ClientFiles(clients).build()
    assert str(error.value) == sentence


def test_clients_keep_their_files_names(tmp_path):
    for name in ("south", "north"):
        (tmp_path / f"{name}.csv").write_text("a,b\n1,2\n3,4\n")
    assert ClientFiles(str(tmp_path)).build().names == ["north.csv", "south.csv"]


def test_clients_have_tables_as_they_were_read(tmp_path):
    (tmp_path / "north.csv").write_text("sex,age,label\nm,30,u\nf,?,v\n")
    (tmp_path / "south.csv").write_text("age,ill,label\n50,yes,u\n")
    population = ClientFiles(str(tmp_path)).build()
    assert population.names == ["north.csv", "south.csv"]
    assert population.features == ["sex", "age", "ill"]
    north, south = population.clients
    assert north.x is north.table.values
    assert north.table.columns[0].categories == ("f", "m")
    assert north.x.nan_to_num(-1).tolist() == [[1, 30], [0, -1]]
    assert (south.table.names, south.x.tolist()) == (["age", "ill"], [[50, 1]])
    dropped = ClientFiles(str(tmp_path), table=TableOptions(drop=["sex"], id="age")).build().clients[0].table
    assert (dropped.names, dropped.id) == (["age"], "age")


def test_clients_may_be_frames_with_labels_and_options():
    frames = {"n": pd.DataFrame({"a": [1, 2], "k": [1, 2], "ill": [0, 1]}), "s": pd.DataFrame({"a": [3], "ill": [1]})}
    population = ClientFiles(frames, label="ill", table=TableOptions(categorical=["k"])).build()
    assert population.names == ["n", "s"]
    assert [client.y.tolist() for client in population.clients] == [[0, 1], [1]]
    assert population.clients[0].table.columns[1].categories == ("1", "2")


def test_columns_taken_for_labels_are_told(tmp_path):
    for name, text in (("a", "v,class\n1,x\n2,y\n"), ("b", "v,class\n1,x\n2,y\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    assert ClientFiles(str(tmp_path)).build().notes == (
        "Column 'class' is taken for labels, so it is no feature; if it is one, name the labels with data.label, or "
        "'none'.",
    )
    assert ClientFiles(str(tmp_path), label="class").build().notes == ()
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("v,label\n1,x\n2,y\n")
    assert ClientFiles(str(tmp_path)).build().notes == (
        "Column 'label' is taken for labels, so it is no feature; if it is one, name the labels with data.label, or "
        "'none'.",
    )
    assert ClientFiles(str(tmp_path), label="label").build().notes == ()
    for name, beer in (("a", "Ale"), ("b", "ale")):
        (tmp_path / f"{name}.csv").write_text(
            "v,label\n" + "".join(f"{row * 37 % 1000},{beer} {row}\n" for row in range(1000))
        )
    assert ClientFiles(str(tmp_path)).build().notes == (
        "Column 'label' is called like labels and is a feature, since it has 2,000 different values in 2,000 rows; if "
        "it is an outcome, which clusters should not depend on, name it in drop, or, if it holds labels, with "
        "data.label.",
    )
    assert ClientFiles(str(tmp_path), label="label").build().notes == (
        "Labels are 2,000 different values in 2,000 rows, and each is a class of its own.",
    )
    (tmp_path / "a.csv").write_text("v,class\n1,x\n2,y\n")
    (tmp_path / "b.csv").write_text("v\n1\n2\n")
    built = ClientFiles(str(tmp_path)).build()
    assert built.notes == (
        "Column 'class' of a.csv is called like labels, but none are in b.csv, so it is left out and nothing is "
        "compared with labels; if it is a feature, say data.label = 'none'; to use it, "
        "leave out the clients without.",
    )
    assert (built.truth, built.features) == (None, ["v"])


def test_codes_of_missing_values_are_told():
    frames = {"n": pd.DataFrame({"a": [*range(30), *[9999] * 5]}), "s": pd.DataFrame({"a": range(30)})}
    assert ClientFiles(frames).build().notes == (
        "Column 'a' holds 9999, far above all other values, in 5 rows of n; if it is no true value but stands for a "
        "missing one, set na_values = {a = [9999]}.",
    )


def test_a_measured_number_is_no_class(tmp_path):
    for name, first in (("a", 0), ("b", 7)):
        rows = "".join(f"{row},{90_000 + 37 * row + first}\n" for row in range(60))
        (tmp_path / f"{name}.csv").write_text(f"v,salary\n{rows}")
    for build in (
        ClientFiles(str(tmp_path), label="salary").build,
        lambda: load_labelled(f"{tmp_path}/a.csv", "salary"),
    ):
        with pytest.raises(
            FedkinError, match=r"^Column 'salary' has 1?[26]0 different numbers in 1?[26]0 rows; labels"
        ):
            build()


def test_labels_that_differ_in_spelling_alone_are_told():
    frames = {
        "n": pd.DataFrame({"a": [1, 2], "ill": ["low ", "high"]}),
        "s": pd.DataFrame({"a": [1, 2], "ill": ["Low", " high"]}),
    }
    assert ClientFiles(frames, label="ill").build().notes == (
        "Labels that differ in spelling alone are different classes: 'low' (client n), 'Low' (client s); spell them "
        "alike if they are the same.",
    )
    frames["n"]["ill"], frames["s"]["ill"] = ["no", "yes"], [1, 0]
    assert ClientFiles(frames, label="ill").build().classes == ["0", "1", "no", "yes"]


def test_files_that_are_not_read_are_told(tmp_path):
    (tmp_path / "a.csv").write_text("v\n1\n2\n")
    for name in ("b.jsonl", "~$b.xlsx", "notes.txt", "picture.png"):
        (tmp_path / name).touch()
    (note,) = ClientFiles(str(tmp_path)).build().notes
    assert note.startswith("b.jsonl, notes.txt in ")


def test_folders_with_tables_are_not_read_and_named(tmp_path):
    (tmp_path / "a.csv").write_text("v\n1\n2\n")
    for name, file in (("north", "t.csv"), ("pictures", "a.png"), ("private", "models.npz"), (".cache", "t.csv")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    (tmp_path / "private" / "config.toml").touch()
    (note,) = ClientFiles(str(tmp_path)).build().notes
    assert note.startswith("north in ")


def test_one_file_has_a_column_of_clients(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text("a,ward,site,label\n1,x,ulm,no\n2,y,rome,yes\n3,x,ulm,yes\n5,y,rome,no\n")
    built = ClientFiles(str(path), column="site").build()
    assert built.names == ["rome", "ulm"]
    assert [client.table.values.tolist() for client in built.clients] == [[[2, 1], [5, 1]], [[1, 0], [3, 0]]]
    assert (built.features, built.classes) == (["a", "ward"], ["no", "yes"])
    assert [client.y.tolist() for client in built.clients] == [[1, 0], [0, 1]]
    for given, column, said in (
        (path, "sit", "'site'"),
        (tmp_path, "site", "is a folder"),
        ([pd.DataFrame()], "site", "each client has its own"),
    ):
        with pytest.raises(FedkinError, match=said):
            ClientFiles(given, column=column).build()
