import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.data.scenarios.own_class import OwnClass, own_class


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


def test_a_client_holds_the_first_of_its_class():
    y = torch.arange(400) % 4
    parts = own_class(y, 4, 0.25, torch.Generator().manual_seed(0))
    for client, part in enumerate(parts):
        own = (y == client).nonzero()[:, 0]
        assert part[:25].tolist() == own[:25].tolist()
        assert 0.25 < float((y[part] == client).double().mean()) < 0.75


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


@pytest.mark.data
def test_both_splits_are_pooled(real):
    population = OwnClass(str(real("mnist")), heterogeneity=1.0).build(0)
    assert [len(client) for client in population.clients] == [
        6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958,
    ]  # fmt: skip


def test_too_few_samples_are_refused():
    with pytest.raises(FedkinError, match="a larger one is needed"):
        OwnClass(fraction=0.004).build(0)


def test_a_class_of_which_nothing_is_left_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(101.0)[:, None], y=np.repeat([0, 1], [100, 1]))
    with pytest.raises(FedkinError, match=r"^With scenario\.fraction = 0\.1 no sample of class '1' is left\.$"):
        OwnClass(str(tmp_path / "a.npz"), heterogeneity=1.0, fraction=0.1).build(0)
