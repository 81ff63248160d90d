from types import SimpleNamespace

import pytest

from fedkin.core import FedkinError
from fedkin.studies import time_budget
from fedkin.studies.time_budget import TimeBudget, parsed_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("0.5m", 30), ("1.5s", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parsed_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "ten minutes", "-5m", "0s", "10d", "10m!"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(FedkinError, match=r"--budget is '.*'; it should be a time above 0, such as 90s, 10m or 2h\."):
        parsed_duration(text)


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
