import pytest
import torch

from fedkin.core.replies import (
    below,
    int64,
    is_amount,
    is_count,
    is_flag,
    is_list,
    is_number,
    is_shape,
    reals,
    refusal,
    updates,
)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (is_number, [0, -1.5], [True, "1", None, torch.tensor(1.0), [1]]),
        (is_count, [0, 7], [-1, 1.0, True, 2**53, "1"]),
        (is_amount, [0, 2.5], [-0.1, True, "1"]),
        (is_flag, [True, False], [0, "yes", None]),
        (is_shape, [[3], [1, 8, 8]], [[], [0], [1.5], 3, [[3]], "3"]),
        (is_list(is_count), [[], [1]], [[-1], 1, {"a": 1}]),
        (below(3), [0, 2, torch.tensor([0, 2]), torch.zeros(0, dtype=torch.int64)],
         [3, -1, torch.tensor([3]), torch.tensor([-1]), torch.tensor([0.0]), True]),
    ],
)  # fmt: skip
def test_checks_know_what_is_meant(check, good, bad):
    assert all(check(value) for value in good)
    assert not any(check(value) for value in bad)


def test_tensors_have_the_dtype_and_range_that_is_wanted():
    assert refusal({"x": torch.ones(2)}, {"x": reals(2)}) is None
    assert refusal({"x": torch.ones(2).double()}, {"x": reals(2)}) == (
        "'x' is of torch.float64 where torch.float32 was expected"
    )
    assert refusal({"x": torch.ones(2, dtype=torch.bool)}, {"x": reals(2)}) is not None
    assert refusal({"x": torch.tensor([1e11])}, {"x": updates(1)}) is not None
    assert refusal({"x": torch.tensor([3])}, {"x": int64(1, bound=3)}) is not None
