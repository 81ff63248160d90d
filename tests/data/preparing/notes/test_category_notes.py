"""Categories that clients share or write in other words, by numbers of rows."""

import numpy as np
import pytest

from fedkin.data.preparing.prepare import prepare
from prepared_tables import category, federation, number, table


def notes(*clients):
    """Return the notes on categories of clients that have these in a column ``exercise``, beside a number."""
    tables = [table(number("age", *range(20, 20 + len(own))), category("exercise", *own)) for own in clients]
    names = [chr(ord("a") + at) for at in range(len(clients))]
    return [note for note in prepare(federation(*tables), names=names).notes if "spell" in note]


def answers(seed=0, rows=60, **words):
    drawn = np.random.default_rng(seed).choice(["often", "some", "none"], rows, p=[0.5, 0.3, 0.2])
    return [words.get(word, word) for word in drawn.tolist()]


def test_a_client_that_writes_some_categories_in_other_words_is_named():
    assert notes(answers(0), answers(1, often="oft"), answers(2)) == [
        "Column 'exercise' has 'oft' at client b alone, and 'often' at all other clients; spell values alike if they "
        "are the same."
    ]
    (two,) = notes(answers(0), answers(1, often="oft", none="kein"), answers(2), answers(3, often="oft", none="kein"))
    assert two.startswith("Column 'exercise' has 'oft', 'kein' at clients b, d alone, and 'often', 'none' at all other")
    assert notes(answers(0, often="oft"), answers(1)) != []


def test_columns_of_the_same_client_are_one_note():
    tables = [
        table(category("q1", *answers(at, often=word)), category("q2", *answers(at + 9, some=other)))
        for at, (word, other) in enumerate([("often", "some"), ("often", "some"), ("oft", "etwas")])
    ]
    assert prepare(federation(*tables), names="abc").questions[:1] == (
        "Columns 'q1', 'q2' have 'oft', 'etwas' at client c alone, and 'often', 'some' at all other clients; spell "
        "values alike if they are the same.",
    )


@pytest.mark.parametrize("clients", [2, 3, 5])
def test_parts_of_one_table_do_not_differ(clients):
    rng = np.random.default_rng(clients)
    for levels in (3, 12, 38, 60):
        drawn = rng.integers(0, levels, 240).astype(str)
        sites = rng.integers(0, clients, 240)
        assert notes(*[[f"model {one}" for one in drawn[sites == at]] for at in range(clients)]) == []


def test_a_category_of_one_client_that_replaces_no_other_is_not_mentioned():
    assert notes(answers(0), answers(1), [*answers(2), *["climbing"] * 30]) == []
    assert notes(answers(0), answers(1, often="some"), answers(2)) == []
    assert notes(answers(0, often="oft"), answers(1, often="often"), answers(2, often="souvent")) == []


def test_a_single_row_in_the_others_words_does_not_hide_that_all_else_is_in_others():
    german = [*answers(1, often="oft", some="etwas", none="kein"), "some"]
    assert notes(answers(0), german, answers(2)) == [
        "Column 'exercise' has no frequent value of the other clients at client b; spell its values alike if they are "
        "the same."
    ]
