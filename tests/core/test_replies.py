import pytest
import torch

from fedkin.core import task
from fedkin.core.replies import are_counts, below, is_amount, is_count, is_flag, is_list, is_number, is_shape, refusal


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), torch.tensor([1.0, float("nan")])])
def test_what_is_not_finite_is_refused_by_name(bad):
    assert refusal({"fine": 1.0, "deep": [{"bad": bad}]}) == "'deep/0/bad' is not finite"


@pytest.mark.parametrize("kind", [torch.complex64, torch.float8_e4m3fn])
def test_tensors_of_other_than_real_numbers_are_refused(kind):
    assert refusal({"x": torch.zeros(3).to(kind)}) == f"'x' is of {kind}"


def test_wrong_shapes_are_refused_by_name():
    reply = {"models": torch.zeros(2, 3)}
    assert refusal(reply, {"models": (None, 3)}) is None
    assert refusal(reply, {"models": (None, 4)}) == "'models' has shape (2, 3) where (None, 4) was expected"
    assert refusal(reply, {"models": (2,)}) is not None
    assert refusal({}, {"models": (2,)}) == "'models' is absent"
    assert refusal({"models": 2.0}, {"models": ()}) == "'models' is not a tensor"


def test_lengths_of_one_name_are_the_same_wherever_it_stands():
    want = {"centres": ("k", 3), "sizes": ("k",)}
    assert refusal({"centres": torch.zeros(2, 3), "sizes": torch.zeros(2)}, want) is None
    assert "'sizes' has shape (4,)" in str(refusal({"centres": torch.zeros(2, 3), "sizes": torch.zeros(4)}, want))


def test_more_may_be_expected_of_the_same_name_and_some_is_optional():
    reply = {"clusters": torch.tensor([0, 2])}
    assert refusal(reply, {"clusters": are_counts}, {"clusters": (2,)}) is None
    assert refusal(reply, {"clusters": below(2)}, {"clusters": (2,)}) == "'clusters' is not what it should be"
    assert refusal(reply, optional={"loss": is_number}) is None
    assert refusal({"loss": "low"}, optional={"loss": is_number}) == "'loss' is not what it should be"


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


@task(holds={"x": (None,)}, may_hold={"loss": is_number}, may_be_empty=True)
def tell(clients, payloads):
    return [{} for _ in clients]


def test_a_task_says_what_its_replies_hold():
    assert tell.refusal({}) is None
    assert tell.refusal({"x": torch.zeros(2)}) is None
    assert tell.refusal({"x": torch.zeros(2)}, {"x": (3,)}) is not None
    assert tell.refusal({"loss": 1.0}) == "'x' is absent"
    assert tell.refusal({"x": torch.zeros(2), "loss": None}) is not None
