"""All problems of all clients' tables are told at once: of values, of columns between clients, and of options."""

import pandas as pd
import pytest

import fedkin
from fedkin.core import FedkinError
from fedkin.data.prepare import load_agreeing_clients, prepare
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.engines.local import LocalFederation


def many(bad: object = None) -> list[object]:
    """Thirty numbers, of which one may be something else."""
    return [bad if bad is not None and at == 3 else 7 * at % 30 + 0.5 for at in range(30)]


def problems(source: object, **options: object) -> list[str]:
    with pytest.raises(FedkinError) as error:
        load_agreeing_clients(source, options=TableOptions(**options))
    return str(error.value).splitlines()


def test_values_kinds_shapes_options_and_files_are_one_list(tmp_path):
    def write(name, **columns):
        pd.DataFrame(columns).to_csv(tmp_path / name, index=False)

    write("a.csv", age=many("old"), sex=["f", "m"] * 15, dose=many(), seen=["u", "v", "w"] * 10)
    write("b.csv", age=many(), sex=[1.5, 2.5] * 15, dose=many(float("inf")), seen=["2024-01-31"] * 30)
    (tmp_path / "c.csv").write_text("sex,dose,dose,age,seen\n" + "f,1,2,31,u\n" * 30)
    (tmp_path / "d.csv").write_text("")
    (tmp_path / "e.csv").write_text("sex,age\n")
    a, b, c, d, e = (f"'{tmp_path}/{name}.csv'" for name in "abcde")
    found = problems(str(tmp_path))
    assert found[0].startswith(f"Column 'age' of {a} holds numbers, but a word in row 4; ")
    assert found[1].startswith(f"Column 'dose' of {b} has 1 infinite values in 30 rows")
    assert found[2].startswith(f"{c} has more than one column 'dose'")
    assert found[3:] == [
        f"{d} cannot be read as .csv (the file is empty).",
        f"{e} is empty (0 rows, 2 columns of features).",
        "Column 'sex' differs in kind: category such as 'f' at clients a.csv, c.csv; number at client b.csv. Write it "
        "in one way, as numbers if its values have an order; name it in categorical only if its numbers are codes, or "
        "in drop.",
        "Column 'seen' differs in kind: category such as 'u' at clients a.csv, c.csv; date at client b.csv. Write it "
        "in one way, or name it in categorical, or in drop.",
    ]


def test_columns_that_differ_alike_are_one_problem_with_the_advice_that_fits():
    def differing(**others):
        frames = [pd.DataFrame({name: cells * 5 for name, cells in own.items()}) for own in zip_columns(others)]
        with pytest.raises(FedkinError) as error:
            prepare(LocalFederation(ClientFiles(frames).build().clients, seed=0))
        return str(error.value).splitlines()

    def zip_columns(pairs):
        return [{name: pair[at] for name, pair in pairs.items()} | {"x": [*range(12)]} for at in (0, 1)]

    words, numbers = ["agree", "neither", "disagree"] * 4, [1, 2, 3] * 4
    assert differing(q1=(words, numbers), q2=(words, numbers)) == [
        "Columns 'q1', 'q2' differ in kind: category such as 'agree' at client 0; number at client 1. Write them in "
        "one way, as numbers if their values have an order; name them in categorical only if their numbers are codes, "
        "or in drop."
    ]
    bands = ["18-25", "26-35", "36-45"]
    frames = [pd.DataFrame({"age": bands * 20}), pd.DataFrame({"age": pd.Categorical(bands * 20, bands, ordered=True)})]
    with pytest.raises(FedkinError) as error:
        prepare(LocalFederation(ClientFiles(frames).build().clients, seed=0))
    assert str(error.value) == (
        "Column 'age' differs in kind: category such as '18-25' at client 0; ordinal at client 1. Name its levels in "
        "ordinal, from the lowest to the highest, or write it in one way."
    )
    assert differing(plz=(["01067", "01069", "04103"] * 4, numbers)) == [
        "Column 'plz' differs in kind: category such as '01067' at client 0; number at client 1. Numbers with leading "
        "zeros are codes, so name it in categorical, or in drop."
    ]


