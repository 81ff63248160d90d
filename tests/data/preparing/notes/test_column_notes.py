"""Columns that distinguish clients, and categories that are spelt in several ways."""

import pytest
import torch

from fedkin.data.preparing.notes.category_notes import notes_on_categories
from fedkin.data.preparing.notes.column_notes import (
    has_no_common,
    note_on_apart,
    notes_on_codes,
    notes_on_labels,
    rounded,
    spelt_alike,
    wrong_truths,
)
from fedkin.data.preparing.notes.column_ranges import Spread
from fedkin.data.preparing.notes.range_notes import notes_on_ranges


@pytest.mark.parametrize(
    "names",
    [
        ["Ulm", "ulm ", "U lm"],
        ["cardio", "Cardio."],
        ["X-ray", "x_ray", "Xray"],
        ["Köln", "Koeln"],
        ["Straße", "STRASSE"],
        ["18-25", "18\u201325", "18\u201425", "18 \u2212 25", "18\u201125", "18\u201025", "18\u201225"],
        ["A-", "A\u2013"],
        ["Karlsruhe", "Karls\u00adruhe", "Karls\u200bruhe"],
    ],
)
def test_names_that_differ_in_spelling_alone_are_alike(names):
    assert spelt_alike(["Bonn", *names]) == [names]


def test_signs_beside_digits_and_at_the_end_tell_names_apart():
    assert spelt_alike(["A+", "A-", "A", "1.5", "15", "I50.1", "I501", "1-2", "12", "<5", ">5"]) == []


def test_spellings_and_values_that_no_two_clients_share_are_mentioned():
    notes = notes_on_categories({"town": {"north": ["Ulm", "Bonn"], "south": ["ulm"], "west": []}})
    assert notes == [
        "Categories of column 'town' that differ in spelling alone count as different: 'Ulm' (client north), 'ulm' "
        "(client south); spell them alike if they are the same.",
    ]
    assert has_no_common({"north": ["Ulm", "Bonn"], "south": ["ulm"], "west": []})
    assert not has_no_common({"north": ["a", "b"], "south": ["b"]})
    assert not has_no_common({"north": ["a", "b"], "south": []})
    assert notes_on_categories({"town": {"north": ["a", "b"], "south": ["b"]}}) == []
    assert notes_on_categories({"town": {"north": ["a", "b"], "south": []}}) == []
    alone = notes_on_categories({"town": {"north": ["a", "A"], "south": ["a"]}})
    assert alone == [
        "Categories of column 'town' that differ in spelling alone count as different: 'a', 'A'; spell them alike if "
        "they are the same."
    ]


def test_columns_that_distinguish_clients_are_one_note():
    fix = ", or spell {its} values alike"
    assert note_on_apart([], "a value", fix) == []
    assert note_on_apart(["town"], "a value", fix) == [
        "Column 'town' distinguishes clients, for no two of them share a value; name it in drop if it is no feature of "
        "samples, or spell its values alike."
    ]
    assert note_on_apart(["town", "zip"], "a value", fix) == [
        "Columns 'town', 'zip' distinguish clients, for no two of them share a value; name them in drop if they are no "
        "features of samples, or spell their values alike."
    ]
    clients = {"a": reply(9, age=(20, 90), row=(0, 8)), "b": reply(9, age=(1, 17), row=(9, 17))}
    assert [note.partition(";")[0] for note in notes_on_ranges(["age", "row"], clients, dates=["age", "row"])] == [
        "Columns 'age', 'row' distinguish clients, for no two of them share a value: their ranges do not overlap"
    ]


def test_clients_without_any_category_of_the_others_are_named():
    by_client = {"a": ["M", "F"], "b": ["male", "female"], "c": ["M"], "d": ["männlich", "weiblich"], "e": ["F"]}
    assert notes_on_categories({"sex": by_client}) == [
        "Column 'sex' has no frequent value of the other clients at client b and at client d; spell its values alike "
        "if they are the same."
    ]


def test_columns_with_the_same_spellings_are_one_note():
    words = {"a": ["agree", "disagree"], "b": ["Agree", "Disagree"], "c": ["agree", "disagree"]}
    other = {"a": ["x", "y"], "b": ["y"], "c": ["x"]}
    assert notes_on_categories({"q1": words, "town": other, "q2": words, "q3": words}) == [
        "Categories of columns 'q1', 'q2', 'q3' that differ in spelling alone count as different: 'agree' (client a), "
        "'Agree' (client b); 'disagree' (client a), 'Disagree' (client b); spell them alike if they are the same.",
        "Columns 'q1', 'q2', 'q3' have no frequent value of the other clients at client b; spell their values alike if "
        "they are the same.",
    ]


