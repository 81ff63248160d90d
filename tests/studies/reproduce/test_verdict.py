import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.studies.reproduce.verdict import Figure, judged, over_seeds, printed


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


@pytest.mark.parametrize("text", ["", "–", " - "])
def test_a_dash_is_no_figure(text: str) -> None:
    assert printed(text) is None


@pytest.mark.parametrize("text", ["0.9 +- 0.1", "9 %", "n/a", "0.9 ±"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(FedkinError, match="is not a figure"):
        printed(text)


@pytest.mark.parametrize(
    ("ours", "paper", "better", "verdict"),
    [
        (0.9, Figure(0.88, 0.02), "higher", "inside"),
        (0.91, Figure(0.88, 0.02), "higher", "better"),
        (0.85, Figure(0.88, 0.02), "higher", "worse"),
        (0.85, Figure(0.88, 0.02), "lower", "better"),
        (0.9, Figure(0.88), "higher", "inside"),
        (0.95, Figure(0.88), "higher", "better"),
        (10.0, Figure(12.0, 1.0), "near:10", "better"),
        (7.0, Figure(9.0, 1.0), "near:10", "worse"),
    ],
)
def test_verdicts(ours: float, paper: Figure, better: str, verdict: str) -> None:
    assert judged(Figure(ours), paper, better, tolerance=0.03) == verdict


def test_without_two_figures_there_is_no_verdict() -> None:
    assert judged(None, Figure(1.0), "higher", 0.1) == ""
    assert judged(Figure(1.0), None, "higher", 0.1) == ""
