"""Features of images and tables."""

import math

import pytest
import torch
from torch.nn.functional import conv2d, grid_sample

from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.features.extractors import extract, forget, register
from fedkin.features.gradients import gradients, upright
from fedkin.methods.samples.afcl import AFCLMethod
from fedkin.methods.samples.feddp_kmeans import FedDPKMeansMethod
from fedkin.methods.samples.ffcm import FFCMMethod
from fedkin.methods.samples.kfed import KFedMethod
from fedkin.methods.samples.mufc import MUFCMethod
from fedkin.methods.samples.sample_method import SampleMethod


def test_a_dotted_path_leads_to_a_module_or_function(tmp_path, monkeypatch):
    (tmp_path / "own_features.py").write_text(
        "import torch\n"
        "def halves(shape):\n    return lambda x: x.flatten(1)[:, : shape[0] // 2]\n"
        "def dropped(shape):\n    return torch.nn.Sequential(torch.nn.Dropout(0.9), torch.nn.Flatten())\n"
        "def short(shape):\n    return lambda x: x[:1]\n"
        "def nothing(shape):\n    return 3\n"
        "def infinite(shape):\n    return lambda x: x / 0\n"
        "def failing(shape):\n    return torch.nn.Linear(7, 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    x = torch.rand(5, 4)
    assert torch.equal(extract("own_features:halves", x), x[:, :2])
    assert torch.equal(extract("own_features:dropped", x), x)
    for name, words in {
        "short": "it must be", "nothing": "type int", "infinite": "not finite", "failing": "fail on samples",
        "absent": "cannot be imported",
    }.items():  # fmt: skip
        with pytest.raises(FedkinError, match=words):
            extract(f"own_features:{name}", x)
    with pytest.raises(FedkinError, match="package"):
        extract("own_features:", x)


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def blurred(maps: torch.Tensor, width: float) -> torch.Tensor:
    reach = int(3 * width + 0.5)
    kernel = torch.exp(-torch.arange(-reach, reach + 1).square() / (2 * width**2))
    kernel = torch.outer(kernel, kernel) / kernel.sum() ** 2
    return conv2d(maps.flatten(0, 1)[:, None], kernel[None, None], padding=reach).view(maps.shape)


def test_they_are_blurred_maps_of_directions_read_at_a_grid():
    x = images(3, 1, 28, 28)
    straight, maps = upright(x), torch.zeros(3, 8, 28, 28)
    for n, image in enumerate(straight[:, 0]):
        for row in range(28):
            for column in range(28):
                down = image[row + 1, column] - image[row - 1, column] if 0 < row < 27 else torch.zeros(())
                right = image[row, column + 1] - image[row, column - 1] if 0 < column < 27 else torch.zeros(())
                angle = math.atan2(down, right) % (2 * math.pi)
                for direction in range(8):
                    apart = abs(angle - direction * math.pi / 4)
                    share = max(0.0, 1 - min(apart, 2 * math.pi - apart) / (math.pi / 4))
                    maps[n, direction, row, column] = share * math.hypot(down, right)
    expected = blurred(maps, 2.0)[:, :, 1::4, 1::4].clamp_min(0).sqrt().flatten(1)
    torch.testing.assert_close(gradients(x), expected / expected.norm(dim=1, keepdim=True), atol=1e-3, rtol=1e-3)


def test_images_are_sheared_as_torch_would():
    x = images(4, 3, 20, 28) * torch.linspace(0, 1, 28)
    rows, columns = torch.meshgrid(torch.arange(20.0), torch.arange(28.0), indexing="ij")
    mass = x.mean(1) / x.mean(1).sum((1, 2), keepdim=True)
    row, column = ((mass * at).sum((1, 2), keepdim=True) for at in (rows, columns))
    lean = (mass * (rows - row) * (columns - column)).sum((1, 2)) / (mass * (rows - row) ** 2).sum((1, 2))
    source = columns + lean[:, None, None] * (rows - row)
    grid = torch.stack([2 * source / 27 - 1, (2 * rows / 19 - 1).expand_as(source)], -1)
    torch.testing.assert_close(upright(x), grid_sample(x, grid, align_corners=True), atol=1e-4, rtol=1e-4)


METHODS = {
    "afcl": AFCLMethod(features="counted"),
    "feddp-kmeans": FedDPKMeansMethod(n_clusters=2, features="counted"),
    "ffcm": FFCMMethod(n_clusters=2, rounds=3, features="counted"),
    "kfed": KFedMethod(n_clusters=2, features="counted"),
    "mufc": MUFCMethod(n_clusters=2, features="counted"),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_features_of_a_client_are_computed_once_per_run(method: SampleMethod):
    computed: list[int] = []

    def counted(x: torch.Tensor) -> torch.Tensor:
        computed.append(len(x))
        return x.flatten(1) * 2

    clients = [Client(i, torch.rand(60 + i, 3, generator=torch.Generator().manual_seed(i))) for i in range(3)]
    register("counted", counted)
    try:
        fed = LocalFederation(clients, seed=0)
        state = method.init(fed)
        while not state.finished:
            state, _ = method.step(fed, state)
    finally:
        forget("counted")
    assert all("clusters" in client.state for client in clients)
    assert sorted(count for count in computed if count > 1) == [60, 61, 62]  # a single sample tells the width
