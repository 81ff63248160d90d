"""Encoders: series by random convolutions, images by networks in files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import nn

import fedkin
from fedkin.core import FedkinError
from fedkin.core.errors import RefusalError
from fedkin.core.tasks import trusted_packages
from fedkin.features.encoders import as_images, encoder_of, is_encoder, rocket
from fedkin.features.extractors import extract, width_of


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


def test_every_method_with_features_takes_an_encoder() -> None:
    series, kinds = cylinders_bells_funnels(300, 4)
    model = fedkin.KMeans(n_clusters=3, features="rocket", random_state=0).fit(np.array_split(series, 2))
    assert adjusted_rand_score(kinds, np.concatenate(model.labels_)) > 0.8
    assert torch.linalg.vector_norm(model.result_["centroids"], dim=1).allclose(torch.ones(3))


def test_series_alike_but_for_place_and_size_have_the_same_features() -> None:
    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(rocket(x), rocket(3 * x + 7), atol=1e-5)
    assert rocket(x).shape == (5, 1000)
    assert rocket(torch.zeros(2, 3, 9)).isfinite().all()  # constant channels
    assert width_of("rocket", (2, 30)) == 1000
    with pytest.raises(FedkinError, match="at least 7 steps"):
        rocket(torch.zeros(1, 5))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(6)).eval()


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    made = network()
    made(torch.zeros(1, 3, 8, 8))
    program = torch.export.export(made, (torch.zeros(2, 3, 8, 8),), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(program, tmp_path / "network.pt2")
    return tmp_path / "network.pt2"


def test_a_network_in_a_file_encodes_images(exported: Path) -> None:
    made = network()
    x = torch.rand(70, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        rows = made(x)
    expected = rows / rows.norm(dim=1, keepdim=True)
    assert torch.allclose(extract(f"torch:{exported}", x), expected, atol=1e-5)


def test_a_network_in_an_onnx_file_encodes_images_of_any_size(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weights = onnx.numpy_helper.from_array(np.arange(3 * 4 * 4 * 2, dtype=np.float32).reshape(48, 2) % 5, "w")
    nodes = [onnx.helper.make_node("Flatten", ["x"], ["f"]), onnx.helper.make_node("MatMul", ["f", "w"], ["y"])]
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "encoder",
        [onnx.helper.make_tensor_value_info("x", floats, ["n", 3, 4, 4])],
        [onnx.helper.make_tensor_value_info("y", floats, ["n", 2])],
        [weights],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "encoder.onnx")
    spec, x = f"onnx:{tmp_path / 'encoder.onnx'}", torch.rand(5, 1, 9, 9)
    rows = as_images(x, (4, 4), 3).flatten(1) @ torch.from_numpy(onnx.numpy_helper.to_array(weights).copy())
    assert torch.allclose(extract(spec, x), rows / rows.norm(dim=1, keepdim=True), atol=1e-5)


def test_a_site_encodes_by_what_its_own_file_lists(exported: Path) -> None:
    spec = f"torch:{exported}"
    with trusted_packages(("fedkin",)), pytest.raises(RefusalError, match="list of packages and encoders"):
        encoder_of(spec)
    with trusted_packages(("fedkin", spec)):
        assert encoder_of(spec)(torch.rand(2, 3, 8, 8)).shape == (2, 6)
        assert encoder_of("rocket") is rocket


@pytest.mark.parametrize(
    ("spec", "words"), [("onnx:nosuch.onnx", "does not exist"), ("torch:nosuch.pt2", "does not exist")]
)
def test_what_cannot_be_loaded_gets_a_sentence(spec: str, words: str) -> None:
    if spec.startswith("onnx"):
        pytest.importorskip("onnxruntime")
    assert is_encoder(spec)
    with pytest.raises(FedkinError, match=words):
        extract(spec, torch.zeros(2, 3, 8, 8))