def reply(filled, **ends):
    low, high = (torch.tensor([own[at] for own in ends.values()], dtype=torch.float64) for at in (0, 1))
    return {
        "names": [*ends],
        "filled": torch.full((len(ends),), float(filled), dtype=torch.float64),
        "sum": filled * (low + high) / 2,
        "min": low,
        "max": high,
    }


def test_ranges_that_do_not_overlap_are_mentioned():
    clients = {
        "Client 0": reply(9, year=(2020, 2020), age=(20, 40)),
        "Client 1": reply(9, year=(2018, 2018), age=(41, 60)),
        "Client 2": reply(9, year=(2019, 2019), age=(39, 50)),
    }
    assert notes_on_ranges(["year", "age"], clients) == [
        "Column 'year' distinguishes clients, for no two of them share a value: their ranges do not overlap; name it "
        "in drop if it is no feature of samples."
    ]
    assert notes_on_ranges(["age"], clients) == []
    few = {"Client 0": clients["Client 0"], "Client 1": reply(4, year=(2018, 2018), age=(1, 2))}
    assert notes_on_ranges(["year"], few) == []


def test_clients_with_another_unit_are_named():
    kilograms, grams = {"weight": (45, 120)}, {"weight": (48_000, 113_000)}
    clients = {"a": reply(90, **kilograms), "b": reply(90, **grams), "c": reply(90, **kilograms)}
    assert notes_on_ranges(["weight"], clients) == [
        "All values of column 'weight' at client b are above those of the others, about 976 times as large in the "
        "mean; are they in another unit?"
    ]
    two = {**clients, "d": reply(90, **grams), "e": reply(90, **grams)}
    assert notes_on_ranges(["weight"], two) == [
        "All values of column 'weight' at clients a, c are below those of the others, about 976 times smaller in the "
        "mean; are they in another unit?"
    ]
    assert notes_on_ranges(["weight"], {"a": reply(90, **kilograms), "b": reply(90, **grams)}) == [
        "Column 'weight' distinguishes clients, for no two of them share a value: their ranges do not overlap; name it "
        "in drop if it is no feature of samples, or give it one unit."
    ]


def test_a_ratio_of_usual_units_is_asked_about_and_drop_named():
    clients = {"a": reply(90, height=(150, 200)), "b": reply(90, height=(59, 79)), "c": reply(90, height=(155, 195))}
    assert notes_on_ranges(["height"], clients) == [
        "All values of column 'height' at client b are below those of the others, about 2.5 times smaller in the mean; "
        "are they in another unit? Otherwise name the column in drop if it is no feature of samples."
    ]
    (note,) = notes_on_ranges(["height"], {one: clients[one] for one in "ab"})
    assert note.endswith("or give it one unit.")
    near = {"a": reply(90, height=(150, 200)), "b": reply(90, height=(201, 230)), "c": reply(90, height=(155, 195))}
    assert "unit" not in notes_on_ranges(["height"], near)[0]


def test_a_range_of_its_own_without_another_unit_and_dates_are_mentioned():
    clients = {"a": reply(9, age=(20, 90)), "b": reply(9, age=(1, 17)), "c": reply(9, age=(19, 70))}
    end = "those of the others; name the column in drop if it is no feature of samples."
    assert notes_on_ranges(["age"], {"a": clients["a"], "b": reply(9, age=(-3, -1)), "c": clients["c"]}) == [
        f"All values of column 'age' at client b are below {end}"
    ]
    assert notes_on_ranges(["age"], clients, dates=["age"]) == [
        f"All values of column 'age' at client b are below {end}"
    ]


def test_a_maximum_far_above_those_of_all_others_is_mentioned():
    clients = {"a": reply(9, sugar=(60, 300)), "b": reply(9, sugar=(50, 9999)), "c": reply(9, sugar=(55, 240))}
    assert notes_on_ranges(["sugar"], clients) == [
        "Column 'sugar' has values at client b that are up to 33 times as large as any other client's; are they in "
        "another unit, or do they stand for missing ones?"
    ]
    assert notes_on_ranges(["sugar"], clients, dates=["sugar"]) == []
    assert notes_on_ranges(["sugar"], {**clients, "d": reply(9, sugar=(0, 900))}) == []


