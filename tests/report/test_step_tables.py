import re

from fedkin.report import Band, Curve, PagePart, PageView, RunView, Timeline
from fedkin.report.step_tables import constants, is_constant, is_short, step_table
from fedkin.report.write import render, render_page

SHORT = Curve("Traffic", "Sent and received.", [1, 3], {"sent": [1000, 2e6], "received": [None, 5]}, "bytes", "step")
STEADY = Curve("Purity", "Of clusters.", [1, 2, 3, 4], {"Purity": [0.4] * 4}, "share", "round")
LONG = Curve("Loss", "Falls.", [1, 2, 3, 4], {"Loss": [4.0, 3.0, 2.0, 1.0]})


def cells(drawn: str) -> list[str]:
    return re.findall(r"<td[^>]*><span>([^<]*)</span>", drawn)


def test_few_steps_become_a_table_with_units_and_phases() -> None:
    drawn = step_table([SHORT], Timeline([Band("training", 3, 3)]))
    assert cells(drawn) == ["–", "5 B", "1 kB", "2 MB"]
    assert drawn.count('data-tip="Sent and received."') == 4
    assert re.findall(r'<th scope="row">([^<]*)<', drawn) == ["Traffic: received", "Traffic: sent"]
    assert re.findall(r'<th scope="col"[^>]*>([^<]*)<', drawn) == ["", "step 1", "step 3, training"]


def test_steps_of_several_curves_share_the_columns() -> None:
    drawn = step_table([SHORT, Curve("Loss", "Falls.", [2], {"Loss": [0.5]}, x_label="step")])
    assert cells(drawn)[-3:] == ["–", "0.5", "–"]


def test_intervals_and_references_stay_with_their_numbers() -> None:
    curve = Curve("ACC", "", [0, 1], {"a": [0.5, 0.7]}, "share", "p", {"a": [(0.4, 0.6), None]}, {"a": [0.55, None]})
    assert cells(step_table([curve]))[:2] == ["0.500 (0.400 to 0.600); paper 0.550", "0.700"]


def test_what_never_changes_is_said_in_a_sentence() -> None:
    both = Curve("Traffic", "", [1, 2, 3, 4], {"sent": [5] * 4, "received": [1] * 4}, "bytes", "round")
    assert "Purity: 0.400 in each of 4 rounds." in constants([STEADY])
    assert "Traffic: received 1 B, sent 5 B in each of 4 rounds." in constants([both])
    assert constants([]) == step_table([]) == ""


def test_only_equal_values_that_are_all_known_are_constant() -> None:
    assert is_constant(STEADY)
    assert not is_constant(LONG)
    assert not is_constant(Curve("", "", [1, 2], {"a": [None, None]}))
    assert not is_constant(Curve("", "", [1, 2], {"a": [1, 1]}, reference={"a": [1, 2]}))
    assert [is_short(curve) for curve in (SHORT, LONG)] == [True, False]


def test_pages_draw_only_what_is_worth_a_chart() -> None:
    curves = [SHORT, STEADY, LONG]
    page = PageView("P", parts=[PagePart("a", "A", curves=curves)])
    for drawn in (render(RunView("R", curves=curves)), render_page(page)):
        assert drawn.count('class="chart"') == 1
        assert "Numbers by step" in drawn
        assert "Purity: 0.400 in each of 4 rounds." in drawn
    assert "Step by step" in render(RunView("R", curves=[SHORT]))
