"""Sentences in the words of the shell."""

import pytest

from fedkin.experiment.terminal_tables import in_shell


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("it is left out; lacking = 'impute' keeps it.", "it is left out; --set data.lacking=impute keeps it."),
        ("it is no feature; id = 'none' keeps it.", "it is no feature; --set data.id=none keeps it."),
        ("such as '1,5'; set decimal = ',', or write", "such as '1,5'; give --set data.decimal=',', or write"),
        ("or set label = 'none' if it", "or give --set data.label=none if it"),
        ("say data.label = 'none'.", "say data.label = 'none'."),
        ("or name the column in categorical or drop.", "or name the column in data.categorical or data.drop."),
        ("name it in na_values, or in drop.", "name it in data.na_values, or in data.drop."),
        ("several are a list: drop = ['a', 'b c'].", """several are a list: --set 'data.drop=["a","b c"]'."""),
        ("Column 'id' = 1 in dropped rows; sid = 'x'", "Column 'id' = 1 in dropped rows; sid = 'x'"),
    ],
)
def test_options_of_tables_are_named_as_the_shell_takes_them(sentence: str, said: str) -> None:
    assert in_shell(sentence) == said
