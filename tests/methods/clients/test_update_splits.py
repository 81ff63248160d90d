"""What methods that compare updates share: angles, splits, and clients that missed one."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import planted
from fedkin.core import Federation
from fedkin.methods.clients.update_splits import Round, SplitState, UpdateMethod, cosine_distances

CLUSTERS = [0, 3, 0, 3, 0, 3]


@dataclass(frozen=True)
class PlannedSplit(UpdateMethod):
    """Divides the clients by their planted clusters in the given round, counted from 1."""

    at: int = 2

    def can_split(self, state: SplitState) -> bool:
        return state.steps + 1 == self.at

    def divided(
        self, fed: Federation, state: SplitState, part: Round
    ) -> tuple[list[int] | None, Tensor, dict[str, Any]]:
        return (
            [7 - CLUSTERS[client] for client in part.clients],
            cosine_distances(part.compared),
            {"seen": part.cluster},
        )


def test_a_split_is_remembered_and_its_first_part_keeps_the_number():
    done = planted.run(PlannedSplit(**planted.FULL_BATCH, rounds=3), planted.clients(CLUSTERS))
    assert [values["labels"] for values in done.values] == [[0] * 6, [0, 1] * 3, [0, 1] * 3]
    assert [values["fired"] for values in done.values] == [False, True, False]
    assert [values["sizes"] for values in done.values] == [[6], [3, 3], [3, 3]]
    assert done.values[1]["seen"] == 0
    (split,) = done.states[-1].splits
    assert (split["round"], split["cluster"], split["clusters"]) == (2, 0, [0, 1])
    assert (split["clients"], split["parts"]) == (list(range(6)), [0, 1] * 3)
    assert torch.equal(split["model"], done.states[1].models[0])
    steps = torch.stack(
        [
            -0.5 * planted.gradient(done.states[1].module, split["model"], client.x, client.y)
            for client in done.fed.clients.values()
        ]
    )
    assert torch.allclose(split["directions"], torch.stack([steps[::2].mean(0), steps[1::2].mean(0)]), atol=1e-6)
    assert torch.allclose(split["distances"], cosine_distances(steps), atol=1e-4)
    assert torch.allclose(done.states[2].models, split["model"] + split["directions"], atol=1e-6)


def test_whoever_missed_a_split_trains_the_model_of_that_time_and_moves_no_other():
    lost = [(3, 1), (3, 4), (4, 4)]
    done = planted.run(PlannedSplit(**planted.FULL_BATCH, rounds=4), planted.clients(CLUSTERS), failures=lost)
    assert [values["labels"] for values in done.values[1:]] == [
        [0, -1, 0, 1, -1, 1],
        [0, 1, 0, 1, -1, 1],
        [0, 1, 0, 1, 0, 1],
    ]
    before, after = done.states[2:4]
    inside = [
        -0.5 * planted.gradient(before.module, before.models[1], client.x, client.y)
        for client in (done.fed.clients[3], done.fed.clients[5])
    ]
    assert torch.allclose(after.models[1] - before.models[1], torch.stack(inside).mean(0), atol=1e-6)


def test_newcomers_follow_the_part_that_their_update_agrees_with():
    done = planted.run(PlannedSplit(**planted.FULL_BATCH, rounds=3), planted.clients(CLUSTERS))
    for cluster, label in ((0, 0), (3, 1)):
        new = planted.client(90, planted.LEVELS[cluster])
        assert PlannedSplit.assign(done.result, new) == label
