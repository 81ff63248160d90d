from typing import Any

import pytest

import fedkin
from fedkin.core import FedkinError


def stopped(values: list[float | None], **options: Any) -> int | None:
    """The step that the callback stops after."""
    stop = fedkin.EarlyStopping("score", **options)
    for step, value in enumerate(values, 1):
        if stop.stops({"step": step, "values": {}, "metrics": {"score": value}}):
            return step
    return None


def test_it_stops_after_so_many_rounds_without_a_better_one() -> None:
    assert stopped([1, 2, 2, 2, 3], patience=2) == 4
    assert stopped([1, 2, 2, 3, 3], patience=2) is None
    assert stopped([3, 2, 1, 1], patience=1, mode="min") == 4
    assert stopped([1, 1.05, 1.1], patience=2, min_delta=0.2) == 3
    assert stopped([None, float("nan")], patience=2) == 2


def test_what_it_cannot_watch_is_refused() -> None:
    with pytest.raises(FedkinError, match="patience is 0; it should be a whole number of rounds, 1 or more"):
        fedkin.EarlyStopping(patience=0)
    with pytest.raises(FedkinError, match="min_delta is -1; it should be 0 or more"):
        fedkin.EarlyStopping(min_delta=-1)
    with pytest.raises(FedkinError, match="mode is 'up'; it should be 'auto', 'max' or 'min'"):
        fedkin.EarlyStopping(mode="up")  # type: ignore[arg-type]
    line = {"step": 1, "values": {"loss": 1.0, "labels": [0]}, "metrics": {"global_f1": 0.5}}
    with pytest.raises(
        FedkinError, match=r"'validation_personal_accuracy', which is not measured in step 1; there are"
    ):
        fedkin.EarlyStopping().stops(line)
