from fedkin.experiment.report_content.clustering_content import clustering_of, scales_of


def test_clusters_of_samples_show_how_stable_they_are_at_each_resolution():
    values = {
        "resolutions": [0.05, 0.1, 0.2],
        "clusters_found": [3, 5, 9],
        "stabilities": [0.8, 0.99, 0.7],
        "resolution": 0.1,
        "nodes": 1200,
        "clusters": 5,
    }
    graph = {"step": 2, "answered": [0, 1, 2], "values": values}
    findings, bars = clustering_of([{"values": {"phase": "components"}}, graph])
    assert findings == ["In step 2, a graph of 1,200 micro-clusters from 3 clients gave 5 clusters."]
    (drawn,) = bars
    assert list(drawn.names) == ["3", "5", "9"]
    assert list(drawn.values) == [0.8, 0.99, 0.7]
    assert list(drawn.strong) == [False, True, False]
    assert "joined" not in drawn.caption
    values["clusters"] = 2
    assert "Of its 5 clusters, those with the most edges" in clustering_of([graph])[1][0].caption


def test_coarser_and_finer_clusters_are_a_tree_where_there_are_any():
    scales = [
        {"samples": [5, 3], "parents": [], "stability": 0.9, "chosen": True},
        {"samples": [4, 3, 1], "parents": [0, 1, 0], "stability": 0.7, "chosen": False},
    ]
    tree = scales_of([{"values": {"phase": "components"}}, {"values": {"scales": scales}}])
    assert tree is not None
    assert [list(scale.samples) for scale in tree.scales] == [[5, 3], [4, 3, 1]]
    assert [scale.chosen for scale in tree.scales] == [True, False]
    assert scales_of([{"values": {"scales": scales[:1]}}]) is None
    assert scales_of([{"values": {}}]) is None
