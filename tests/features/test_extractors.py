import pytest
import torch

from fedkin.core import FedkinError
from fedkin.features.extractors import extract, forget, register, suited, width_of


def test_raw_features_are_the_samples_and_unit_ones_have_length_one():
    x = torch.rand(5, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(extract("raw", x), x.flatten(1))
    unit = extract("unit", x)
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(5))
    torch.testing.assert_close(unit, x.flatten(1) / x.flatten(1).norm(dim=1, keepdim=True))


def test_a_sample_of_zeros_stays_where_it_is():
    assert torch.equal(extract("unit", torch.zeros(1, 4)), torch.zeros(1, 4))


def test_unknown_features_are_refused_with_the_nearest_name():
    with pytest.raises(FedkinError, match="unit"):
        extract("units", torch.zeros(1, 4))


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


def test_no_samples_have_no_features():
    register("doubled", doubled := (lambda x: 2 * x.flatten(1)))
    try:
        assert extract("doubled", torch.zeros(0, 4)).shape == (0, 4)
        assert width_of("doubled", (2, 3)) == 6
        assert doubled(torch.ones(1, 2)).tolist() == [[2.0, 2.0]]
    finally:
        forget("doubled")


def test_features_of_nothing_need_not_be_finite_to_have_a_width():
    register("direction", lambda x: x.flatten(1) / x.flatten(1).norm(dim=1, keepdim=True))
    try:
        assert width_of("direction", (3,)) == 3
        assert extract("direction", torch.ones(1, 3)).norm() == pytest.approx(1)
        with pytest.raises(FedkinError, match="'direction' of some samples are not finite"):
            extract("direction", torch.zeros(1, 3))
    finally:
        forget("direction")


def test_images_are_compared_by_their_gradients_if_large_enough():
    assert suited((1, 8, 8), False) == suited((3, 32, 32), False) == "gradients"
    assert suited((1, 7, 28), False) == suited((13,), False) == "raw"
    assert suited((64,), True) == "flat-gradients"
