import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.data.scenarios.mixtures import OwnClass, own_class


@given(
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=6),
    heterogeneity=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_every_sample_is_at_exactly_one_client(sizes, heterogeneity, seed):
    y = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]
    parts = own_class(y, len(sizes), heterogeneity, torch.Generator().manual_seed(seed))
    assert torch.cat(parts).sort().values.tolist() == list(range(len(y)))
    if heterogeneity < 1:
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    else:
        assert [y[part].unique().tolist() for part in parts] == [[c] for c in range(len(sizes))]


def test_a_class_too_small_for_its_share_is_given_whole():
    y = torch.tensor([0] * 5 + [1] * 95)
    first, second = own_class(y, 2, 0.9, torch.Generator().manual_seed(0))
    assert (y[first] == 0).sum() == 5
    assert (len(first), len(second)) == (50, 50)


def test_clients_are_unlabelled_and_only_part_of_the_data_may_take_part():
    population = OwnClass(heterogeneity=0.5, fraction=0.25).build(1)
    assert len(population.clients) == 10
    assert all(client.y is None for client in population.clients)
    assert sum(map(len, population.clients)) == round(0.25 * 1797)
    assert population.truth is not None
    assert [len(y) for y in population.truth] == [len(client) for client in population.clients]
