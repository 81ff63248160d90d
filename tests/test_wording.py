import pytest

from fedkin.wording import MEASURES, measures, scaled, size, written

LINE = {
    "values": {"zeta": 3, "isolated": 4, "clusters": 9, "sizes": [1], "done": True},
    "metrics": {"wrong": 0.031, "ARI_like": 0.5},
}


def test_known_numbers_come_first_and_in_order_of_importance() -> None:
    assert list(measures(LINE)) == ["isolated", "wrong", "clusters", "ARI_like", "zeta"]


def test_unknown_numbers_have_their_own_names() -> None:
    known = measures(LINE)
    assert (known["zeta"].title, known["zeta"].unit, known["zeta"].meaning) == (
        "Zeta",
        "count",
        "as the method reports it",
    )
    assert (known["ARI_like"].title, known["ARI_like"].unit) == ("Ari like", "number")
    assert known["ARI_like"].meaning == "compared with the hidden truth"


def test_a_number_that_once_was_a_fraction_is_no_count() -> None:
    lines = [{"values": {"zeta": value}, "metrics": {}} for value in (1, 0.5, None)]
    assert measures(*lines)["zeta"].unit == "number"
    assert list(measures(lines[-1])) == []


@pytest.mark.parametrize(("name", "text"), [("isolated", "4 of 9"), ("wrong", "3.1 %"), ("zeta", "3"), ("cut", "–")])
def test_numbers_are_written_with_unit_and_whole(name: str, text: str) -> None:
    assert written(LINE, name, measures(LINE).get(name, MEASURES["cut"])) == text


def test_a_metric_wins_over_a_value_of_its_name() -> None:
    line = {"values": {"accuracy": 0.1, "wrong": 0.2}, "metrics": {"accuracy": 0.9}}
    assert scaled(line, "accuracy", MEASURES["accuracy"]) == 0.9
    assert scaled(line, "wrong", MEASURES["wrong"]) == 20.0


def test_what_measures_refer_to_exists() -> None:
    for measure in MEASURES.values():
        assert {measure.total, measure.beside} <= {"", *MEASURES}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (123_456, "123 kB"),
        (208_600_000, "209 MB"),
        (999_999_999, "1 GB"),
        (5e15, "5 PB"),
    ],
)
def test_bytes_have_three_digits(count: float, text: str) -> None:
    assert size(count) == text
