import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedkin.core import Client, FedkinError
from fedkin.data.columns import shapes, table_columns
from fedkin.data.encoding import Encoding
from fedkin.data.preparation import encode
from fedkin.deploy.app_folder import make_key
from fedkin.deploy.site_app import read_site
from fedkin.engines.site import Request, Site
from fedkin.methods.samples.kingraph.own_micro_clusters import send_moments, send_summary
from fedkin.privacy.gaussian import gaussian_mu
from fedkin.secure_aggregation.client_tasks import SiteIdentity


def written(folder: Path, text: str) -> Path:
    path = folder / "site.toml"
    path.write_text(text)
    return path


def minimal(folder: Path, more: str = "", data: str = "a.npz") -> Path:
    np.savez(folder / "a.npz", x=np.eye(4, 3, dtype=np.float32), y=np.array(["cat", "dog", "cat", "dog"]))
    return written(folder, f'name = "a"\ndata = "{data}"\nfolder = "private"\n{more}')


def built(path: Path) -> Site:
    return read_site(path)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    site = built(minimal(tmp_path))
    assert site.folder == tmp_path / "private"
    assert site.x.shape == (4, 3)
    assert site.y is not None
    assert (site.name, site.classes, site.y.tolist()) == ("a", ["cat", "dog"], [0, 1, 0, 1])
    assert built(minimal(tmp_path, 'label = "none"')).y is None
    ones, client = torch.ones(3).double(), Client(0, torch.ones(2, 3))
    encode.run([client], [{"encoding": Encoding("standard", ones, ones, shape=(3,)).tree()}])
    client.x = torch.ones(2, 3)
    site.prepare(client)
    assert client.x.tolist() == [[0.0] * 3] * 2  # scaled as it remembers


def test_a_key_beside_the_file_is_the_sites_and_listed_ones_are_of_others(tmp_path: Path) -> None:
    line = make_key(tmp_path / "other" / "site.key").read_text()
    site = built(minimal(tmp_path, f'[keys]\nnorth = """{line}"""\n'))
    assert (site.key, site.listed, site.introduction(True)["key"]) == (None, {"north": line.strip()}, "")
    own = make_key(tmp_path / "site.key").read_text().strip()
    site = built(minimal(tmp_path))
    assert (site.key, site.listed, site.introduction(True)["key"]) == (tmp_path / "site.key", {}, own)
    identity = site.client(Request("ab", 0, 0, 1, 0, "")).identity
    assert identity == SiteIdentity("ab", tmp_path / "site.key", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "a"', "'data' has no default; give it in .*site.toml."),
        (
            'name = "a"\ndata = "a"\nfolder = "b"\n[keys]\nnorth = "north.pub"',
            r"\[keys\] in .*site.toml has no public key of 'north'; give the line of its site.key.pub, ecdsa-\.\.\.",
        ),
        ('name = "a"\ndata = "a"\nfolder = "b"\nfolde = "c"', "Unknown key in .*'folde'; did you mean 'folder'"),
        ('name = "a"\ndata = "a"\nfolder = "b"\ndevice = "abacus"', "'device' in .*site.toml is 'abacus'; it"),
        ('name = "a"\ndata = "a"\nfolder = "b"\nepsilon = inf', "'epsilon' is inf in .*; it should be a finite number"),
    ],
)
def test_what_is_wrong_in_it_is_said_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FedkinError, match=words):
        built(written(tmp_path, text))


