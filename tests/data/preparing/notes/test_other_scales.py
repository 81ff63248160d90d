"""Answers from 0 to 4 at one client and from 1 to 5 at the others are asked about; counts are not."""

import numpy as np
import pandas as pd
import pytest

import fedkin

RNG = np.random.default_rng(0)


def notes(*answers):
    clients = {
        name: pd.DataFrame({"q1": own, "q2": own[::-1], "length": RNG.normal(size=len(own))})
        for name, own in zip("abcd", answers, strict=False)
    }
    model = fedkin.KFed(n_clusters=2, random_state=0)
    model.fit(clients)
    return [note for note in model.preparation_.notes if "do these numbers" in note]


def answers(low, high):
    return RNG.permutation(np.arange(100) % (high - low + 1) + low)


@pytest.mark.filterwarnings("ignore:The data look wrong")
@pytest.mark.parametrize(("low", "high"), [(0, 4), (2, 6), (1, 10)])
def test_answers_on_another_scale_are_asked_about(low, high):
    assert notes(answers(1, 5), answers(low, high), answers(1, 5)) == [
        f"Columns 'q1', 'q2' hold {low} to {high} at client b, but 1 to 5 at the others; do these numbers mean the "
        "same?"
    ]


def test_counts_and_other_ends_are_not():
    counts = [np.minimum(RNG.poisson(1, 100), most) for most in (4, 4, 8)]
    counts[2][0] = 8
    assert notes(*counts) == []
    assert notes(answers(1, 5), answers(0, 4)) == []  # of two clients, neither is the usual
    assert notes(answers(1, 5), answers(1, 6), answers(1, 5)) == []
    assert notes(answers(1, 5), answers(0, 4), answers(1, 6)) == []
    assert notes(answers(1, 30), answers(0, 29), answers(1, 30)) == []
