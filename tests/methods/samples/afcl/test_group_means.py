"""What AFCL's clients send: means of some samples, never of fewer than is asked for."""

import pytest
import torch

from fedkin.core import Client
from fedkin.methods.samples.afcl import groups_of, propose_seeds, send_group_means

SEEDS = torch.tensor([[0.0, 0.0], [1.0, 1.0], [8.0, 8.0]])
ASK = {"features": "raw", "members": 3, "seeds": SEEDS, "lowest": torch.zeros(2), "span": torch.ones(2)}


def client(count: int, seed: int = 0) -> Client:
    rng = torch.Generator().manual_seed(seed)
    return Client(0, torch.rand(count, 2, generator=rng), rng=rng)


@pytest.mark.parametrize("members", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [5, 17, 30])
def test_groups_have_members_enough_and_one_label(members: int, count: int):
    labels = torch.arange(count) % (2 if count > 2 * members else 1)
    groups = groups_of(labels, members)
    sizes = groups.bincount()
    assert members <= int(sizes.min()) <= int(sizes.max()) <= 2 * members - 1 if members > 1 else int(sizes.max()) == 1
    assert all(len(labels[groups == group].unique()) == 1 for group in groups.unique())
    assert len(groups_of(labels[: members - 1], members)) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 4, 20, 41])
def test_no_mean_is_of_fewer_samples_and_all_are_counted(count: int):
    one = client(count)
    for task, ask in ((propose_seeds, {**ASK, "seeds": 4}), (send_group_means, ASK)):
        (reply,) = task.run([one], [ask])
        assert reply["counts"].tolist() == [] if count < 3 else int(reply["counts"].min()) >= 3
        if count >= 3:
            assert int(reply["counts"].sum()) == count
            whole = (reply["means"] * reply["counts"][:, None]).sum(0)
            torch.testing.assert_close(whole, one.x.sum(0), rtol=1e-4, atol=1e-4)
        assert task.refusal(reply) is None


def test_few_samples_at_a_seed_go_to_the_next_that_has_enough():
    one = Client(0, torch.cat([client(9).x / 10, torch.tensor([[8.0, 8.0]])]))
    (reply,) = send_group_means.run([one], [ASK])
    assert int(reply["counts"].sum()) == 10
    assert float(reply["means"].max()) < 4
