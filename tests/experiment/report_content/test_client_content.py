"""Clusters of clients on a run's page."""

import pytest

from fedkin.experiment.config import Config
from pages import client_record, clustered


def test_clusters_of_clients_are_shown_by_round(config: Config) -> None:
    shown = clustered(
        config,
        client_record(1, [-1, 0, 0, 0], [None, 0.1, 0.2, 0.3]),
        client_record(2, [-1, 1, 0, 1], [None, 0.5, 0.6, 0.7]),
        clusters=[0, 27, 1, 2],
    )
    assert shown.clients is not None
    assert (shown.clients.clients, shown.clients.steps) == (["0", "1", "2", "3"], [1, 2])
    assert shown.clients.clusters.tolist() == [[-1, -1], [0, 1], [0, 0], [0, 1]]
    assert shown.clients.hidden == ["A", "BB", "B", "C"]
    assert shown.clients.scores == pytest.approx({0: 0.6, 1: 0.6})
    assert shown.clients.caption.startswith(
        "After round 2: 2 clusters of 1 and 2 clients, 1 client without a cluster yet."
    )
    assert shown.lead == (
        "2 clusters of clients were found. They match the true clusters exactly (ARI 1.00).\n"
        "4 clients hold 20 samples; these never left them. It took 2 rounds."
    )
    assert "which no method sees" in shown.notes[0]
    spread = next(curve for curve in shown.curves if curve.title == "Accuracy across clients")
    assert spread.series["median"] == pytest.approx([0.2, 0.6])
    assert spread.series["10th percentile"] == pytest.approx([0.12, 0.52])
    assert {curve.x_label for curve in shown.curves} == {"round"}