def test_what_options_name_is_in_the_list_if_all_columns_are_known():
    clients = {"n": pd.DataFrame({"age": many("old"), "b": many()}), "s": pd.DataFrame({"age": many()})}
    wrong = "Column 'age' of Client 'n' holds numbers, but a word in row 4; correct or empty it, name it in na_values, "
    found = problems(clients, drop=["b", "agee"], id="who")
    assert found == [
        f"{wrong}or name the column in categorical.",
        "Unknown column in drop 'agee'; did you mean 'age'?",
        "Unknown column in id 'who'; allowed: age, b.",
    ]
    assert problems({**clients, "w": "nowhere.csv"}, drop=["agee"]) == [
        f"{wrong}or name the column in categorical.",
        "'nowhere.csv' does not exist; give a file, a directory or the name of a data set.",
    ]
    mixed = problems({**clients, "w": [[1.0, 2.0]], "x": [[1.0]]})
    assert [line.split(";")[0] for line in mixed[1:]] == [
        "Client 'n' is a table and 'w' is an array without names of columns".replace("Client ", ""),
        "'x' has 1 features where others have 2 features",
    ]


def test_columns_of_ids_and_of_some_clients_do_not_disagree():
    """They would be left out, so nobody has to mend them."""
    good = pd.DataFrame({"patient_id": [f"A{at}" for at in range(30)], "age": many(), "own": many()})
    other = pd.DataFrame({"patient_id": range(30), "age": many("old"), "own": ["u", "v"] * 15})
    third = pd.DataFrame({"patient_id": range(30), "age": many()})
    assert len(problems([good, other, third])) == 1
    assert len(problems([good, other])) == 2
    assert len(problems([good, other], drop=["own"])) == 1
    assert len(problems([good, other], categorical=["own"])) == 1


def test_every_door_lists_all_problems():
    clients = [pd.DataFrame({"age": many("old"), "sex": ["f", "m"] * 15}), pd.DataFrame({"age": many(), "sex": many()})]
    fit = fedkin.KFed(n_clusters=2, random_state=0).fit
    learn = fedkin.FedAvg(rounds=1, random_state=0).fit
    y = [0, 1] * 15
    for call in (lambda: fit(clients), lambda: learn([(x, y) for x in clients]), lambda: fedkin.compare(clients)):
        with pytest.raises(FedkinError) as error:
            call()
        assert len(str(error.value).splitlines()) == 2
    with pytest.raises(FedkinError) as error:
        learn([(x[["sex"]].astype(str), [0.5] * 30) for x in clients])
    assert [line[:24] for line in str(error.value).splitlines()] == ["Client 0 has labels that"]


@pytest.mark.parametrize("name", ["c", "c" * 600])
def test_names_and_categories_too_long_to_be_reported_are_refused_with_column_client_and_limit(name):
    fine, long = (pd.DataFrame({name: [text] * 30, "age": many()}) for text in ("a", "b" * 505))
    with pytest.raises(FedkinError, match="'c' of Client 1 .*at most 500" if name == "c" else "Client 0.*600"):
        fedkin.KFed(n_clusters=2, random_state=0).fit([fine, long])


def test_fit_takes_a_folder(tmp_path):
    for name in ("north", "south"):
        pd.DataFrame({"age": many(), "dose": [row**2 for row in many()]}).to_csv(tmp_path / f"{name}.csv", index=False)
    model = fedkin.KFed(n_clusters=2, random_state=0).fit(tmp_path)
    assert model.client_names_ == ["north.csv", "south.csv"]
    with pytest.raises(FedkinError, match="did you mean"):
        fedkin.KFed(n_clusters=2).fit(f"{tmp_path}x")


def test_columns_that_are_imputed_are_in_the_list():
    good = pd.DataFrame({"age": many(), "own": many()})
    other = pd.DataFrame({"age": many("old"), "own": ["u", "v"] * 15})
    third = pd.DataFrame({"age": many()})
    assert len(problems([good, other, third])) == 1
    assert [line[:30] for line in problems([good, other, third], lacking="impute")] == [
        "Column 'age' of Client 1 holds",
        "Column 'own' differs in kind: ",
    ]
    model = fedkin.KFed(n_clusters=2, lacking="impute", random_state=0)
    with pytest.raises(FedkinError, match="'own' differs in kind"):
        model.fit([good, other, third])


def test_percentages_at_one_client_and_plain_numbers_at_another_are_refused():
    signed = pd.DataFrame({"fat": ["24.2%", "33.5%", "0%"], "b": [1, 2, 3]})
    with pytest.raises(FedkinError) as error:
        ClientFiles({"n": signed, "s": pd.DataFrame({"fat": [29.4, None, 23.8], "b": [1, 2, 3]})}).build()
    assert str(error.value) == (
        "Column 'fat' has percentages at client n, so that 58% is 0.58, and plain numbers up to 29.4 at client s; "
        "write all in one way, with or without the sign."
    )
    built = ClientFiles({"n": signed, "s": pd.DataFrame({"fat": [0.29, None, 0.23], "b": [1, 2, 3]})}).build()
    assert built.clients[0].x[0, 0] == 0.242
