import pytest
import torch

from fedkin.data.profile import ClusterProfile
from fedkin.data.schema import SchemaColumn
from fedkin.experiment.report_content.column_words import _how_often, described


def test_words_of_shares_are_true():
    assert [_how_often(*pair) for pair in ((0.6, 0.3), (0.5, 0.3), (0.4, 0.3), (0.2, 0.3), (0.6, 0.8))] == [
        "mostly", "often", "often", "rarely", "less often",
    ]  # fmt: skip


def test_a_difference_that_is_not_seen_is_not_said():
    column = numbers([-13.0, 23.0] * 200, [80.0, 82.0])
    assert column.phrases[0] == (0.0, "low weight (5 against 5)")
    assert column.phrases[1][1] == "high weight (81.0 against 5)"
    assert column.phrases[1][0] > 0


@pytest.mark.parametrize("value", [1.23765e18, 123456789.1, 0.1, -7.0])
def test_a_column_of_one_value_distinguishes_nothing_whatever_rounding_makes_of_its_sums(value):
    column = numbers([value] * 333, [value] * 501, [value] * 7, rounding=1e-14)
    assert column.effect == 0
    assert [weight for weight, _ in column.phrases] == [0, 0, 0]
    assert column.shifts == [0, 0, 0]
    assert len(set(column.values)) == len(set(column.cells)) == len(set(column.typical)) == 1


def numbers(*clusters, **options):
    """The one column of `profile`, described."""
    return described(profile(*clusters, **options))[0]


def profile(*clusters, name="weight", rounding=0.0, kind="number"):
    """A profile of one column whose clusters hold these numbers."""
    values = [torch.tensor(own, dtype=torch.float64)[:, None] for own in clusters]
    filled = torch.tensor([[len(own)] for own in clusters])
    around = torch.cat(values).mean(0)
    squares = torch.stack([(own - around).square().sum(0) for own in values])
    sums = torch.stack([own.sum(0) for own in values])
    sums *= 1 + rounding * torch.arange(len(sums))[:, None]
    columns = (SchemaColumn(name, kind),)
    return ClusterProfile(
        columns, filled[:, 0], filled, around, sums, squares, torch.zeros(len(values), 0, dtype=torch.int64),
        filled, sums, torch.zeros(len(values), 0, dtype=torch.int64),
    )  # fmt: skip
