import numpy as np
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.data import sources as module
from fedkin.data.dataset import Dataset
from fedkin.data.inputs import load_clients
from fedkin.data.sources import load


def test_digits_are_images_in_the_unit_interval():
    digits = load("digits")
    assert digits.x.shape == (1797, 1, 8, 8)
    assert (digits.x.amin(), digits.x.amax()) == (0, 1)
    assert digits.classes == list("0123456789")
    assert torch.equal(digits.y[:5], torch.arange(5))


@pytest.mark.parametrize("suffix", ["csv", "CSV"])
def test_files_are_read_by_suffix(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    path.write_text("a\n1\n")
    assert load(str(path)).x.tolist() == [[1.0]]


def test_names_are_looked_for_below_fedkin_data_and_on_the_hub_if_that_is_asked_for(tmp_path, monkeypatch):
    asked = []

    def read(source, *rest):
        asked.append((source, *rest[:4]))
        return Dataset(source, torch.zeros(1, 1))

    monkeypatch.setattr(module, "read_huggingface", read)
    monkeypatch.setattr(module, "_KEPT", None)  # whatever another test of this process keeps
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    (tmp_path / "my_set").mkdir()
    load("my-set", "kind", "test")
    load("my_set")
    load("hf:my-set")
    load("hf:owner/other")
    monkeypatch.delenv("FEDKIN_DATA")
    load("hf:my-set")
    with pytest.raises(FedkinError):
        load("my-set")
    mirrored = str(tmp_path / "my_set")
    assert asked == [
        (mirrored, "my-set", "kind", "test", None),
        (mirrored, "my_set", None, "train", None),
        (mirrored, "hf:my-set", None, "train", None),
        ("owner/other", "hf:owner/other", None, "train", None),
        ("my-set", "hf:my-set", None, "train", None),
    ]


def test_a_name_that_is_nowhere_gets_one_sentence_and_the_hub_is_not_asked(tmp_path, monkeypatch):
    import datasets

    def unreachable(*args, **kwargs):
        raise ConnectionError("Couldn't reach 'digit' on the Hub\nand more.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    monkeypatch.delenv("FEDKIN_DATA", raising=False)
    nowhere = "is neither embedded (digits, wine, iris, breast-cancer, blobs) nor a path nor below FEDKIN_DATA;"
    with pytest.raises(FedkinError) as error:
        load("digit")
    assert str(error.value) == (
        f"'digit' {nowhere} did you mean 'digits'? A data set of the Hugging Face hub is asked for by 'hf:digit'."
    )
    with pytest.raises(FedkinError) as error:
        load("mnist")
    assert str(error.value) == f"'mnist' {nowhere} a data set of the Hugging Face hub is asked for by 'hf:mnist'."
    with pytest.raises(FedkinError) as error:
        load("hf:digit")
    assert str(error.value) == (
        "'hf:digit' cannot be loaded as split 'train' of a Hugging Face data set (Couldn't reach 'digit' on the Hub)."
    )


def test_clients_come_in_order_of_file_name_with_common_classes(tmp_path):
    (tmp_path / "b.csv").write_text("a,label\n1,dog\n2,fish\n")
    (tmp_path / "a.csv").write_text("a,label\n3,cat\n4,dog\n")
    (tmp_path / "README.md").write_text("not a client")
    (tmp_path / "c.csv").write_text("a\n5\n")
    sites = load_clients(str(tmp_path))
    assert [site.name for site in sites] == ["a.csv", "b.csv", "c.csv"]
    assert [site.x[:, 0].tolist() for site in sites] == [[3, 4], [1, 2], [5]]
    assert [site.classes for site in sites] == [["cat", "dog", "fish"]] * 3
    assert [site.y.tolist() for site in sites[:2]] == [[0, 1], [1, 2]]
    assert sites[2].y is None


def test_tables_may_differ_in_columns_and_arrays_in_nothing(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("c,a\n1,2\n")
    assert [site.features for site in load_clients(str(tmp_path))] == [["a", "b"], ["c", "a"]]
    np.savez(tmp_path / "c.npz", x=np.array([[5, 6]]))
    with pytest.raises(FedkinError, match=r"^'a\.csv' is a table and 'c\.npz' is an array without names of columns;"):
        load_clients(str(tmp_path))
    with pytest.raises(FedkinError, match=r"^Client 1 has 3 features where others have 2 features; all clients need"):
        load_clients([np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2))])


def test_folders_without_clients_are_refused(tmp_path):
    with pytest.raises(FedkinError, match=r"' has no \.npz, \.csv, .*, \.xls, \.ods files; one per client"):
        load_clients(str(tmp_path))
    for name in ("a.dta", "b.dta", "c.dta", "d.txt"):
        (tmp_path / name).touch()
    with pytest.raises(FedkinError, match=r"needed, and it holds only a\.dta, b\.dta, c\.dta and 1 more\.$"):
        load_clients(str(tmp_path))
    with pytest.raises(FedkinError, match=r"^'none' is not a folder; give one with a file \(.*\) per client\.$"):
        load_clients("none")
