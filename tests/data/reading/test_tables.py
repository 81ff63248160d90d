import time
import tomllib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import as_frame, frame_to_dataset, frame_to_table, read_table


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_numbers_booleans_and_labels(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1, 2], "ok": [True, False], "class": ["dog", "cat"], "b": [0.5, 1e6]})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    dataset = read_table(path)
    assert dataset.name == path.name
    assert dataset.features == ["a", "ok", "b"]
    assert dataset.x is dataset.table.values
    assert dataset.x.dtype == torch.float64
    assert [one.kind for one in dataset.table.columns] == ["number", "boolean", "number"]
    assert dataset.x.tolist() == [[1.0, 1.0, 0.5], [2.0, 0.0, 1e6]]
    assert dataset.y.tolist() == [1, 0]
    assert dataset.classes == ["cat", "dog"]


def test_a_label_can_be_named_and_then_others_are_features(tmp_path):
    path = write(tmp_path / "t.csv", "kind,y,a\nu,1,5\nv,2,6\n")
    assert read_table(path, "kind").features == ["y", "a"]
    assert read_table(write(path, "a,b\n1,2\n")).y is None


@pytest.mark.parametrize(
    "text", ["a, b, label\n1, 2, cat\n", "a , b,label \n1,2 ,cat\n", '"a", "b", "label"\n1, 2, "cat"\n']
)
def test_blanks_beside_commas_are_no_part_of_names_and_labels(tmp_path, text):
    dataset = read_table(write(tmp_path / "t.csv", text))
    assert (dataset.features, dataset.x.tolist(), dataset.classes) == (["a", "b"], [[1.0, 2.0]], ["cat"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_of_clusters_is_no_feature_and_not_taken_for_labels(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1, 2], "label": ["u", "v"], "target": [5, 4]})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    dataset = read_table(path, cluster="label")
    assert (dataset.features, dataset.classes) == (["a"], ["4", "5"])
    clusters, names = dataset.clusters
    assert (clusters.tolist(), names) == ([0, 1], ["u", "v"])
    assert read_table(path).clusters is None
    same = read_table(write(tmp_path / "same.csv", "a,y\n1,5\n2,4\n"), "y", "y")
    assert same.y.tolist() == same.clusters[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "label", "said"),
    [
        (
            "a\n1\n-inf\n",
            None,
            "Column 'a' of '{}' has 1 infinite values in 2 rows; empty these",
        ),
        ("a,b\n", None, "'{}' is empty (0 rows, 2 columns of features)."),
        ("label\n1\n", None, "'{}' is empty (1 rows, 0 columns of features)."),
        ("a,b\n1,2\n", "kind", "'{}' has no column 'kind'; it has a, b."),
        ("a,label\n1,u\n2,\n", "label", "Column 'label' of '{}' lacks 1 of 2 labels; leave out"),
        ("a,y\n1,u\n2,NA\n", None, "Column 'y' of '{}' is called like labels, but 1 of 2 cells are empty"),
        (
            "a,target\n1,0.5\n",
            "target",
            "Column 'target' of '{}' has labels that are fractions",
        ),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, label, said):
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(FedkinError) as error:
        read_table(path, label)
    assert str(error.value).startswith(said.format(path))


