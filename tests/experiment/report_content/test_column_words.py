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


def test_years_have_no_thousands():
    assert numbers([2008.0, 2009.0] * 9, [1990.0, 1991.0] * 9, name="admission_year").cells == [
        "2008.50 ± 0.50", "1990.50 ± 0.50",
    ]  # fmt: skip
    for name in ("YearBuilt", "GarageYrBlt"):
        assert "," not in numbers([2008.0, 2009.0] * 9, [1990.0, 1991.0] * 9, name=name).cells[0]
    for name in ("yearly_income", "YearlyIncome"):
        assert numbers([3008.0, 3009.0] * 9, [2990.0, 2991.0] * 9, name=name).cells[0] == "3,008.50 ± 0.50"


def test_years_of_any_name_are_whole_and_have_no_thousands():
    column = numbers([1990.0, 2000.0, 2004.0] * 9, [2003.0, 2008.0, 2009.0] * 9, name="earliest_credit_line")
    assert column.cells == ["1998 ± 5.9", "2007 ± 2.6"]
    assert column.phrases[1][1] == "high earliest_credit_line (2007 against 2002)"
    doses = numbers([1990.0, 2900.0] * 9, [2003.0, 3100.0] * 9, name="dose")
    assert doses.cells[0] == "2,440 ± 460"


@pytest.mark.parametrize("value", [1.23765e18, 123456789.1, 0.1, -7.0])
def test_a_column_of_one_value_distinguishes_nothing_whatever_rounding_makes_of_its_sums(value):
    column = numbers([value] * 333, [value] * 501, [value] * 7, rounding=1e-14)
    assert column.effect == 0
    assert [weight for weight, _ in column.phrases] == [0, 0, 0]
    assert column.shifts == [0, 0, 0]
    assert len(set(column.values)) == len(set(column.cells)) == len(set(column.typical)) == 1


def test_a_small_difference_between_large_values_is_one():
    assert numbers([1e9 - 1, 1e9 + 1] * 9, [1e9 + 9, 1e9 + 11] * 9).effect > 0.9


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


def test_digits_are_those_that_the_spread_of_all_or_a_far_smaller_one_of_the_cluster_justifies():
    column = numbers([60.0, 70.0, 80.0] * 9, [60_000.0, 70_000.0, 80_000.0] * 9)
    assert column.cells == ["70.0 ± 8.2", "70,000 ± 8,000"]
    assert column.typical == ["70.0", "70,000"]
    assert [phrase for _, phrase in column.phrases] == [
        "low weight (70.0 against 35,000)",
        "high weight (70,000 against 35,000)",
    ]
    assert numbers([9999.0] * 9, [120.0, 140.0] * 50).cells[0] == "9,999 ± 0"
    assert numbers([99.9] * 9, [4.0, 5.0] * 50).cells[0] == "99.9 ± 0"
    assert numbers([1.0, 2.0] * 9, [2.0, 3.0] * 9).cells == ["1.50 ± 0.50", "2.50 ± 0.50"]
