"""The world of staggered drift changes when it should, and the oracle trains within the true clusters."""

import dataclasses
from types import ModuleType

import pytest


def test_clients_change_in_their_rounds(benchmark: ModuleType) -> None:
    world = benchmark.World(0)
    before = world.called(6).clone()
    world.enter(8)
    assert world.concepts == benchmark.BEGIN
    for at in range(9, 18):
        world.enter(at)
    assert world.concepts == [1, 1, 2, 0, 0, 0, 2, 2, 0, 1, 1, 1]
    assert ((world.called(6) - before) % 10).unique().tolist() == [3]
    assert world.clients[6].y.tolist() == world.called(6)[: benchmark.TRAINING].tolist()


def test_the_oracle_knows(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "CHANGES", {2: {0: 2}})
    method = dataclasses.replace(benchmark.METHODS["oracle"], rounds=3)
    accuracies, concepts, labels = benchmark.followed(method, 0, knows=True)
    assert labels == concepts == [2, *benchmark.BEGIN[1:]]
    assert len(accuracies) == 3
    assert accuracies[-1] > accuracies[0]


def test_a_spread_is_of_several(benchmark: ModuleType) -> None:
    assert benchmark.spread([0.5], 3) == "0.500"
    assert benchmark.spread([0.4, 0.6], 3) == "0.500 ± 0.141"