def test_advice_for_infinite_values_works_when_it_is_typed(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n-inf,4\n")
    with pytest.raises(FedkinError) as error:
        read_table(path)
    typed = tomllib.loads(str(error.value).partition("or set ")[2].rstrip("."))
    assert read_table(path, options=TableOptions(**typed)).table.values[:, 0].isnan().tolist() == [False, True]


def test_labels_of_files_are_classes_whole_numbers_and_texts_alike(tmp_path):
    for cells, classes in (("1.0 2.0 1", ["1", "2"]), ("no yes no", ["no", "yes"]), ("01 02 01", ["01", "02"])):
        path = write(tmp_path / "t.csv", "a,label\n" + "".join(f"1,{cell}\n" for cell in cells.split()))
        assert read_table(path).classes == classes


@pytest.mark.parametrize("kind", ["string", "boolean", "Int64"])
def test_a_label_that_pandas_calls_missing_is_refused(tmp_path, kind):
    values = {"string": ["u", None], "boolean": [True, None], "Int64": [1, None]}[kind]
    pd.DataFrame({"a": [1, 2], "label": pd.array(values, dtype=kind)}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(FedkinError, match=r"^Column 'label' of '.*' lacks 1 of 2 labels; leave out the rows"):
        read_table(tmp_path / "t.parquet", "label")


def test_a_column_of_clusters_that_is_not_there_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", "a,label\n1,2\n")
    with pytest.raises(FedkinError, match=r"^'.*t\.csv' has no column 'domain'; it has a, label\.$"):
        read_table(path, cluster="domain")


def test_dropped_columns_are_no_labels_and_no_features(tmp_path):
    path = write(tmp_path / "t.csv", "label,a,target\nu,1,5\nv,2,6\n")
    dataset = read_table(path, options=TableOptions(drop=["label", "elsewhere"]))
    assert (dataset.features, dataset.classes, dataset.left_out) == (["a"], ["5", "6"], ("label",))


def test_all_problems_of_a_table_are_in_one_error():
    frame = pd.DataFrame({"a": [1.0, float("inf")], "z": [1j, 2j], "b": [[1], [2]], "label": [1, None]})
    with pytest.raises(FedkinError) as error:
        frame_to_dataset(frame, "f", "Client 1", "label")
    lines = str(error.value).splitlines()
    assert [line.split(" of Client 1 ")[0] for line in lines] == [
        f"Column '{name}'" for name in ("label", "z", "b", "a")
    ]
    assert "1j" not in str(error.value)


def test_frames_with_two_columns_of_a_name_are_refused():
    for names in (["a", "a"], [1, "1"]):
        with pytest.raises(FedkinError, match=r"^Client 1 has more than one column"):
            frame_to_dataset(pd.DataFrame([[1, 2]], columns=names), "f", "Client 1")


def test_a_file_with_semicolons_read_by_plain_pandas_says_how_to_read_it(tmp_path):
    path = write(tmp_path / "t.csv", "a;b\n1;2\n")
    with pytest.raises(FedkinError, match="sep=';'"):
        frame_to_table(pd.read_csv(path), "Client 0")
    assert frame_to_table(pd.read_csv(path, sep=";"), "Client 0").names == ["a", "b"]


def test_frames_of_other_libraries_are_converted():
    class Polar:
        columns = ("a",)

        def to_pandas(self):
            return pd.DataFrame({"a": [1]})

    assert list(as_frame(Polar()).columns) == ["a"]
    assert as_frame(pa.table({"a": [1, 2]})).a.tolist() == [1, 2]
    assert as_frame(torch.ones(2, 2)) is None


def test_thousands_of_columns_are_read_fast_and_refused_briefly(tmp_path):
    names = [f"column_{i}" for i in range(8_000)]
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 8_000)), columns=names)
    began = time.perf_counter()
    assert frame_to_table(wide, "Client 0").values.shape == (20, 8_000)
    assert time.perf_counter() - began < 6
    texts = wide.iloc[:, :1000].map(lambda value: "a" if value > 0 else "b")
    assert frame_to_table(texts, "Client 0").columns[0].kind == "category"
    assert time.perf_counter() - began < 15
    wide.iloc[0] = np.inf
    with pytest.raises(FedkinError) as error:
        frame_to_table(wide, "Client 0")
    assert len(str(error.value)) < 20_000
    wide.to_parquet(tmp_path / "wide.parquet")
    with pytest.raises(FedkinError) as error:
        read_table(tmp_path / "wide.parquet", "nothing")
    assert len(str(error.value)) < 20_000


def test_unreadable_files_are_refused(tmp_path):
    parquet, binary = tmp_path / "t.parquet", tmp_path / "t.csv"
    parquet.write_bytes(b"PAR1 cut")
    binary.write_bytes(b"\xff\xfe\x00\xd8,\n")
    with pytest.raises(FedkinError, match=r"t\.parquet' cannot be read as \.parquet \("):
        read_table(parquet)
    with pytest.raises(FedkinError, match=r"t\.csv' cannot be read as \.csv \("):
        read_table(binary)


@pytest.mark.parametrize("error", [KeyError("name"), TypeError("data type 'stn' not understood"), MemoryError()])
def test_whatever_arrow_says_of_a_damaged_schema_is_one_sentence(tmp_path, error, monkeypatch):
    def fail(path):
        raise error

    monkeypatch.setattr(pd, "read_parquet", fail)
    with pytest.raises(FedkinError, match=r"t\.parquet' cannot be read as \.parquet \("):
        read_table(tmp_path / "t.parquet")


