from hypothesis import given
from hypothesis import strategies as st

from fedkin.report.measures import (
    MEASURES,
    phased,
    reached,
    training_rounds,
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


@given(st.lists(st.sampled_from(["pre-training", "embedding", "training", None]), max_size=12), st.integers(0, 13))
def test_training_rounds_are_the_steps_of_training(names: list[str | None], step: int) -> None:
    records = [{"step": at, "values": {"phase": name} if name else {}} for at, name in enumerate(names, 1)]
    assert training_rounds(records, step) == len([name for name in names[:step] if name in ("training", None)])


def test_phases_are_counted_in_order() -> None:
    records = [{"values": {"phase": name}} for name in ("pre-training", "pre-training", "embedding", "training")]
    assert phased(records) == "2 of pre-training, 1 of embedding and 1 of training"
    assert phased([line(1)]) == ""
