"""Figures of fits; whether they are beautiful is looked at by eye."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.estimators.metrics import client_panels

RNG = np.random.default_rng(0)
CLIENTS = {name: (RNG.random((20, 2)), RNG.integers(0, 2, 20)) for name in ("north", "south", "west")}
QUICK: dict[str, Any] = {"rounds": 3, "random_state": 0}


def titles(figure: Any) -> list[str]:
    figure.canvas.draw()
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_clients_that_were_clustered() -> None:
    model = fedkin.OCFL(**QUICK).fit(CLIENTS, eval=CLIENTS, validation=0.2)
    figure = model.plot()
    assert titles(figure) == [
        "Accuracy on own test samples", "Accuracy on own validation samples", "Cluster of each client",
        "Clients in each cluster", "Loss",
    ]  # fmt: skip
    drawn = figure.axes[0].get_lines()
    assert {line.get_gid() for line in drawn} >= set(CLIENTS)
    assert [text.get_text() for text in figure.axes[2].get_yticklabels()] == list(CLIENTS)
    mean = model.metrics_.query("split == 'test' and metric == 'accuracy' and client.isna() and cluster.isna()")
    assert drawn[-1].get_ydata().tolist() == mean["value"].tolist()


@pytest.mark.parametrize(("rounds", "panels"), [(2, []), (3, ["Temperature"])])
def test_temperatures_of_some_rounds_are_a_curve(rounds: int, panels: list[str]) -> None:
    rows = [(at, None, None, None, "temperature", 0.5) for at in range(rounds)]
    metrics = pd.DataFrame(rows, columns=["round", "client", "cluster", "split", "metric", "value"])
    assert [title for title, _ in client_panels(metrics, ["north"])] == panels


def test_samples_that_were_clustered() -> None:
    model = fedkin.KFed(n_clusters=2, random_state=0).fit(CLIENTS)
    figure = model.plot()
    assert titles(figure) == ["Samples in each cluster, by client", "Adjusted Rand index within each client"]
    heights = sum(patch.get_height() for patch in figure.axes[0].patches)
    assert heights == 60
