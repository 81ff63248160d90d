"""Steps that nobody answers, and models that explode."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import hostile
from fedkin.core import Client, FedkinError, Method, Payload, Record, State, Task, task
from fedkin.core.payload import is_count
from fedkin.core.runner import do_step
from fedkin.engines.local import LocalFederation


@task(takes={}, holds={"number": is_count})
def number(clients, payloads):
    return [{"number": client.id} for client in clients]


@dataclass(frozen=True)
class Asking(Method[State]):
    """Asks `some` clients, or all that are present, for their number."""

    some: tuple[int, ...] = ()
    state_type = State

    def init(self, fed: Any) -> State:
        return State()

    def step(self, fed: Any, state: State) -> tuple[State, Record]:
        replies = fed.ask(number, {i: {} for i in self.some or fed.present})
        return state.next(finished=True), Record(list(replies), dict(fed.missing))

    def result(self, state: State) -> dict[str, Any]:
        return {}


class Spoiled(LocalFederation):
    """Clients `lying` send nonsense, from exchange `since` until `until`."""

    lying: tuple[int, ...] = ()
    until = 10**6

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        for client, reply in super().deliver(task, payloads):
            yield client, {"number": -1} if client in self.lying and self.exchange < self.until else reply


def federation(count: int = 4) -> Spoiled:
    return Spoiled([Client(i, torch.zeros(2, 1)) for i in range(count)])


def test_a_step_that_nobody_answers_is_done_again() -> None:
    fed = federation()
    fed.failures = {(exchange, i) for exchange in range(1, 4) for i in range(4)}
    state, record = do_step(Asking(), fed, State())
    assert (state.steps, record.answered, fed.exchange) == (1, [0, 1, 2, 3], 4)
    assert fed.dropped == {}


def test_a_run_that_nobody_answers_ends_with_their_names_and_reasons() -> None:
    fed = federation()
    fed.failures = {(exchange, i) for exchange in range(99) for i in range(4)}
    with pytest.raises(FedkinError, match=r"Nobody .* step 1, in 20 attempts.*Client 0: .*Client 3: "):
        do_step(Asking(), fed, State())


def test_liars_asked_alone_are_left_out_and_the_others_go_on() -> None:
    fed = federation()
    fed.lying = (1,)
    _, record = do_step(Asking(some=(1,)), fed, State())
    assert list(fed.dropped) == [1]
    assert record.answered == []  # then there is nobody to ask
    _, record = do_step(Asking(), fed, State())
    assert record.answered == [0, 2, 3]


class Exploding(hostile.LocalFederation):
    """One client sends updates of `value`, or from exchange `since` on; `everyone`: all do."""

    since = 0
    value = 1e9
    liars: tuple[int, ...] = (hostile.LIAR,)

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        for client, reply in super().deliver(task, payloads):
            if client in self.liars and isinstance(reply, dict) and self.exchange >= self.since:
                reply = {
                    name: torch.full_like(value, self.value) if name in ("update", "model", "models") else value
                    for name, value in reply.items()
                }
            yield client, reply


def stepped(name: str, fed: Any) -> Any:
    method = hostile.method_of(name)
    state = method.init(fed)
    while not state.finished:
        state, _ = do_step(method, fed, state)
    return method.result(state)


AVERAGING = ("fedavg", "fedopt", "ifca", "gradient-loss", "sattler", "ocfl", "embedding", "uifca", "ccfc", "fedcref")


@pytest.mark.parametrize("name", AVERAGING)
def test_who_explodes_a_model_is_left_out_and_the_others_get_their_result(name: str) -> None:
    fed = Exploding(hostile.clients_for(name), workers=1)
    said: list[str] = []
    fed.on_drop = said.append
    result = stepped(name, fed)
    models = result.get("models", result.get("cluster_models"))
    assert all(float(model.abs().max()) < 1e6 for model in models)
    if name not in ("ifca", "fedcref", "gradient-loss"):  # there a liar may be in a cluster alone
        assert list(fed.dropped) == [hostile.LIAR]
        assert "Client 2 is left out of the run: its update has length" in said[0]


def test_if_all_explode_the_run_ends() -> None:
    fed = Exploding(hostile.clients_for("fedavg"), workers=1)
    fed.liars = tuple(range(hostile.CLIENTS))
    with pytest.raises(FedkinError, match="no client's update stands out"):
        stepped("fedavg", fed)


@pytest.mark.parametrize("value", [1e12, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["ocfl", "fedavg", "uifca"])
def test_where_training_diverges_at_all_clients_a_lower_rate_is_advised(name: str, value: float) -> None:
    fed = Exploding(hostile.clients_for(name), workers=1)
    fed.liars, fed.value = tuple(range(hostile.CLIENTS)), value
    with pytest.raises(FedkinError, match=r"training diverged, and a lower learning rate, or scaled data, may help"):
        stepped(name, fed)
