import re

from fedkin.report import Band, Curve, Timeline
from fedkin.report.step_tables import constants, step_table

SHORT = Curve("Traffic", "Sent and received.", [1, 3], {"sent": [1000, 2e6], "received": [None, 5]}, "bytes", "step")
STEADY = Curve("Purity", "Of clusters.", [1, 2, 3, 4], {"Purity": [0.4] * 4}, "share", "round")


def cells(drawn: str) -> list[str]:
    return re.findall(r"<td[^>]*><span>([^<]*)</span>", drawn)


def test_few_steps_become_a_table_with_units_and_phases() -> None:
    drawn = step_table([SHORT], Timeline([Band("training", 3, 3)]))
    assert cells(drawn) == ["–", "5 B", "1 kB", "2 MB"]
    assert drawn.count('data-tip="Sent and received."') == 4
    assert re.findall(r'<th scope="row">([^<]*)<', drawn) == ["Traffic: received", "Traffic: sent"]
    assert re.findall(r'<th scope="col"[^>]*>([^<]*)<', drawn) == ["", "step 1", "step 3, training"]


def test_what_never_changes_is_said_in_a_sentence() -> None:
    both = Curve("Traffic", "", [1, 2, 3, 4], {"sent": [5] * 4, "received": [1] * 4}, "bytes", "round")
    assert "Purity: 0.400 in each of 4 rounds." in constants([STEADY])
    assert "Traffic: received 1 B, sent 5 B in each of 4 rounds." in constants([both])
    assert constants([]) == step_table([]) == ""
