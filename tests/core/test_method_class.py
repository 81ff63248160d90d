"""What a user's method is and returns is what was agreed, or is said in one sentence."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fedkin.core import Client, FedkinError, Method, Payload, Record, State, Traits, client_task
from fedkin.core.runner import Runner, do_step
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry


@client_task
def reply(client: Client, payload: Payload) -> Payload:
    return {"sums": {"a": [torch.zeros(2), np.zeros(2)]}}


@client_task
def reply_with_gradients(client: Client, payload: Payload) -> Payload:
    weights = torch.ones(2, requires_grad=True)
    return {"update": weights * 2, "more": {"each": [weights, 3]}, "plain": [1, "a"]}


def federation() -> LocalFederation:
    return LocalFederation([Client(i, torch.zeros(2, 1)) for i in range(2)], chunk=2)


def test_a_reply_that_cannot_be_sent_is_named() -> None:
    fed = federation()
    assert not fed.ask(reply, fed.all())
    assert "'sums/a/1' is of type ndarray" in fed.missing[0]


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
    with pytest.raises(FedkinError, match=rf"task '{__name__}.reply' .*'centres' is of type ndarray"):
        fed.ask(reply, fed.all(centres=np.zeros(2)))
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


STEPS: dict[str, Callable[[Any], Any]] = {
    "stuck": lambda state: (state, Record([0])),
    "no record": lambda state: state.next(),
    "no state": lambda state: (None, Record([0])),
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


def depth(made: type[Any]) -> int:
    """Classes from a method to `Method`, on the longest way."""
    return 0 if made is Method else 1 + max(depth(base) for base in made.__bases__ if issubclass(base, Method))


@pytest.mark.parametrize("name", registry.METHODS)
def test_no_method_is_more_than_three_classes_deep(name: str) -> None:
    assert depth(registry.resolve("method", name)) <= 3