def test_a_parquet_file_with_two_columns_of_a_name_or_of_another_kind_is_refused_in_plain_words(tmp_path):
    from pyarrow import parquet

    parquet.write_table(pa.table([[1.0], [2.0], [3.0]], names=["a", "b", "a"]), tmp_path / "t.parquet")
    with pytest.raises(FedkinError) as error:
        read_table(tmp_path / "t.parquet")
    assert "has more than one column 'a'" in str(error.value)
    with pytest.raises(FedkinError) as error:
        read_table(write(tmp_path / "u.parquet", "a,b\n1,2\n"))
    assert str(error.value) == (
        f"'{tmp_path}/u.parquet' cannot be read as .parquet (it is damaged, or no Parquet file)."
    )


def test_numbers_whose_squares_are_nothing_are_refused() -> None:
    frame = pd.DataFrame({"a": [1e-200, 2e-200], "b": [1e-30, 2e-30]})
    with pytest.raises(FedkinError, match="Column 'a' of It has no number above 1e-140, too small") as error:
        frame_to_dataset(frame, "it", "It")
    assert "'b'" not in str(error.value)


def test_numbers_too_large_to_add_up_are_refused(tmp_path):
    assert read_table(write(tmp_path / "t.csv", "a,b\n1,1e11\n2,2e18\n")).table.values[1, 1] == 2e18
    with pytest.raises(FedkinError) as error:
        read_table(write(tmp_path / "t.csv", "a,b\n1,-3.4028235e38\n2,2\n"))
    assert "Column 'b'" in str(error.value)
    assert "3.4" not in str(error.value)
    read = read_table(tmp_path / "t.csv", options=TableOptions(na_values=[-3.4028235e38]))
    assert read.table.values[:, 1].isnan().tolist() == [True, False]


@pytest.mark.parametrize("name", ["", " ", np.nan, pd.NA])
def test_a_column_without_a_name_is_refused(name):
    frame = pd.DataFrame([[1, 2, 3]], columns=["a", name, "c"])
    with pytest.raises(FedkinError, match=r"^Column 2 of Client 0 has no name\.$"):
        frame_to_table(frame, "Client 0")


def test_an_index_with_a_name_is_a_column_of_its_file(tmp_path):
    frame = pd.DataFrame({"age": [1.5, 2.5]}, index=pd.Index(["P1", "P2"], name="patient"))
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").features == ["patient", "age"]
    frame.rename_axis(None).to_parquet(tmp_path / "u.parquet")
    assert read_table(tmp_path / "u.parquet").features == ["age"]


def test_names_that_look_alike_are_alike(tmp_path):
    path = write(tmp_path / "t.csv", "Ko\u0308rper,class\n1,A\u0308\n2,b\n")
    assert read_table(path).features == ["K\u00f6rper"]
    assert read_table(path).classes == ["b", "\u00c4"]
    assert frame_to_table(pd.DataFrame({"Ko\u0308rper": [1]}), "It").names == ["K\u00f6rper"]


def test_a_known_feature_is_no_label_whatever_it_is_called(tmp_path):
    (tmp_path / "t.csv").write_text("class,target,age\n1,a,30\n2,b,40\n")
    assert read_table(tmp_path / "t.csv").label == "class"
    read = read_table(tmp_path / "t.csv", options=TableOptions(features=["class", "age"]))
    assert (read.label, read.table.names) == ("target", ["class", "age"])


def test_of_new_rows_only_features_have_to_be_read():
    frame = pd.DataFrame({"age": range(30), "price": [f"Rs{at * at}" for at in range(30)]})
    assert frame_to_table(frame, "New rows", TableOptions(features=["age"])).names == ["age"]
    with pytest.raises(FedkinError, match="Column 'price'"):
        frame_to_table(frame, "New rows", TableOptions(features=["age", "price"]))


@pytest.mark.parametrize("level", ["average", "total x", "mw"])
def test_reading_takes_time_linear_in_rows(level):
    def seconds(rows):
        frame = pd.DataFrame({"size": np.arange(rows) % 97 / 8, "level": [level, "low"] * (rows // 2)})
        start = time.process_time()
        frame_to_table(frame, "It")
        return time.process_time() - start

    short, long = (min(seconds(rows) for _ in range(5)) for rows in (20_000, 80_000))
    assert long < 10 * short
