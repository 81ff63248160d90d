"""Methods that do with sums over clients come to the same, and the server sees no client's update."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import planted
from fedkin.core import FedkinError
from fedkin.core.payload import pack
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.clients.fedopt import FedOptMethod
from fedkin.methods.clients.ifca import IFCAMethod
from fedkin.secure_aggregation.sums import secure

ROUNDS = planted.LEARNING | {"rounds": 4}
SIZES = [12, 24, 18, 30, 24, 36]


def sites(clusters: list[int]) -> list[Any]:
    return [
        planted.client(i, planted.OPPOSITE[cluster], size)
        for i, (cluster, size) in enumerate(zip(clusters, SIZES, strict=False))
    ]


@pytest.mark.parametrize(
    "method",
    [
        FedAvgMethod(**ROUNDS),
        FedAvgMethod(**ROUNDS, weighting="clients"),
        FedAvgMethod(**(ROUNDS | {"module": "planted:normalised"})),
        FedOptMethod(**ROUNDS),
        IFCAMethod(**ROUNDS, n_clusters=3),
        IFCAMethod(**(ROUNDS | {"module": "planted:normalised"}), n_clusters=3, shared_layers=1, weighting="clients"),
        IFCAMethod(**ROUNDS, n_clusters=3, identity="batch"),
    ],
    ids=repr,
)
def test_models_are_those_of_the_sums_in_the_open(method):
    clusters = [0, 1, 0, 1, 0, 1]
    plain, hidden = (planted.run(method, sites(clusters), secure_sums=secret, seed=1) for secret in (False, True))
    if isinstance(method, IFCAMethod):  # neither cluster is too small for a sum
        assert planted.same_partition(plain.labels, clusters)
    for open_, secret in zip(plain.states, hidden.states, strict=True):
        torch.testing.assert_close(secret.models, open_.models, rtol=0, atol=1e-6)
        assert torch.equal(secret.labels, open_.labels)
    assert not torch.equal(plain.states[0].models, plain.states[-1].models)
    for open_, secret in zip(plain.records, hidden.records, strict=True):
        assert secret.answered == open_.answered
        assert secret.values["loss"] == pytest.approx(open_.values["loss"], abs=1e-6)
        assert secret.values["losses"] == {}  # nobody knows them
        assert len(open_.values["losses"]) == 6


class Watched(LocalFederation):
    """Keeps everything that clients sent."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, workers=1)
        self.replies: list[tuple[int, dict[str, Any]]] = []

    def deliver(self, task: Any, payloads: Any) -> Iterator[Any]:
        for client, reply in super().deliver(task, payloads):
            self.replies.append((client, reply))
            yield client, reply


@pytest.mark.parametrize(
    "make", [FedAvgMethod, lambda **options: IFCAMethod(n_clusters=2, **options)], ids=["fedavg", "ifca"]
)
def test_no_message_holds_anything_like_an_update(make: Callable[..., Any]):
    method = make(**(ROUNDS | {"rounds": 1}))
    fed, open_ = Watched(sites([0, 1, 0, 1, 0, 1])), Watched(sites([0, 1, 0, 1, 0, 1]))
    secure(fed, method)
    for one in (open_, fed):
        method.step(one, method.init(one))
    updates = {client: reply["update"] for client, reply in open_.replies if "update" in reply}
    assert len(updates) == 6
    hidden = [tensor for client, reply in fed.replies for tensor in pack(reply)[0].values()]
    assert {tensor.dtype for tensor in hidden} == {torch.uint8, torch.int64}  # keys, and numbers behind masks
    numbers = [tensor for tensor in hidden if tensor.dtype == torch.int64]
    assert len(numbers) == 6
    for tensor in numbers:
        for update in updates.values():
            found = tensor[: len(update)].double()
            assert abs(torch.corrcoef(torch.stack([found, update.double()]))[0, 1]) < 5 / len(update) ** 0.5
            assert (found / 2**32 - update).abs().min() > 1.0
    plain = {key for _, reply in fed.replies for key in reply}
    assert plain <= {"shape", "classes", "key", "publics", "shares", "masked", "own", "pairs", "cluster"}


def test_lost_clients_are_not_in_the_sum():
    done = planted.run(FedAvgMethod(**(ROUNDS | {"rounds": 1})), sites([0] * 5), secure_sums=True, failures=[(4, 1)])
    others = [site for site in sites([0] * 5) if site.id != 1]
    alone = planted.run(FedAvgMethod(**(ROUNDS | {"rounds": 1})), others, secure_sums=True)
    assert done.records[0].answered == [0, 2, 3, 4]
    assert done.records[0].missing == {1: "lost on purpose"}
    torch.testing.assert_close(done.states[1].models, alone.states[1].models, rtol=0, atol=1e-6)


def test_where_too_few_are_left_the_model_stays():
    done = planted.run(FedAvgMethod(**ROUNDS), sites([0] * 3), secure_sums=True, failures=[(3, 1)])
    assert torch.equal(done.states[1].models, done.states[0].models)
    assert done.records[0].answered == []
    assert done.values[0]["loss"] is None
    assert done.records[0].missing == {
        0: "fewer than 3 clients to sum over",
        1: "lost on purpose",
        2: "fewer than 3 clients to sum over",
    }
    assert done.records[1].answered == [0, 1, 2]


@pytest.mark.parametrize("method", [FedAvgMethod, FedOptMethod, IFCAMethod])
def test_lost_clients_are_no_accident(method):
    lost = [(3, 0), (4, 5), (5, 1), *((exchange, 7) for exchange in range(2, 30))]
    sites = planted.clients([0, 1, 2, 3, 0, 1, 2, 3])
    done = planted.run(method(**ROUNDS), sites, secure_sums=True, failures=lost, drop_rate=0.1)
    assert len(done.records) == 4
    assert bool(done.states[-1].models.isfinite().all())
    for record in done.records:
        assert sorted([*record.answered, *record.missing]) == list(range(8))


def test_a_cluster_of_two_keeps_its_model_and_its_clients():
    done = planted.run(
        IFCAMethod(**(ROUNDS | {"rounds": 8}), n_clusters=2), sites([0, 0, 0, 0, 1, 1]), secure_sums=True
    )
    plain = planted.run(IFCAMethod(**(ROUNDS | {"rounds": 8}), n_clusters=2), sites([0, 0, 0, 0, 1, 1]))
    assert planted.same_partition(plain.labels, [0, 0, 0, 0, 1, 1])
    for state, record in zip(done.states[1:], done.records, strict=True):
        sizes = state.labels.bincount(minlength=2)
        small = [i for i in range(6) if sizes[state.labels[i]] < 3]
        assert record.missing == dict.fromkeys(small, "fewer than 3 clients to sum over")
        assert not set(small) & set(record.answered)
    assert any(record.missing for record in done.records)


def test_too_small_a_share_is_refused():
    fed = LocalFederation(sites([0] * 6), workers=1)
    method = FedAvgMethod(**ROUNDS, participation=0.3)
    secure(fed, method)
    with pytest.raises(FedkinError, match="needs at least 3 clients, but only 2 would take part"):
        method.step(fed, method.init(fed))
