import pytest
import torch

from fedkin.core.replies import (
    Nullable,
    Optional,
    are_counts,
    below,
    is_count,
    is_number,
    objection,
    positive,
    reals,
    refusal,
)


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


def test_more_may_be_expected_of_the_same_name_and_some_is_optional():
    reply = {"clusters": torch.tensor([0, 2])}
    assert refusal(reply, {"clusters": are_counts}, {"clusters": (2,)}) is None
    assert refusal(reply, {"clusters": below(2)}, {"clusters": (2,)}) == "'clusters' is not what it should be"
    assert refusal(reply, optional={"loss": is_number}) is None
    assert refusal({"loss": "low"}, optional={"loss": is_number}) == "'loss' is not what it should be"


@pytest.mark.parametrize(
    "bad",
    [10**400, 2**53 + 1, 1e31, "x" * 5000, "\ud800", torch.tensor([3e38]), {"x" * 5000: 1}],
    ids=["long int", "int", "float", "text", "surrogate", "tensor", "key"],
)
def test_what_is_beyond_all_bounds_is_refused_wherever_it_stands(bad):
    assert refusal({"fine": 1.0, "deep": [{"bad": bad}]}) is not None


SPACE = {"mean": reals("width"), "seed": Nullable(is_count), "more": Optional(is_number)}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": 1.0}, None),
        ({"space": {"mean": torch.ones(2), "seed": 3, "more": 1}, "radius": 1.0}, None),
        ({"space": {"mean": torch.ones(5, 2), "seed": None}, "radius": 1.0},
         "'space/mean' has shape (5, 2) where ('width',) was expected"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": torch.ones(2)},
         "'radius' is not what it should be"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": float("nan")}, "'radius' is not what it should be"),
        ({"space": {"mean": torch.ones(2)}, "radius": 1.0}, "'space/seed' is absent"),
        ({"space": 3, "radius": 1.0}, "'space' is no mapping"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": 1.0, "x": 1}, "'x' is not expected"),
        ({"space": {"mean": torch.ones(2), "seed": None, "x" * 9999: 1}, "radius": 1.0}, "'space/?' is not expected"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": 1.0, "\ud800": 1}, "'?' is not expected"),
    ],
)  # fmt: skip
def test_a_payload_is_what_the_task_takes(payload, reason):
    assert objection(payload, {"space": SPACE, "radius": positive}) == reason
