"""What the terminal says of clusters of clients."""

from fedkin.experiment.client_remarks import members


def test_who_is_in_which_cluster_is_a_line_for_each() -> None:
    assert members([0, 1, 0, -1], ["a.csv", "b.csv", "c.csv", "d.csv"]) == [
        "Cluster 0 has 2 clients: a, c",
        "Cluster 1 has 1 client: b",
    ]
    assert members([0, 0], ["a", "b"]) == []
    many = members([at // 12 for at in range(120)], [])
    assert many[0] == "Cluster 0 has 12 clients: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert (len(many), many[-1]) == (7, "... and 4 more clusters, in clients.csv")
