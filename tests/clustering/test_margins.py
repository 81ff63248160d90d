import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.clustering.margins import distance_margin


def test_a_point_at_its_cluster_is_sure_and_one_halfway_is_not():
    distances = torch.tensor([[0.0, 2.0, 5.0], [1.0, 1.0, 5.0], [3.0, 1.0, 2.0], [0.0, 0.0, 1.0]])
    assert distance_margin(distances).tolist() == [1.0, 0.0, 0.5, 0.0]
    assert distance_margin(distances, torch.tensor([0, 0, 0, 2])).tolist() == [1.0, 0.0, 0.0, 0.0]


@given(
    st.lists(st.lists(st.just(0.0) | st.floats(1e-3, 1e6), min_size=3, max_size=3), min_size=1), st.floats(1e-3, 1e3)
)
def test_margins_do_not_depend_on_the_unit(rows, unit):
    distances = torch.tensor(rows, dtype=torch.float64)
    margin = distance_margin(distances)
    assert ((margin >= 0) & (margin <= 1)).all()
    assert torch.allclose(distance_margin(distances * unit), margin, atol=1e-5)
