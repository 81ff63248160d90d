import re

import numpy as np
import pytest

from fedkin.report.plane_maps import sample_map
from fedkin.report.run_view import SampleMap

PLACES = np.array([[0.0, 0.0], [4.0, 1.0], [2.0, 2.0]])
CLUSTERS = np.array([0, 0, 3])


def test_samples_are_drawn_by_cluster_and_by_class():
    drawn = sample_map(SampleMap(PLACES, CLUSTERS, np.array([1, 0, 2]), ["cat", "<dog>"], "Three samples."))
    assert drawn.count("<svg") == 2
    assert drawn.count("<circle") == 6
    for words in ("Three samples.", "Cluster 0", "Cluster 3", "cat", "&lt;dog&gt;", "Class 2"):
        assert words in drawn


@pytest.mark.parametrize("places", [PLACES, np.zeros((3, 2)), PLACES * 1e6 - 5e5])
def test_every_dot_lies_inside_the_picture(places):
    drawn = sample_map(SampleMap(places, CLUSTERS, None, []))
    numbers = [float(number) for number in re.findall(r'c[xy]="([-\d.]+)"', drawn)]
    assert len(numbers) == 6
    assert 0 <= min(numbers) <= max(numbers) <= 400
