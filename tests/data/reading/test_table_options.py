import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.options import TableOptions


def test_lists_become_tuples_and_levels_texts():
    options = TableOptions(drop=["a"], categorical=("b",), ordinal={"c": [1, 2]}, id=None)
    assert (options.drop, options.categorical, options.ordinal, options.id) == (
        ("a",),
        ("b",),
        {"c": ("1", "2")},
        "none",
    )
    assert options.named == {"a": "drop", "b": "categorical", "c": "ordinal"}
    assert TableOptions(id="n").named == {"n": "id"}
    assert TableOptions(drop="age", categorical="ward").named == {"age": "drop", "ward": "categorical"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"drop": 3}, "drop is 3; it should be a list of names."),
        ({"na_values": {"a": {"b": 1}}}, "na_values['a'] has {'b': 1}; it should have"),
        ({"decimal": ";"}, "decimal is ';'; allowed: '.', ',' and 'auto'."),
        ({"encoding": "rot13"}, "encoding is 'rot13'; it should name one of text, such as 'utf-8' or 'cp1252'."),
        ({"ordinal": ["a"]}, "ordinal is ['a']; it should name columns with their levels in order."),
        ({"ordinal": {"a": ["x", "x"]}}, "ordinal['a'] is ['x', 'x']; it should have two levels or more, each once."),
        ({"header": 3}, "header is 3; allowed: true and false."),
    ],
)
def test_what_cannot_be_meant_is_refused(given, sentence):
    with pytest.raises(FedkinError) as error:
        TableOptions(**given)
    assert str(error.value).startswith(sentence)
