"""What the terminal says of clusters of clients."""

import copy

from fedkin.data.checks import check_labels
from fedkin.experiment.terminal import members, notes_on_clusters


def test_who_is_in_which_cluster_is_a_line_for_each() -> None:
    assert members([0, 1, 0, -1], ["a.csv", "b.csv", "c.csv", "d.csv"]) == [
        "Cluster 0 has 2 clients: a, c",
        "Cluster 1 has 1 client: b",
    ]
    assert members([0, 0], ["a", "b"]) == []
    many = members([at // 12 for at in range(120)], [])
    assert many[0] == "Cluster 0 has 12 clients: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert (len(many), many[-1]) == (7, "... and 4 more clusters, in clients.csv")


def test_labels_that_explain_clusters_of_clients_are_told_by_their_kind() -> None:
    """Whatever the sentences say, and copied as an estimator's are."""
    spelt, apart = check_labels({"a": ["Cat", "dog"], "b": ["cat", "dog"], "c": ["x", "y"]})
    line = {"values": {"labels": [0, 1, 1]}, "metrics": {}}
    notes = [*copy.deepcopy(spelt), *apart, f"{spelt[0]} And no more."]
    assert notes_on_clusters(line, None, notes) == [*spelt, *apart]
    assert (len(spelt), len(apart)) == (1, 1)
    assert not notes_on_clusters({"values": {"labels": [0, 0, 0]}, "metrics": {}}, None, notes)
