from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedkin.experiment.tracking import numbers


def line(**entries: Any) -> dict[str, Any]:
    whole = {"step": 3, "answered": [0, 2], "missing": {"1": "lost"}, "values": {}, "metrics": {}}
    return {**whole, "sent": 10, "received": 20, **entries}


def test_numbers_of_a_step_have_names_by_kind() -> None:
    record = line(values={"loss": 0.5, "clusters": 3}, metrics={"loss": 0.25})
    timing = {"step": 3, "seconds": 1.5, "client_seconds": 2.5}
    assert numbers(record, timing) == {
        "metrics/loss": 0.25,
        "values/loss": 0.5,
        "values/clusters": 3.0,
        "clients/answered": 2.0,
        "clients/missing": 1.0,
        "traffic/sent_bytes": 10.0,
        "traffic/received_bytes": 20.0,
        "time/seconds": 1.5,
        "time/client_seconds": 2.5,
    }
    assert "time/seconds" not in numbers(record, {})


letters = st.text("ab/", max_size=3)
json_values = st.none() | st.booleans() | st.integers(-9, 9) | letters | st.lists(st.integers(), max_size=2)


@given(values=st.dictionaries(letters, json_values, max_size=4))
def test_only_single_numbers_of_a_step_are_sent(values: dict[str, Any]) -> None:
    found = numbers(line(values=values), {})
    assert {name.removeprefix("values/") for name in found if name.startswith("values/")} == {
        name for name, value in values.items() if type(value) in (int, float)
    }
    assert "traffic/received_bytes" in found
