from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.report import ClusterPictures, ClusterTable, Profiles


def test_arrays_must_have_the_shape_their_names_say() -> None:
    with pytest.raises(FedkinError, match=r"client × cluster table has shape \(2, 1\) where \(1, 2\)"):
        ClusterTable(["a"], [0, 1], np.zeros((2, 1), int))
    with pytest.raises(FedkinError, match="classes of the client × cluster table"):
        ClusterTable(["a"], [0], np.zeros((1, 1), int), mostly=["a", "b"])
    with pytest.raises(FedkinError, match="profile table"):
        Profiles(["a"], [0, 1], np.zeros((1, 2)))
    with pytest.raises(FedkinError, match="member pictures of cluster 3"):
        ClusterPictures(3, 1, 1, np.zeros((4, 4)), np.zeros((2, 4, 5)))
    with pytest.raises(FedkinError, match="mean picture of cluster 3"):
        ClusterPictures(3, 1, 1, np.zeros((4, 4, 1)), np.zeros((2, 4, 4, 1)))
