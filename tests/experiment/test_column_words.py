from fedkin.experiment.column_words import _how_often


def test_words_of_shares_are_true():
    assert [_how_often(*pair) for pair in ((0.6, 0.3), (0.4, 0.3), (0.2, 0.3), (0.6, 0.8))] == [
        "mostly", "often", "rarely", "less often",
    ]  # fmt: skip
