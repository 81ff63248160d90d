import pytest
import torch

from fedkin.core import FedkinError
from fedkin.learning.features import extract


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
