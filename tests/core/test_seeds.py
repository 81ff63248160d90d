import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.seeds import derive_seed

paths = st.lists(st.integers(0, 10**6) | st.text(max_size=6), max_size=4)


@given(st.integers(0, 2**40), paths)
def test_a_seed_has_63_bits(seed, path):
    assert 0 <= derive_seed(seed, *path) < 2**63


@pytest.mark.parametrize(
    ("path", "seed"),
    [
        ((0,), 6375474604893067239),
        ((7, "client", 3), 8356605545132523358),
        ((2**40, ""), 2483749886970300521),
        ((0, "ab"), 3511926530596592298),
        ((0, "a", "b"), 1142875481379748505),
        ((0, 1), 8514611595815388268),
        ((0, "1"), 8442302946279886881),
    ],
)
def test_seeds_are_the_same_in_every_process_and_version(path, seed):
    assert derive_seed(*path) == seed


def test_other_paths_give_other_seeds():
    seeds = {
        derive_seed(seed, "client", client, step) for seed in range(5) for client in range(10) for step in range(10)
    }
    assert len(seeds) == 500
    assert derive_seed(0, "client", 1) != derive_seed(0, "server", 1)
