"""Every method finds what it found before, also where it is stopped after each step, and on Flower."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import golden
from fedkin.core import Client
from fedkin.core.payload import pack
from fedkin.engines.local import LocalFederation
from fedkin.engines.site import Memory
from fedkin.experiment import registry
from nodes import RUN, federation, nodes_of, sites_of

BEFORE = json.loads(golden.EVERYWHERE.read_text())
IMAGES = ("ladd", "ccfc", "kin-graph", "fedavg", "embedding")
"""Methods that compare images otherwise than vectors, or have layers for them, and one for all others."""
ON_FLOWER = [(name, data) for name, data in golden.CASES if data == "corners" or name in IMAGES]


def test_every_method_is_among_them() -> None:
    assert {name.split()[0] for name, _ in golden.CASES} == set(registry.METHODS)
    assert [f"{name}, {data}" for name, data in golden.CASES] == list(BEFORE)


@pytest.mark.parametrize(("name", "data"), golden.CASES)
def test_what_was_found_is_found_again_and_in_pieces(name: str, data: str) -> None:
    outcome = golden.straight(name, data)
    assert golden.digest(golden.finish_in_pieces(name, data)) == golden.digest(outcome)
    assert alike(golden.summary(outcome), BEFORE[f"{name}, {data}"])


def alike(new: Any, old: Any) -> bool:
    """Whether all is equal but for the rounding of a processor's kernels, after some steps of training."""
    if isinstance(old, dict):
        return set(new) == set(old) and all(alike(new[key], old[key]) for key in old)
    if isinstance(old, list):
        return len(new) == len(old) and all(map(alike, new, old))
    return math.isclose(new, old, rel_tol=2e-3, abs_tol=1e-6) if isinstance(old, float) else bool(new == old)


@pytest.mark.parametrize(("name", "data"), ON_FLOWER)
def test_flower_finds_the_same(name: str, data: str, tmp_path: Path) -> None:
    clients: list[Client] = golden.DATA[data]()
    local = LocalFederation(golden.DATA[data](), golden.SEED)
    grid = nodes_of(sites_of(clients, tmp_path, classes=["a", "b", "c"]))
    fed = federation(grid, golden.SEED, classes=["a", "b", "c"])
    (tensors, text), (others, other) = pack(golden.finish(name, local)), pack(golden.finish(name, fed))
    assert text == other
    assert all(torch.allclose(tensors[key], others[key], atol=1e-5, equal_nan=True) for key in tensors)
    assert (fed.sent, fed.received) == (local.sent, local.received)
    for i, client in local.clients.items():
        remembered = Memory(tmp_path / str(i) / RUN).state() or {}
        assert remembered.keys() == client.state.keys()
        shared = remembered.keys() - {"sums_key"}  # a secret of each client
        assert all(torch.allclose(remembered[key], client.state[key], atol=1e-5) for key in shared)
