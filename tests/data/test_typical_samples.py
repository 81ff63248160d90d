import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.data.profile import typical_cells


def test_the_rows_nearest_to_the_medoid_are_taken():
    x = torch.cat([torch.arange(40.0), 1000 + torch.arange(12.0)])[:, None]
    clusters = torch.tensor([0] * 40 + [1] * 12)
    cells = typical_cells(x, clusters, torch.ones(52, 2, dtype=torch.bool), 2, 5)
    assert cells[:, 0].nonzero()[:, 0].tolist() == [*range(14, 24), *range(42, 48)]
    assert torch.equal(cells[:, 0], cells[:, 1])


def test_of_a_small_cluster_all_rows_are_typical_and_none_of_one_too_small():
    reported = torch.ones(12, 1, dtype=torch.bool)
    clusters = torch.tensor([0] * 8 + [1] * 4)
    assert typical_cells(torch.rand(12, 3), clusters, reported, 2, 5)[:, 0].tolist() == [True] * 8 + [False] * 4


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(1, 7), st.floats(0, 1), st.integers(0, 99))
def test_no_cell_of_too_few_can_be_found_by_subtraction(sizes, least, share, seed):
    rng = torch.Generator().manual_seed(seed)
    clusters = torch.cat([torch.full((size,), at) for at, size in enumerate(sizes)])
    reported = torch.rand(len(clusters), 3, generator=rng) < share
    cells = typical_cells(torch.rand(len(clusters), 2, generator=rng), clusters, reported, len(sizes), least)
    assert not (cells & ~reported).any()
    for cluster in range(len(sizes)):
        taken, whole = cells[clusters == cluster].sum(0), reported[clusters == cluster].sum(0)
        left = whole - taken
        assert ((taken == 0) | ((taken >= least) & ((left == 0) | (left >= least)))).all()
