"""What a page shows of runs that cluster clients by one message: how, in which phase, and who changed."""

import pytest

from fedkin.experiment.config import Config, load_config
from pages import clustered, record


@pytest.fixture
def config(toy: None) -> Config:
    return load_config("toy", ["scenario.name=toy"])


def embedded(step: int, **changes: object) -> dict:
    """The record of an embedding step: 2 clusters of 2 clients, by 200 bits each."""
    found = {
        "mode": "gap", "separable": True, "cut": 5.0, "heights": [9.0, 2.0, 1.0],
        "bits": 200, "flip": 0.1, "epsilon_bit": 2.1972, "epsilon": 439.44,
    }  # fmt: skip
    values = {"labels": [0, 0, 1, 1], "clusters": 2, "phase": "embedding", "clustering": found | changes}
    return record(step, values=values) | {"answered": [0, 1, 2, 3]}


def test_how_clusters_were_found_is_reported_and_drawn(config: Config) -> None:
    shown = clustered(config, embedded(1))
    assert shown.findings[0] == (
        "In step 1, 4 clients sent 200 bits each, every bit flipped with probability 0.1: 2 clusters."
    )
    assert shown.findings[1].startswith(
        "Privacy: no meaningful guarantee for a whole message (epsilon 439; 2.2 for one bit). It covers"
    )
    [bars] = shown.bars
    assert (bars.values, bars.strong, bars.line) == ([9.0, 2.0, 1.0], [True, False, False], 5.0)
    assert "separate fewer clients" not in bars.caption


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon_bit": 0.005, "epsilon": 1.0}, "Privacy: epsilon 0.005 for one bit, 1 for a"),
        ({"flip": 0.0, "epsilon_bit": None, "epsilon": None}, "Bits were sent without noise"),
        ({"flip": [0.0, 0.1], "epsilon_bit": None, "epsilon": None}, "Bits of some clients were sent without noise"),
        ({"flip": [0.1, 0.2]}, "(epsilon 439, for the clients with the lowest probability; 2.2 for one bit)"),
    ],
)
def test_privacy_is_reported_for_what_it_is(config: Config, changes: dict, words: str) -> None:
    assert words in clustered(config, embedded(1, **changes)).findings[1]
