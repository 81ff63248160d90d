"""One client of six lies in one field of one reply: the others still get their result, and nothing crashes."""

import random

import pytest

import hostile
from fedkin.core import FedkinError

NAMES = ("kfed", "ffcm", "fedavg", "ifca", "gradient-loss", "embedding", "kin-graph private")


@pytest.mark.parametrize("name", NAMES)
def test_a_lie_harms_nobody_else(name: str) -> None:
    lies = hostile.cases(name)
    told = 0
    for lie in random.Random(name).sample(lies, 6):
        fed, result, records = hostile.run(name, lie)
        told += fed.told
        assert result
        for record in records:
            assert set(record.missing) <= {hostile.LIAR}
    assert told


@pytest.mark.parametrize("classes", [10**6, 2**31, 10**400, 0, True, -1])
def test_a_lie_about_classes_leaves_the_liar_out(classes: int) -> None:
    class Liar(hostile.LyingFederation):
        def deliver(self, task, payloads):
            for client, reply in super().deliver(task, payloads):
                lies = client == hostile.LIAR and "classes" in reply
                yield client, {**reply, "classes": classes} if lies else reply

    method, fed = hostile.method_of("fedavg"), Liar(hostile.clients_for("fedavg"))
    state = method.init(fed)
    assert state.module["classes"] == 2
    assert list(fed.left_out) == [hostile.LIAR]


def test_with_all_clients_needed_one_that_fails_ends_the_run() -> None:
    fed = hostile.LyingFederation(hostile.clients_for("fedavg"))
    fed.min_clients = 6
    fed.failures = {(exchange, hostile.LIAR) for exchange in range(99)}
    with pytest.raises(FedkinError, match="nothing can begin"):
        hostile.method_of("fedavg").init(fed)
