import doctest

import pytest

from fedkin.estimators import centroids, deep


@pytest.mark.parametrize("module", [centroids, deep], ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_documented_examples_are_true(module) -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
