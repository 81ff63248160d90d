import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.experiment.measure_titles import (
    MEASURES,
    clustering_step,
    join_words,
    measures,
    phased,
    phases,
    reached,
    scaled,
    training_rounds,
    written,
)

LINE = {
    "values": {"zeta": 3, "unmatched": 4, "local_clusters": 9, "sizes": [1], "done": True},
    "metrics": {"false_matches": 0.031, "ARI_like": 0.5},
}


def test_known_numbers_come_first_and_in_order_of_importance() -> None:
    assert list(measures(LINE)) == ["unmatched", "false_matches", "local_clusters", "ARI_like", "zeta"]


def test_unknown_numbers_have_their_own_names() -> None:
    known = measures(LINE)
    assert (known["zeta"].title, known["zeta"].unit, known["zeta"].meaning) == (
        "Zeta",
        "count",
        "as the method reports it",
    )
    assert (known["ARI_like"].title, known["ARI_like"].unit) == ("Ari like", "number")
    assert known["ARI_like"].meaning == "compared with the ground truth"


def test_a_number_that_once_was_a_fraction_is_no_count() -> None:
    lines = [{"values": {"zeta": value}, "metrics": {}} for value in (1, 0.5, None)]
    assert measures(*lines)["zeta"].unit == "number"
    assert list(measures(lines[-1])) == []


@pytest.mark.parametrize(
    ("name", "text"), [("unmatched", "4 of 9"), ("false_matches", "3.1 %"), ("zeta", "3"), ("cut", "–")]
)
def test_numbers_are_written_with_unit_and_whole(name: str, text: str) -> None:
    assert written(LINE, name, measures(LINE).get(name, MEASURES["cut"])) == text


def test_a_metric_wins_over_a_value_of_its_name() -> None:
    line = {"values": {"accuracy": 0.1, "false_matches": 0.2}, "metrics": {"accuracy": 0.9}}
    assert scaled(line, "accuracy", MEASURES["accuracy"]) == 0.9
    assert scaled(line, "false_matches", MEASURES["false_matches"]) == 20.0


def test_what_measures_refer_to_exists() -> None:
    for measure in MEASURES.values():
        assert {measure.total, measure.beside} <= {"", *MEASURES}


def line(step: int, **changes: dict) -> dict:
    return {"step": step, "values": {}, "metrics": {}, "sent": 100 * step, "received": step, **changes}


def test_numbers_of_client_clusters_come_in_order_of_importance() -> None:
    metrics = dict.fromkeys(["ami", "purity", "ari", "global_accuracy", "personal_accuracy"], 0.5)
    known = measures(line(1, values={"loss": 1.0, "temperature": 2.0, "clusters": 3, "fired": True}, metrics=metrics))
    assert list(known) == [
        "personal_accuracy", "global_accuracy", "ari", "purity", "clusters", "temperature", "loss", "ami",
    ]  # fmt: skip
    assert [name for name, measure in known.items() if measure.headline] == [
        "personal_accuracy", "global_accuracy", "ari", "clusters",
    ]  # fmt: skip


def test_a_target_is_reached_by_the_first_step_that_is_there_and_not_lost_again() -> None:
    values = [None, 0.5, 0.9, 0.95, 0.8]
    records = [line(step, metrics={"personal_accuracy": value}) for step, value in enumerate(values, start=1)]
    assert reached(records, "personal_accuracy", 0.9) == (3, 303)
    assert reached(records, "personal_accuracy", 0.96) is None
    assert reached(records, "ari", 0.0) is None
    assert reached([], "ari", 0.0) is None


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([False, False, True, False], 3),
        ([False, True, True, True], 2),
        ([None, None, 3, 3], 3),
        ([False, None, False, False], None),
    ],
)
def test_clusters_were_formed_when_the_trigger_fired_first(values: list, step: int | None) -> None:
    records = [line(at, values={"fired": value}) for at, value in enumerate(values, start=1)]
    assert clustering_step(records) == step
    assert "fired" not in measures(*records)


@given(st.lists(st.sampled_from(["pre-training", "embedding", "training", None]), max_size=12), st.integers(0, 13))
def test_training_rounds_are_the_steps_of_training(names: list[str | None], step: int) -> None:
    records = [{"step": at, "values": {"phase": name} if name else {}} for at, name in enumerate(names, 1)]
    assert training_rounds(records, step) == len([name for name in names[:step] if name in ("training", None)])


def test_phases_are_counted_in_order() -> None:
    records = [{"values": {"phase": name}} for name in ("pre-training", "pre-training", "embedding", "training")]
    assert phases(records) == {"pre-training": 2, "embedding": 1, "training": 1}
    assert phased(records) == "2 of pre-training, 1 of embedding and 1 of training"
    assert phases([line(1)]) == {}
    assert phased([line(1)]) == ""


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (list("abc"), "a, b and c")]
)
def test_names_stand_in_a_sentence(names: list[str], text: str) -> None:
    assert join_words(names) == text
