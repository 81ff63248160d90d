import pytest
import torch

from fedkin.core import FedkinError
from fedkin.features.extractors import extract, forget, register, suited


def test_raw_features_are_the_samples_and_unit_ones_have_length_one():
    x = torch.rand(5, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(extract("raw", x), x.flatten(1))
    unit = extract("unit", x)
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(5))
    torch.testing.assert_close(unit, x.flatten(1) / x.flatten(1).norm(dim=1, keepdim=True))


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
        "absent": "has no 'absent'",
    }.items():  # fmt: skip
        with pytest.raises(FedkinError, match=words):
            extract(f"own_features:{name}", x)
    with pytest.raises(FedkinError, match="dotted path"):
        extract("own_features:", x)


def test_registered_features_go_by_their_name():
    def first(x):
        return x[:, :1]

    register("first-number", first)
    register("first-number", first)
    assert extract("first-number", torch.eye(3)).tolist() == [[1.0], [0.0], [0.0]]
    with pytest.raises(FedkinError, match="exist already"):
        register("first-number", lambda x: x)
    with pytest.raises(FedkinError, match="any name"):
        register("a:b", first)
    forget("first-number")
    forget("raw")
    assert extract("raw", torch.eye(3)).shape == (3, 3)
    with pytest.raises(FedkinError, match="Unknown features"):
        extract("first-number", torch.eye(3))


def test_images_are_compared_by_their_gradients_if_large_enough():
    assert suited((1, 8, 8), False) == suited((3, 32, 32), False) == "gradients"
    assert suited((1, 7, 28), False) == suited((13,), False) == "raw"
    assert suited((64,), True) == "flat-gradients"
