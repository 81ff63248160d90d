import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.studies.reproduce.entry import Figure, printed
from fedkin.studies.reproduce.entry_table import PaperVerdict, is_better, judged, over_seeds


def test_the_interval_is_students() -> None:
    figure = over_seeds([1.0, 2.0, 3.0, 4.0, 5.0])
    assert figure is not None
    assert figure.value == 3.0
    assert figure.half == pytest.approx(2.776445 * math.sqrt(2.5) / math.sqrt(5), rel=1e-6)
    assert over_seeds([2.0]) == Figure(2.0, None, 1)
    assert over_seeds([]) is None


@given(st.floats(0, 1000), st.none() | st.floats(0, 100), st.integers(1, 6))
def test_what_is_shown_is_read_again(value: float, half: float | None, digits: int) -> None:
    shown = Figure(value, half).shown(digits)
    read = printed(shown)
    assert read is not None
    assert read.value == pytest.approx(value, abs=10.0**-digits)
    assert read.shown(digits) == shown


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        (Figure(0.9, 0.01, 3), Figure(0.88, 0.02), "within"),
        (Figure(0.93, 0.01, 3), Figure(0.88, 0.02), "higher"),
        (Figure(0.84, 0.01, 3), Figure(0.88, 0.02), "lower"),
        (Figure(0.602, 0.971, 2), Figure(0.5), "unsure"),  # two seeds far apart say nothing
        (Figure(0.89, 0.971, 2), Figure(0.88), "unsure"),  # nor that they agree
        (Figure(0.92, 0.03, 3), Figure(0.88, 0.02), "unsure"),
        (Figure(0.9, 0.03, 3), Figure(0.88), "within"),
        (Figure(0.95, 0.01, 3), Figure(0.88), "higher"),
        (Figure(0.9, None, 1), Figure(0.88), "near"),
        (Figure(0.92, None, 1), Figure(0.88, 0.02), "above"),
        (Figure(0.8, None, 1), Figure(0.88), "below"),
    ],
)
def test_verdicts(ours: Figure, paper: Figure, verdict: str) -> None:
    assert judged(ours, paper, tolerance=0.03) == verdict


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.floats(0, 1), st.floats(0, 0.2))
def test_higher_and_lower_are_said_only_of_intervals_that_leave_the_spread(
    values: list[float], paper: float, tolerance: float
) -> None:
    ours = over_seeds(values)
    assert ours is not None
    assert ours.half is not None
    verdict = judged(ours, Figure(paper), tolerance)
    is_apart = abs(ours.value - paper) > tolerance + ours.half
    assert (verdict in ("higher", "lower")) == is_apart or abs(ours.value - paper) == pytest.approx(
        tolerance + ours.half, abs=1e-6
    )


@pytest.mark.parametrize(
    ("verdict", "ours", "paper", "better", "side"),
    [
        ("higher", 0.9, 0.8, "higher", True),
        ("higher", 0.9, 0.8, "lower", False),
        ("below", 7.0, 9.0, "near:10", False),
        ("lower", 10.0, 12.0, "near:10", True),
        ("unsure", 0.9, 0.8, "higher", None),
        ("within", 0.9, 0.8, "higher", None),
    ],
)
def test_a_side_is_better_or_worse_only_where_a_verdict_names_one(
    verdict: PaperVerdict, ours: float, paper: float, better: str, side: bool | None
) -> None:
    assert is_better(verdict, ours, paper, better) is side
