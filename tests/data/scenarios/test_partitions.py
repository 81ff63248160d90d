"""Populations of labelled data, and partitioners."""

from __future__ import annotations

import datasets
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.data.names import READ
from fedkin.data.scenarios.partitions import (
    allocate_in_proportion,
    apportion,
    dirichlet_split,
    hold_out,
    load_labelled,
)
from fedkin.experiment import registry


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def write(folder, split, features=None, **columns):
    (folder / "data").mkdir(exist_ok=True)
    datasets.Dataset.from_dict(columns, features=features).to_parquet(
        folder / "data" / f"{split}-00000-of-00001.parquet"
    )
    return str(folder)


def test_classes_of_both_splits_agree(tmp_path):
    write(tmp_path, "train", a=[[1.0], [2.0], [3.0]], kind=["cat", "fish", "cat"])
    data = load_labelled(write(tmp_path, "test", a=[[4.0], [5.0]], kind=["dog", "fish"]), label="kind")
    assert data.classes == ["cat", "dog", "fish"]
    assert (data.y.tolist(), data.test[1].tolist()) == ([0, 2, 0], [1, 2])
    assert data.test[0].tolist() == [[4], [5]]


@pytest.mark.parametrize(("n", "share", "out"), [(10, 0.3, 3), (10, 0.0, 0), (10, 1.0, 9), (2, 0.1, 1), (1, 0.5, 0)])
def test_something_always_remains_to_train_on(n, share, out):
    part = torch.arange(100, 100 + n)
    kept, held = hold_out(part, share, torch.Generator().manual_seed(0))
    assert len(held) == out
    assert torch.equal(torch.cat([kept, held]).sort().values, part)
    assert torch.equal(kept, kept.sort().values)


LABELS = st.lists(st.integers(0, 4), min_size=20, max_size=80).map(lambda labels: torch.tensor(labels))
SEED = st.integers(0, 2**31)

RULES = {
    "dirichlet": lambda y, n, rng: dirichlet_split(y, n, 0.5, rng, least=1),
    "capped": lambda y, n, rng: dirichlet_split(y, n, 10, rng, least=1, capped=True),
}


def rng(seed=0):
    return derive_generator(seed, "partition")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@given(y=LABELS, n=st.integers(1, 5), seed=SEED)
@settings(max_examples=30)
def test_every_sample_is_allocated_once_and_the_same_for_the_same_seed(rule, y, n, seed):
    parts = rule(y, n, rng(seed))
    assert len(parts) == n
    assert all(len(part) > 0 and part.dtype == torch.int64 for part in parts)
    held = sorted(torch.cat(parts).tolist())
    assert held == list(range(len(held)))
    assert len(y) - len(held) < 2 * n
    assert all(torch.equal(one, same) for one, same in zip(parts, rule(y, n, rng(seed)), strict=True))


def test_the_capped_split_has_the_sizes_of_the_paper():
    """MNIST at 100 clients by the authors' procedure: 431 to 711 samples, 13 clients without some class."""
    y = torch.arange(10).repeat(6000)
    parts = dirichlet_split(y, 100, 10, rng(), capped=True)
    sizes = [len(part) for part in parts]
    assert 380 < min(sizes) < 530
    assert 650 < max(sizes) < 780
    assert 3 <= sum(len(y[part].unique()) < 10 for part in parts) <= 30


@given(y=LABELS, held=st.lists(st.lists(st.integers(0, 6), max_size=9), min_size=1, max_size=4).filter(any), seed=SEED)
def test_allocating_alike_follows_what_is_held(y, held, seed):
    held = [torch.tensor(own, dtype=torch.int64) for own in held]
    parts = allocate_in_proportion(y, held, rng(seed))
    together = torch.cat(parts)
    assert len(together.unique()) == len(together)
    assert set(y[together].tolist()) == set(y.tolist()) & set(torch.cat(held).tolist())
    counts = torch.stack([torch.bincount(own, minlength=7) for own in held]).double()
    wanted = counts / counts.sum(0).clamp(min=1) * torch.bincount(y, minlength=7)
    got = torch.stack([torch.bincount(y[part], minlength=7) for part in parts])
    assert float((got - wanted).abs().max()) < 1


@given(total=st.integers(0, 500), weights=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_apportioned_parts_add_up_and_are_within_one_of_their_quota(total, weights):
    parts = apportion(total, weights)
    assert sum(parts) == total
    assert all(abs(p - total * w / sum(weights)) < 1 for p, w in zip(parts, weights, strict=True))


def test_every_scenario_is_built_on_digits_or_says_what_it_needs():
    refused = {}
    for name in registry.SCENARIOS:
        try:
            population = registry.resolve("scenario", name)(data="digits").build(0)
            assert sum(map(len, population.clients)) > 100
        except FedkinError as error:
            refused[name] = str(error)
    assert refused == {
        "files": f"'digits' is not a folder; give one with a file ({', '.join(READ)}) per client.",
        "domain": "'digits' is embedded, with labels of its own, and has no column 'domain'.",
    }
