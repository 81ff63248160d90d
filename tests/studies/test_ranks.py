"""Ranks, the critical difference of Demšar's tables, and who is within the noise of the best."""

import pytest

from fedkin.studies.benchmark import best_of, critical_difference, ranked


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_demsars(methods, q):
    """Its table 5 (a) lists q at 5 %."""
    expected = q * (methods * (methods + 1) / (6 * 14)) ** 0.5
    assert critical_difference(methods, 14) == pytest.approx(expected, abs=2e-3)


def test_ranks_are_means_over_scenarios_with_ties_shared():
    found = ranked(
        {
            ("one", "a"): [0.9, 0.7],
            ("one", "b"): [0.8],
            ("one", "c"): [0.1],
            ("two", "a"): [0.5],
            ("two", "b"): [0.6],
            ("two", "c"): [0.2],
        }
    )
    assert found.ranks == {"b": 1.25, "a": 1.75, "c": 3.0}
    assert found.scenarios == ["one", "two"]
    assert found.p is not None
    assert 0 < found.p < 1
    assert found.as_good == ["b", "a", "c"]  # two scenarios show nothing


def test_many_scenarios_tell_methods_apart():
    scores = {(str(at), name): [value] for at in range(12) for name, value in (("a", 0.9), ("b", 0.5), ("c", 0.1))}
    found = ranked(scores)
    assert found.as_good == ["a"]
    assert found.p is not None
    assert found.p < 1e-4


def test_within_the_noise_is_two_standard_errors():
    scores = {("s", "best"): [0.9, 0.8, 1.0], ("s", "near"): [0.8, 0.9, 0.85], ("s", "far"): [0.5, 0.51, 0.49]}
    assert best_of(scores, "s") == ["best", "near"]
    assert best_of(scores, "other") == []
    assert best_of({("s", "b"): [0.5], ("s", "a"): [0.5], ("s", "c"): [0.4]}, "s") == ["a", "b"]
