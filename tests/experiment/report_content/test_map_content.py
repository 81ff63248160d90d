import numpy as np
import pytest
import torch

from fedkin.experiment.evaluation.representation import LatentSample
from fedkin.experiment.report_content.map_content import sample_map


def latents(samples: int, width: int = 5) -> LatentSample:
    clusters = torch.arange(samples) % 2
    noise = torch.randn(samples, width, generator=torch.Generator().manual_seed(0))
    return LatentSample(noise + 20 * clusters[:, None], clusters, clusters + 1)


@pytest.mark.parametrize(("layout", "samples"), [("tsne", 60), ("pca", 60), ("tsne", 5), ("tsne", 1), ("pca", 1)])
def test_a_map_keeps_clusters_apart_and_is_the_same_again(layout, samples):
    drawn = sample_map(latents(samples), layout, ["a", "b", "c"])
    again = sample_map(latents(samples), layout, ["a", "b", "c"])
    assert drawn is not None
    assert again is not None
    assert np.array_equal(drawn.places, again.places)
    assert f"{samples} samples" in drawn.caption
    if samples > 1:
        middle = [drawn.places[drawn.clusters == cluster].mean(0) for cluster in (0, 1)]
        spread = max(np.ptp(drawn.places[drawn.clusters == cluster], axis=0).max() for cluster in (0, 1))
        assert np.linalg.norm(middle[0] - middle[1]) > spread / 2


def test_equal_samples_and_a_single_column_are_no_trouble():
    same = LatentSample(torch.ones(20, 3), torch.zeros(20, dtype=torch.int64), None)
    assert sample_map(same, "tsne", []) is not None
    for layout in ("tsne", "pca"):
        line = sample_map(latents(30, width=1), layout, [])
        assert line is not None
        assert np.ptp(line.places, axis=0)[0] > 10
        assert np.ptp(line.places, axis=0)[1] == 0
        assert "principal components" in line.caption


def test_classes_have_the_colours_of_the_clusters_that_stand_for_them():
    clusters = torch.tensor([0, 0, 0, 1, 1, 1, 1, 3])
    truth = torch.tensor([7, 7, 2, 2, 2, 2, 5, 9])
    drawn = sample_map(LatentSample(torch.randn(8, 3), clusters, truth), "pca", [])
    assert drawn is not None
    assert drawn.colours == {7: 0, 2: 1, 9: 3, 5: 4}  # 5 is left over
    assert "colour of the cluster" in drawn.caption


def test_no_map_where_none_is_wanted():
    assert sample_map(latents(5), "none", []) is None