def test_how_many_cells_are_far_above_all_others_is_said_where_they_are_few():
    ages, ends = list(range(20, 80)), "are they in another unit, or do they stand for missing ones?"

    def note(*large):
        return reported(notes_on_ranges, ages, [*large, *ages], ages)

    assert note(7400) == [
        "Column 'smoker' has a single value at client 1 that is 94 times as large as any other client's; is it "
        "mistyped, or does it stand for a missing one?"
    ]
    start = "Column 'smoker' has values at client 1 that are up to 94 times as large as any other client's"
    assert note(7400, 7400, 7400) == [f"{start}, at most 3 of them near the largest; {ends}"]
    assert note(*(100 * age for age in ages[:54]), 7400) == [f"{start}; {ends}"]


@pytest.mark.parametrize(
    ("low", "high", "center", "squares"),
    [(2e199, 1e200, 0.0, 1e300), (2e-181, 1e-180, 0.0, 0.0), (1e-300, 1e308, 0.0, 1e308), (2.0, 10.0, 2 - 1e-16, 1.0)],
)
def test_no_number_that_a_client_sends_is_too_large_or_small_to_count_cells(low, high, center, squares):
    assert 1 <= Spread(50, center, squares).at_most(low, high) <= 50


def codes(*clients):
    """Return notes on the codes of one column of each client, whose values are given."""
    return reported(notes_on_codes, *clients)


def reported(notes_on, *clients):
    """Report on one column of each client, whose values are given, as clients do."""
    values = [torch.tensor(own, dtype=torch.float64) for own in clients]
    mean = torch.cat(values).mean()
    replies = {
        f"{at}": {
            "names": ["smoker"], "filled": torch.tensor([len(own)]), "sum": own.sum()[None], "min": own.min()[None],
            "max": own.max()[None],
        }
        for at, own in enumerate(values)
    }  # fmt: skip
    squares = {f"{at}": (own - mean).square().sum()[None] for at, own in enumerate(values)}
    if notes_on is notes_on_ranges:
        return notes_on_ranges(["smoker"], replies, (), mean[None], squares)
    return notes_on(["smoker"], mean[None], replies, squares)


def test_two_codes_that_differ_between_clients_are_mentioned():
    assert codes([0, 1] * 5, [1, 2] * 5, [1, 0] * 5) == [
        "Column 'smoker' holds 0 and 1 at clients 0, 2, but 1 and 2 at client 1; do these codes mean the same?"
    ]
    assert codes([0, 1] * 4, [1, 2] * 5) == [], "values that fewer than five rows share are not shown"
    assert codes([0, 1, 1], [0, 0, 1, 1], [1, 1]) == []
    assert codes([0, 1, 1], [1, 2, 3]) == []
    assert codes([0, 1, 1], [0.5, 1.5]) == []
    assert codes([1, 2, 2, 1], [3, 4, 3, 4]) == []  # which distinguishes clients, a note of its own


def test_numbers_beside_truth_values_must_be_such():
    clients = {"a": reply(9, smoker=(0, 1)), "b": reply(9, smoker=(1, 2)), "c": reply(0, smoker=(0, 0))}
    assert wrong_truths(["smoker"], clients) == [
        "Column 'smoker' holds truth values at some clients, but other numbers than 0 to 1 at client b; write "
        "it in one way, or name it in drop."
    ]
    assert wrong_truths(["smoker"], {"a": clients["a"], "c": clients["c"]}) == []


def test_labels_that_differ_in_spelling_alone_are_mentioned():
    assert notes_on_labels({"north": ["ill", "well"], "south": ["Ill", "well"]}) == [
        "Labels that differ in spelling alone are different classes: 'ill' (client north), 'Ill' (client south); spell "
        "them alike if they are the same."
    ]
    assert notes_on_labels({"north": ["ill", "well"], "south": ["0", "1"]}) == []


def test_a_single_cell_beside_a_constant_is_no_code():
    assert codes([0] * 9 + [44], [0] * 9 + [32], [0] * 9 + [24]) == []


def test_numbers_are_rounded_as_they_are_read():
    assert [rounded(own, "number") for own in (22_402.0, 2.0208, 1e5, -0.000123456, 0.0)] == [
        "22,400", "2.021", "100,000", "-0.0001235", "0",
    ]  # fmt: skip
    assert rounded(19_000.7, "date") == "2022-01-08"


def test_clients_whose_labels_no_other_has_are_told():
    english = {f"c{at}": ["high", "low"] for at in range(4)}
    assert notes_on_labels({**english, "c4": ["hoch", "mittel"], "c5": ["mittel"]}) == [
        "Clients c4, c5 ('hoch', ...) share no label with the other clients, which alone can make clusters of clients; "
        "write labels alike if they mean the same."
    ]
    assert notes_on_labels(english) == []
    assert notes_on_labels({"a": ["u"], "b": ["v"], "c": ["w"]}) == []  # each may have classes of its own