def test_columns_are_what_the_site_says(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name;nr;ward;pain;dose\nJörg;7;1;much;1,5\nJohn;8;2;none;?\n", "cp1252")
    options = """drop = ["name"]
id = "nr"
categorical = ["ward"]
decimal = ","
encoding = "cp1252"
ordinal = {pain = ["none", "some", "much"]}
na_values = {nr = [8]}
"""
    one = built(minimal(tmp_path, options, "a.csv"))
    assert one.table is not None
    assert [(column.name, column.kind) for column in one.table.columns] == [
        ("nr", "number"),
        ("ward", "category"),
        ("pain", "ordinal"),
        ("dose", "number"),
    ]
    assert (one.table.id, one.introduction(True)["features"]) == ("nr", ["nr", "ward", "pain", "dose"])
    assert one.table.values.isnan().tolist() == [[False] * 4, [True, False, False, True]]
    client = one.client(Request("ab", 0, 0, 1, 0, "a.b"))
    assert client.table is one.table
    assert client.x is one.table.values
    with pytest.raises(FedkinError, match=r"^Unknown column in drop 'nam'; did you mean 'name'\?$"):
        built(minimal(tmp_path, 'drop = ["nam"]\ndecimal = ","\nencoding = "cp1252"', "a.csv"))
    with pytest.raises(FedkinError, match=r"site\.toml: ordinal\['pain'\] is \['some'\]; "):
        built(minimal(tmp_path, 'ordinal = {pain = ["some"]}'))
    with pytest.raises(FedkinError, match=r"site\.toml: encoding is 'cp12'; "):
        built(minimal(tmp_path, 'encoding = "cp12"'))
    with pytest.raises(FedkinError, match=r"'decimal' is ';' in .*site\.toml; it should be 'auto', '\.' or ','"):
        built(minimal(tmp_path, 'decimal = ";"'))


def test_a_budget_of_privacy_is_kept_in_the_folder(tmp_path: Path) -> None:
    assert built(minimal(tmp_path)).account is None
    account = built(minimal(tmp_path, "epsilon = 4\ndelta = 1e-6")).account
    assert account.reserve("f00d", gaussian_mu(4.0, 1e-6))
    assert not account.reserve("beef", 0.1)
    assert list(json.loads((tmp_path / "private" / "account.json").read_text())["runs"]) == ["f00d"]


def test_a_site_reports_nothing_of_fewer_samples_than_its_file_says(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ward,age\n" + "north,1\n" * 9 + "south,2\n" * 6)
    space = {"features": "raw", "projection": None, "bound": None, "mean": torch.zeros(3), "directions": torch.eye(3)}
    nodes = {"space": space, "least": 2, "most": 4}
    named, sent = [], []
    for more in ("", "min_members = 8"):
        site = built(minimal(tmp_path, more, "a.csv"))
        reply, _ = site.answer(Request("ab", 0, 0, 1, 0, table_columns.name), {"min_members": 6})
        named.append(reply["columns"][0][-1])
        site = built(minimal(tmp_path, more))
        asked = {send_moments.name: {"space": space, "least": 2}, send_summary.name: nodes}
        sent += [site.answer(Request("cd", 0, 0, 1, 0, name), payload)[0] for name, payload in asked.items()]
    assert named == [["north", "south"], ["north"]]
    assert (float(sent[0]["count"]), int(sent[1]["counts"].sum())) == (4, 4)
    assert sent[2:] == [{}, {}]


def photographs(folder: Path) -> str:
    """A site's folder of pictures of any size, and the network that encodes them; the line of its file."""
    rng = np.random.default_rng(0)
    (folder / "photos").mkdir()
    for at in range(6):
        pixels = rng.integers(0, 256, (70 + at, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{at}.png")
    program = torch.export.export(torch.nn.AdaptiveAvgPool2d(2), (torch.zeros(1, 3, 8, 8),))
    torch.export.save(program, folder / "network.pt2")
    return 'encode = "torch:network.pt2"\n'


def test_a_site_encodes_a_folder_of_pictures_and_keeps_embeddings_in_its_own(tmp_path: Path) -> None:
    path = minimal(tmp_path, photographs(tmp_path), "photos")
    site = built(path)
    assert site.x.shape == (6, 12)
    assert [file.parent.parent for file in tmp_path.rglob("*.safetensors")] == [tmp_path / "private"]
    client = site.client(Request("ab", 0, 0, 1, 0, ""))
    assert client.samples is not None
    assert shapes.run([client], [{}])[0]["encoder"] == client.samples.encoder != ""
    path.write_text(path.read_text().replace('encode = "torch:network.pt2"\n', ""))
    with pytest.raises(FedkinError, match='encode = "timm:'):
        built(path)
