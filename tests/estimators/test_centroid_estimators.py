import doctest

import pytest

from fedkin.estimators import centroid_estimators, deep_estimators


@pytest.mark.parametrize(
    "module", [centroid_estimators, deep_estimators], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_the_documented_examples_are_true(module) -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
