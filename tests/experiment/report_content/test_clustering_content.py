import pytest

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


@pytest.mark.parametrize(
    ("way", "said"), [({"by_density": True}, "the gaps between micro-clusters"), ({"linkage": "ward"}, "Ward's method")]
)
def test_no_resolution_is_said_to_be_chosen_where_clusters_are_found_in_another_way(way, said):
    values = {"resolutions": [0.05, 0.1], "clusters_found": [3, 5], "stabilities": [0.8, 0.9], "resolution": 0.1}
    record = {"step": 2, "answered": [0, 1, 2], "values": values | {"nodes": 40, "clusters": 2} | way}
    findings, (drawn,) = clustering_of([record])
    assert findings == ["In step 2, 40 micro-clusters from 3 clients gave 2 clusters."]
    assert not any(drawn.strong)
    assert "was chosen: " in drawn.caption
    assert said in drawn.caption
    assert "merged" not in drawn.caption


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


def test_messages_of_sums_say_what_they_guarantee_to_whom():
    found = {"mode": "sums", "separable": True, "cut": 2.0, "heights": [3.0, 1.0], "numbers": 210, "delta": 1e-5}
    record = {"step": 2, "answered": [0, 1, 2], "values": {"clusters": 2, "clustering": found | {"epsilon": 8.0}}}
    (sent, privacy), (drawn,) = clustering_of([record])
    assert sent == "In step 2, 3 clients sent 210 numbers each, sums with noise: 2 clusters."
    assert privacy.startswith(
        "Privacy: epsilon 8 and delta 1e-05 for one sample, not for a client as a whole. It covers"
    )
    assert "cut above the height that noise alone gives" in drawn.caption
    record["values"]["clustering"] = found | {"epsilon": 20.0}
    assert "Privacy: no meaningful guarantee for one sample (epsilon 20 and" in clustering_of([record])[0][1]
    record["values"]["clustering"] = found | {"epsilon": 8.0, "cut": None, "heights": []}  # of several trees
    assert clustering_of([record]) == ([sent, privacy], [])


def test_a_method_of_ones_own_need_not_say_how_it_found_its_clusters():
    record = {"step": 1, "answered": [0, 1], "values": {"clusters": 2, "clustering": {}}}
    sent = "In step 1, 2 clients sent one message each: 2 clusters."
    assert clustering_of([record]) == ([sent], [])
    record["values"]["clustering"] = {"heights": [3.0, 1.0]}
    findings, bars = clustering_of([record])
    assert (findings[0], bars) == (sent, [])
    record["values"]["clustering"] |= {"cut": 2.0}
    assert "cut at the dashed line" in clustering_of([record])[1][0].caption
