from fedkin.report.measures import (
    MEASURES,
    reached,
)


def test_what_measures_refer_to_exists() -> None:
    for measure in MEASURES.values():
        assert measure.beside in {"", *MEASURES}


def line(step: int, **changes: dict) -> dict:
    return {"step": step, "values": {}, "metrics": {}, "sent": 100 * step, "received": step, **changes}


def test_a_target_is_reached_by_the_first_step_that_is_there_and_not_lost_again() -> None:
    values = [None, 0.5, 0.9, 0.95, 0.8]
    records = [line(step, metrics={"personal_accuracy": value}) for step, value in enumerate(values, start=1)]
    assert reached(records, "personal_accuracy", 0.9) == (3, 303)
    assert reached(records, "personal_accuracy", 0.96) is None
    assert reached(records, "ari", 0.0) is None
    assert reached([], "ari", 0.0) is None
