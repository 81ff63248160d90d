import numpy as np
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.data.reading import sources as module
from fedkin.data.reading.sources import load, load_clients


def test_digits_are_images_in_the_unit_interval():
    digits = load("digits")
    assert digits.x.shape == (1797, 1, 8, 8)
    assert (digits.x.amin(), digits.x.amax()) == (0, 1)
    assert digits.classes == list("0123456789")
    assert torch.equal(digits.y[:5], torch.arange(5))


def test_embedded_tables_have_names():
    wine = load("wine")
    assert wine.x.shape == (178, 13)
    assert wine.features[0] == "alcohol"
    assert torch.bincount(wine.y).tolist() == [59, 71, 48]
    assert load("breast-cancer").classes == ["malignant", "benign"]
    blobs = load("blobs")
    assert blobs.x.shape == (2000, 20)
    assert torch.bincount(blobs.y).tolist() == [400] * 5
    assert torch.equal(blobs.x, load("blobs").x)


def test_embedded_data_have_no_column_of_clusters():
    with pytest.raises(FedkinError, match=r"^'wine' is embedded and has no column 'domain'\."):
        load("wine", cluster="domain")


def test_data_that_are_kept_are_told_apart_by_their_clusters(tmp_path, monkeypatch):
    def read(source, name, label, split, cluster):
        return module.Dataset(name, torch.zeros(2, 1), clusters=cluster and (torch.tensor([0, 1]), ["u", "v"]))

    monkeypatch.setattr(module, "_KEPT", None)
    monkeypatch.setattr(module, "read_huggingface", read)
    module.keep_read()
    assert load(str(tmp_path)).clusters is None
    load(str(tmp_path), cluster="domain").clusters[0].zero_()
    clusters, names = load(str(tmp_path), cluster="domain").clusters
    assert (clusters.tolist(), names) == ([0, 1], ["u", "v"])


@pytest.mark.parametrize("suffix", ["csv", "CSV"])
def test_files_are_read_by_suffix(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    path.write_text("a\n1\n")
    assert load(str(path)).x.tolist() == [[1.0]]


def test_only_train_exists_where_there_are_no_splits(tmp_path):
    for source in ["digits", str(tmp_path / "t.csv")]:
        with pytest.raises(FedkinError, match=rf"^Unknown split of '{source}' 'test'; allowed: train\.$"):
            load(source, split="test")


@pytest.mark.parametrize("source", ["none.csv", "./none", "/none", "~/none", "a/b/c"])
def test_missing_paths_are_refused(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FedkinError, match=f"^'{source}' does not exist"):
        load(source)


def test_files_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "t.xlsx"
    path.touch()
    with pytest.raises(FedkinError) as error:
        load(str(path))
    assert str(error.value) == f"'{path}' is a .xlsx file; allowed: .npz, .csv, .parquet, or a directory."


def test_names_are_looked_for_below_fedkin_data_then_on_the_hub(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "read_huggingface", lambda source, *rest: asked.append((source, *rest)))
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    (tmp_path / "my_set").mkdir()
    load("my-set", "kind", "test")
    load("my_set")
    load("owner/other")
    monkeypatch.delenv("FEDKIN_DATA")
    load("my-set")
    mirrored = str(tmp_path / "my_set")
    assert asked == [
        (mirrored, "my-set", "kind", "test", None),
        (mirrored, "my_set", None, "train", None),
        ("owner/other", "owner/other", None, "train", None),
        ("my-set", "my-set", None, "train", None),
    ]


def test_a_name_that_is_nowhere_gets_one_sentence(monkeypatch):
    import datasets

    def unreachable(*args, **kwargs):
        raise ConnectionError("Couldn't reach 'digit' on the Hub\nand more.")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    monkeypatch.delenv("FEDKIN_DATA", raising=False)
    with pytest.raises(FedkinError) as error:
        load("digit")
    assert str(error.value) == (
        "'digit' cannot be loaded as split 'train' of a Hugging Face data set (Couldn't reach 'digit' on the Hub), and "
        "it is neither embedded (digits, wine, iris, breast-cancer, blobs) nor a path nor below FEDKIN_DATA."
    )


def test_clients_come_in_order_of_file_name_with_common_classes(tmp_path):
    (tmp_path / "b.csv").write_text("a,label\n1,dog\n2,fish\n")
    (tmp_path / "a.csv").write_text("a,label\n3,cat\n4,dog\n")
    (tmp_path / "README.md").write_text("not a client")
    np.savez(tmp_path / "c.npz", x=np.array([[5]]))
    sites = load_clients(str(tmp_path))
    assert [site.name for site in sites] == ["a.csv", "b.csv", "c.npz"]
    assert [site.x[:, 0].tolist() for site in sites] == [[3, 4], [1, 2], [5]]
    assert [site.classes for site in sites] == [["cat", "dog", "fish"]] * 3
    assert [site.y.tolist() for site in sites[:2]] == [[0, 1], [1, 2]]
    assert sites[2].y is None


def test_clients_with_other_features_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(FedkinError, match=r"b\.csv' has column 'c' where '.*a\.csv' has 'b'; all need the same\.$"):
        load_clients(str(tmp_path))
    (tmp_path / "b.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(FedkinError, match=r"b\.csv' has 3 features where others have 2 features; all clients need"):
        load_clients(str(tmp_path))


def test_folders_without_clients_are_refused(tmp_path):
    with pytest.raises(FedkinError, match=r"' has no \.npz, \.csv, \.parquet files; one per client is needed\.$"):
        load_clients(str(tmp_path))
    with pytest.raises(FedkinError, match=r"^'none' is not a folder; give one with a file \(.*\) per client\.$"):
        load_clients("none")
