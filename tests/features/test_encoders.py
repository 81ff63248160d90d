"""Encoders: what turns images, texts and series into embeddings, and how samples are read for them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.io import wavfile
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import adjusted_rand_score
from torch import nn

import fedkin
from fedkin.core import FedkinError
from fedkin.data.inputs import load_clients
from fedkin.data.options import TableOptions
from fedkin.data.samples import KEPT
from fedkin.features.encoders import Encoder, Preprocessing, rocket


def cylinders_bells_funnels(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Series of 128 steps with a plateau, a rise or a fall somewhere, and noise of deviation 1 (Saito 1994)."""
    rng, steps = np.random.default_rng(seed), np.arange(128)
    series, kinds = rng.normal(size=(count, 128)), rng.integers(3, size=count)
    for row, kind in zip(series, kinds, strict=True):
        begin = rng.integers(16, 33)
        end = begin + rng.integers(32, 97)
        inside, height = (steps >= begin) & (steps <= end), 6 + rng.normal()
        slope = [np.ones(128), (steps - begin) / (end - begin), (end - steps) / (end - begin)][kind]
        row += inside * height * slope
    return series.astype(np.float32), kinds


class Counted(nn.Module):
    """A network of mean colours by quarter of the image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


@pytest.fixture
def exported(tmp_path: Path) -> str:
    program = torch.export.export(
        Counted().eval(), (torch.zeros(2, 3, 16, 16),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    torch.export.save(program, tmp_path / "network.pt2")
    return f"torch:{tmp_path / 'network.pt2'}"


def photographs(count: int, seed: int) -> list[Image.Image]:
    """Pictures of two colours in turn, no two of one size."""
    rng, made = np.random.default_rng(seed), []
    for at in range(count):
        height, width = 70 + at, 90 + 2 * at
        pixels = np.array([(230, 40, 30), (30, 60, 220)][at % 2]) + rng.normal(0, 20, (height, width, 3))
        made.append(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)))
    return made


def opened(path: Path) -> Image.Image:
    with Image.open(path) as picture:
        return picture.copy()


def saved(folder: Path, clients: int = 3, count: int = 12) -> Path:
    """A folder of photographs for each client."""
    for client in range(clients):
        (folder / f"site-{client}").mkdir(parents=True)
        for at, picture in enumerate(photographs(count, client)):
            picture.save(folder / f"site-{client}" / f"{at:02}.png")
    return folder


def test_series_alike_but_for_place_and_size_have_the_same_features() -> None:
    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(rocket(x), rocket(3 * x + 7), atol=1e-5)
    assert rocket(x).shape == (5, 1000)
    assert rocket(torch.zeros(2, 3, 9)).isfinite().all()  # constant channels
    with pytest.raises(FedkinError, match="at least 7 steps"):
        rocket(torch.zeros(1, 5))


def test_series_are_clustered_by_shape_whatever_their_length() -> None:
    series, kinds = cylinders_bells_funnels(300, 4)
    model = fedkin.KMeans(n_clusters=3, features="rocket", random_state=0).fit(np.array_split(series, 2))
    assert adjusted_rand_score(kinds, np.concatenate(model.labels_)) > 0.8
    assert torch.linalg.vector_norm(model.result_["centroids"], dim=1).allclose(torch.ones(3))
    channels = [np.stack([part, -part], 1) for part in np.array_split(series, 2)]  # (n, channels, steps), no images
    assert fedkin.KMeans(n_clusters=3, features="rocket", random_state=0).fit(channels).n_clusters_ == 3
    rng = np.random.default_rng(0)
    waves = [np.sin(np.arange(steps) / (3 if i % 2 else 9)) for i, steps in enumerate(rng.integers(80, 120, 40))]
    model = fedkin.KMeans(n_clusters=2, features="rocket", random_state=0).fit([waves[:20], waves[20:]])
    assert adjusted_rand_score(np.arange(40) % 2, np.concatenate(model.labels_)) == 1


@pytest.mark.parametrize("form", ["pictures", "paths", "folders"])
def test_photographs_of_any_size_are_clustered_and_predicted(form: str, exported: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "photos", clients=2)
    paths = {name: sorted((folder / name).iterdir()) for name in ("site-0", "site-1")}
    given: dict[str, Any] = {
        "pictures": {name: [opened(path) for path in own] for name, own in paths.items()},
        "paths": {name: list(map(str, own)) for name, own in paths.items()},
        "folders": {name: folder / name for name in paths},
    }
    model = fedkin.KMeans(n_clusters=2, features=exported, random_state=0).fit(given[form])
    assert adjusted_rand_score(np.arange(24) % 2, np.concatenate(model.labels_)) == 1
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(given["pictures"]["site-0"]) == model.labels_["site-0"]).all()


def test_a_column_that_names_images_is_compared_by_what_they_show(exported: str, tmp_path: Path) -> None:
    rng, frames = np.random.default_rng(0), {}
    for site in ("north", "south"):
        (tmp_path / site).mkdir()
        pictures = photographs(12, 0)
        for row, picture in enumerate(pictures):
            picture.save(tmp_path / site / f"{row}.png")
        names = [f"{site}/{row}.png" for row in range(11)] + [None]
        frames[site] = pd.DataFrame({"photo": names, "age": rng.normal(50, 1, 12)})
        frames[site].to_csv(tmp_path / f"{site}.csv", index=False)
    model = fedkin.KMeans(n_clusters=2, encode=exported, random_state=0)
    labels = model.fit([tmp_path / "north.csv", tmp_path / "south.csv"]).labels_
    assert [adjusted_rand_score(np.arange(11) % 2, each[:11]) for each in labels] == [1, 1]
    np.testing.assert_array_equal(model.predict(tmp_path / "south.csv"), labels[1])
    absolute = [frame.assign(photo=f"{tmp_path}/" + frame.photo) for frame in frames.values()]
    np.testing.assert_array_equal(model.predict(absolute[1]), labels[1])
    with pytest.warns(fedkin.FedkinWarning, match="Column 'photo' holds images and is left out.*encode="):
        fedkin.KMeans(n_clusters=2).fit(absolute)


def test_inner_folders_are_labels_and_no_features(exported: str, tmp_path: Path) -> None:
    for client in ("a", "b"):
        for at, picture in enumerate(photographs(8, 1)):
            place = tmp_path / "photos" / client / ("red", "blue")[at % 2]
            place.mkdir(parents=True, exist_ok=True)
            picture.save(place / f"{at}.jpg")
    clients = load_clients(tmp_path / "photos", options=TableOptions(encoder=Encoder(exported)))
    assert [(client.name, client.classes) for client in clients] == [("a", ["blue", "red"]), ("b", ["blue", "red"])]
    assert clients[0].x.shape == (8, 12)


def test_files_hold_series_and_texts(tmp_path: Path) -> None:
    steps = np.arange(50)
    for client in ("a", "b"):
        folder = tmp_path / "series" / client
        folder.mkdir(parents=True)
        np.save(folder / "0.npy", np.sin(steps))
        np.savetxt(folder / "1.csv", np.sin(steps), header="pressure", comments="")
        wavfile.write(folder / "2.wav", 8000, (20000 * np.sin(steps)).astype(np.int16))
        texts = tmp_path / "texts" / client
        texts.mkdir(parents=True)
        for at in range(3):
            (texts / f"{at}.txt").write_text("oil leaks", encoding="utf-8")
    series = load_clients(tmp_path / "series", options=TableOptions(encoder=Encoder("rocket")))
    assert torch.allclose(series[0].x, series[0].x[:1].expand(3, -1), atol=0.02)
    words = Encoder(HashingVectorizer(n_features=16).transform)
    assert load_clients(tmp_path / "texts", options=TableOptions(encoder=words))[1].x.shape == (3, 16)


def test_samples_are_encoded_once_by_content(exported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path / "photos", clients=2, count=4)
    options, encoded = TableOptions(encoder=Encoder(exported)), []
    encode = Encoder.encode

    def counted(self: Encoder, kind: Any, contents: Any) -> torch.Tensor:
        items = list(contents)
        encoded.append(len(items))
        return encode(self, kind, items)

    monkeypatch.setattr(Encoder, "encode", counted)
    first = load_clients(folder, options=options)
    assert encoded == [4, 4]
    assert len(list((folder / KEPT).iterdir())) == 2
    photographs(9, 7)[8].save(folder / "site-1" / "new.png")
    (folder / "site-1" / "00.png").replace(folder / "site-1" / "renamed.png")
    again = load_clients(folder, options=options)
    assert encoded == [4, 4, 1]
    assert torch.equal(again[0].x, first[0].x)
    load_clients(folder, options=TableOptions(encoder=Encoder(f"{exported}?mean=0.5")))  # another fingerprint
    assert encoded == [4, 4, 1, 4, 5]
    for path in (folder / KEPT).iterdir():
        path.write_bytes(b"damaged")
    assert torch.equal(load_clients(folder, options=options)[0].x, first[0].x)


def test_words_of_a_function_encode_texts() -> None:
    sites = {
        "a": (["oil leaks"] * 6 + ["invoice paid"] * 6, [0] * 6 + [1] * 6),
        "b": ["oil below"] * 6 + ["paid it"] * 6,
    }
    words = HashingVectorizer(n_features=64).transform
    model = fedkin.KMeans(n_clusters=2, features=words, random_state=0).fit(sites)
    assert model.predict(["oil", "invoice paid"]).tolist() == [model.labels_["a"][0], model.labels_["a"][-1]]
    assert adjusted_rand_score(sites["a"][1], model.labels_["a"]) == 1


def test_a_network_in_an_onnx_file_encodes_images_and_vectors(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weights = onnx.numpy_helper.from_array(np.arange(3 * 4 * 4 * 2, dtype=np.float32).reshape(48, 2) % 5, "w")
    floats = onnx.TensorProto.FLOAT
    for name, shape in (("images", ["n", 3, 4, 4]), ("vectors", ["n", 48])):
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Flatten", ["x"], ["f"]), onnx.helper.make_node("MatMul", ["f", "w"], ["y"])],
            "encoder",
            [onnx.helper.make_tensor_value_info("x", floats, shape)],
            [onnx.helper.make_tensor_value_info("y", floats, ["n", 2])],
            [weights],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / f"{name}.onnx")
    factors = torch.from_numpy(onnx.numpy_helper.to_array(weights).copy())
    picture, vector = photographs(1, 0)[0], torch.rand(1, 48)
    found = Encoder(f"onnx:{tmp_path / 'images.onnx'}").encode("images", [picture])
    expected = Preprocessing((4, 4)).apply(picture).flatten()[None] @ factors
    assert torch.allclose(found, nn.functional.normalize(expected), atol=1e-5)
    found = Encoder(f"onnx:{tmp_path / 'vectors.onnx'}").encode("series", list(vector))
    assert torch.allclose(found, nn.functional.normalize(vector @ factors), atol=1e-5)


def test_sites_with_other_weights_or_preprocessing_are_refused(exported: str, tmp_path: Path) -> None:
    from fedkin.core import Client
    from fedkin.data.preparation import prepare
    from fedkin.engines.local import LocalFederation

    folder = saved(tmp_path / "photos", clients=2, count=6)
    network = Path(exported.partition(":")[2])
    network.with_name("copy.pt2").write_bytes(network.read_bytes())

    def prepared(other: str) -> Any:
        specs = (exported, other)
        read = [
            load_clients([folder / f"site-{at}"], options=TableOptions(encoder=Encoder(spec)))[0]
            for at, spec in enumerate(specs)
        ]
        clients = [Client(at, one.x, samples=one.samples) for at, one in enumerate(read)]
        return prepare(LocalFederation(clients, 0), names=["a", "b"])

    assert prepared(exported.replace("network", "copy")).encoder == Encoder(exported).fingerprint()
    with pytest.raises(FedkinError, match=r"different encoders .*a.*b"):
        prepared(f"{exported}?mean=0.5&std=0.5")


def test_a_repository_of_the_hub_is_of_the_library_that_its_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name, text in (("pictures", '{"architecture": "vit"}'), ("letters", '{"architectures": ["BertModel"]}')):
        folder = tmp_path / f"models--some--{name}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("0" * 40)
        (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
        (folder / "snapshots" / ("0" * 40) / "config.json").write_text(text)
    pictures, letters = Encoder("hf:some/pictures?size=96"), Encoder("hf:some/letters")
    kinds = ("images", "texts", "series")
    assert [[encoder.takes(kind) for kind in kinds] for encoder in (pictures, letters)] == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(FedkinError, match="'hf:some/other' cannot be loaded"):
        Encoder("hf:some/other").takes("images")


def test_wide_embeddings_are_projected_to_little_traffic() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 1280))
    clients = [centres[rng.integers(3, size=250)] + 0.5 * rng.normal(size=(250, 1280)) for _ in range(3)]
    model = fedkin.KinGraph(features="embedded", random_state=0).fit(clients)
    assert model.n_clusters_ == 3
    assert model.records_[0]["received"] / 3 < 400_000


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("auto", "encode='timm:"),
        ("rocket", "images, which features 'rocket' are not of"),
        ("onnx:nosuch.onnx", "does not exist"),
        ("torch:nosuch.pt2", "does not exist"),
        (lambda pictures: np.full((len(pictures), 3), np.nan), "all finite"),
        (lambda pictures: np.zeros(3), "should be"),
    ],
)
def test_what_cannot_be_encoded_gets_a_sentence(features: Any, words: str) -> None:
    with pytest.raises(FedkinError, match=words):
        fedkin.KMeans(n_clusters=2, features=features).fit([photographs(4, 0), photographs(4, 1)])


@pytest.mark.parametrize("query", ["size=x", "sise=8", "mean=1,2"])
def test_an_option_of_a_spec_that_is_wrong_gets_a_sentence(query: str, exported: str) -> None:
    with pytest.raises(FedkinError, match="allowed: size=128"):
        Encoder(f"{exported}?{query}").encode("images", photographs(1, 0))


def test_a_damaged_image_gets_a_sentence(exported: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "photos", clients=2, count=3)
    (folder / "site-1" / "01.png").write_bytes(b"no image")
    with pytest.raises(FedkinError, match=r"01.png' .*cannot be decoded"):
        fedkin.KMeans(n_clusters=2, features=exported).fit(folder)
