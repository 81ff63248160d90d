import math
from types import SimpleNamespace

import pytest

from fedkin.core import FedkinError
from fedkin.studies import time_budget
from fedkin.studies.time_budget import TimeBudget, duration, exact_duration, given_duration, parsed_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("0.5m", 30), ("1.5s", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parsed_duration(text) == seconds


def test_times_as_people_say_them() -> None:
    times = (0.52, 12.3, 300, 12_600, 345_600)
    assert [duration(seconds) for seconds in times] == ["0.5 s", "12 s", "5 min", "3.5 h", "4 days"]


def test_budgets_as_they_were_given() -> None:
    given = ("90s", "1.5s", "10m", "100m", "2h", "1h30m")
    assert [exact_duration(parsed_duration(text)) for text in given] == [
        "90 s", "1.5 s", "10 min", "100 min", "2 h", "90 min",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "ten minutes", "-5m", "0s", "10d", "10m!"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(FedkinError, match=r"--budget is '.*'; it should be a time above 0, such as 90s, 10m or 2h\."):
        parsed_duration(text)


def test_numbers_are_seconds() -> None:
    assert [given_duration(given) for given in (60, 1.5, 10_000_000, "2h")] == ["60s", "1.5s", "10000000s", "2h"]
    for wrong in (0, -1, math.nan, math.inf, True, None, [60]):
        with pytest.raises(FedkinError, match="it should be seconds above 0, or a text such as '90s'"):
            given_duration(wrong)  # type: ignore[arg-type]


def test_a_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time_budget, "time", SimpleNamespace(monotonic=lambda: now[0]))
    made = TimeBudget(5.0)
    now[0] += 2
    assert (made.left, made.spent) == (3.0, 2.0)
    now[0] += 4
    assert (made.left, made.spent) == (0.0, 6.0)
    begun = TimeBudget(20.0, kept=2.0, began=100.0)
    assert (begun.left, begun.spent) == (12.0, 6.0)
