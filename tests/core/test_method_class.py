"""What a user's method is and returns is what was agreed, or is said in one sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fedkin.core import Client, FedkinError, Method, Payload, Record, State, Traits, client_task, task
from fedkin.core.errors import RefusalError
from fedkin.core.runner import Runner, begin, do_step, result_of
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry

REPLIES: dict[str, Any] = {
    "array": {"sums": {"a": [torch.zeros(2), np.zeros(2)]}},
    "number": {"count": np.int64(3)},
    "key": {"sums": {3: 1.0}},
    "nothing": None,
}


@client_task
def reply(client: Client, payload: Payload) -> Payload:
    return REPLIES[payload["what"]]  # type: ignore[no-any-return]


@client_task
def keep(client: Client, payload: Payload) -> Payload:
    client.state["mine"] = {"a": np.zeros(2)}  # type: ignore[assignment]
    return {}


@client_task
def reply_with_gradients(client: Client, payload: Payload) -> Payload:
    weights = torch.ones(2, requires_grad=True)
    return {"update": weights * 2, "more": {"each": [weights, 3]}, "plain": [1, "a"]}


@task
def reply_once(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    return [{}]


def federation() -> LocalFederation:
    return LocalFederation([Client(i, torch.zeros(2, 1)) for i in range(2)], chunk=2)


@pytest.mark.parametrize("what", REPLIES)
def test_a_task_replies_with_what_can_be_sent(what: str) -> None:
    with pytest.raises(RefusalError, match=rf"^Task '{__name__}.reply' ") as error:
        federation().ask(reply, {client: {"what": what} for client in range(2)})
    assert not error.value.public, "names in a reply may be made of cells, and stay in a site's log"


def test_a_client_keeps_tensors_and_each_has_a_reply() -> None:
    fed = federation()
    with pytest.raises(RefusalError, match=r"what a client cannot keep"):
        fed.ask(keep, fed.all())
    with pytest.raises(RefusalError, match=r"one reply per client, 2 here\."):
        fed.ask(reply_once, fed.all())


def test_no_gradient_crosses_the_boundary_as_on_a_network() -> None:
    fed = federation()
    for answer in fed.ask(reply_with_gradients, fed.all(), {"update": (2,)}).values():
        assert not answer["update"].requires_grad
        assert not answer["more"]["each"][0].requires_grad
        assert (answer["update"].tolist(), answer["more"]["each"][1], answer["plain"]) == ([2.0, 2.0], 3, [1, "a"])


def test_what_is_asked_is_a_task_and_what_is_sent_can_be() -> None:
    fed = federation()
    with pytest.raises(FedkinError, match="federation, which is no task"):
        fed.ask(federation, fed.all())  # type: ignore[arg-type]
    with pytest.raises(FedkinError, match=rf"for task '{__name__}.keep', 'centres', ndarray"):
        fed.ask(keep, fed.all(centres=np.zeros(2)))
    assert fed.sent == 0


@dataclass(frozen=True)
class Centres(State):
    centres: Any = field(default_factory=lambda: torch.zeros(1))


@dataclass(frozen=True)
class Given(Method[Centres]):
    """Returns what its functions give."""

    first: Any = field(default_factory=Centres)
    after: Callable[[Centres], Any] = lambda state: (state.next(finished=True), Record([0]))
    found: Any = None
    state_type: ClassVar[type[State]] = Centres
    traits = Traits(clusters="samples")

    def init(self, fed: Any) -> Any:
        return self.first

    def step(self, fed: Any, state: Centres) -> Any:
        return self.after(state)

    def result(self, state: Centres) -> Any:
        return self.found


@pytest.mark.parametrize("first", [None, State(), Centres(centres=np.zeros(2)), Centres(centres={0: 1})])
def test_a_run_begins_with_a_state_of_the_method(first: Any) -> None:
    with pytest.raises(FedkinError, match="Given"):
        begin(Given(first), federation())


STEPS: dict[str, Callable[[Any], Any]] = {
    "stuck": lambda state: (state, Record([0])),
    "no record": lambda state: state.next(),
    "no state": lambda state: (None, Record([0])),
    "array": lambda state: (state.next(centres=np.zeros(1)), Record([0])),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_returns_the_next_state_and_a_record(kind: str) -> None:
    with pytest.raises(FedkinError, match=r"^Given\.step "):
        do_step(Given(after=STEPS[kind]), federation(), Centres(steps=2))


def test_a_record_holds_what_json_can() -> None:
    values = {"a": np.float32(0.5), "b": [float("nan"), torch.tensor(3)]}
    lines: list[Any] = []
    runner = Runner(Given(after=lambda state: (state.next(finished=True), Record([0], values=values))), federation())
    runner.callbacks.step = lambda line, timing: lines.append(line["values"])  # type: ignore[method-assign]
    runner.step(Centres())
    assert lines == [{"a": 0.5, "b": [None, 3]}]
    values["a"] = {1}  # type: ignore[assignment]
    with pytest.raises(FedkinError, match="holds a value of type set"):
        runner.step(Centres())


@pytest.mark.parametrize(
    "found",
    [None, {"centres": torch.zeros(1)}, {"n_clusters": 2.0}, {"n_clusters": 2, "centres": np.zeros(1)}],
)
def test_a_result_has_the_number_of_clusters_and_can_be_written(found: Any) -> None:
    with pytest.raises(FedkinError, match=r"^Given.result "):
        result_of(replace(Given(), found=found), federation(), Centres())


def depth(made: type[Any]) -> int:
    """Classes from a method to `Method`, on the longest way."""
    return 0 if made is Method else 1 + max(depth(base) for base in made.__bases__ if issubclass(base, Method))


@pytest.mark.parametrize("name", registry.METHODS)
def test_no_method_is_more_than_three_classes_deep(name: str) -> None:
    assert depth(registry.resolve("method", name)) <= 3
