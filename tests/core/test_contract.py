"""What crosses the boundary between a user's method and the engines is what was agreed, or is said in one sentence."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fedkin.core import Client, FedkinError, Method, Payload, Record, State, Traits, client_task, task
from fedkin.core.contract import check_result, first_state
from fedkin.core.errors import RefusalError
from fedkin.core.runner import do_step
from fedkin.engines.local import LocalFederation

KEPT = {"a dict": {"a": 1}, "a list": [1], "a numpy array": np.zeros(2), "an int": 3, "a numpy float32": np.float32(1)}


@client_task
def keep(client: Client, payload: Payload) -> Payload:
    client.state[payload.get("key", "mine")] = KEPT[payload["what"]]  # type: ignore[assignment]
    return {}


@client_task
def reply_an_array(client: Client, payload: Payload) -> Payload:
    return {"sums": {"a": [torch.zeros(2), np.zeros(2)]}}


@client_task
def reply_a_number_of_numpys(client: Client, payload: Payload) -> Payload:
    return {"count": np.int64(3)}


@client_task
def reply_with_a_number_as_key(client: Client, payload: Payload) -> Payload:
    return {"sums": {3: 1.0}}


@client_task
def reply_nothing(client: Client, payload: Payload) -> Payload:  # type: ignore[return]
    client.x.sum()


@task
def reply_once(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    return [{}]


@client_task
def reply_with_gradients(client: Client, payload: Payload) -> Payload:
    weights = torch.ones(2, requires_grad=True)
    return {"update": weights * 2, "more": {"each": [weights, 3]}, "plain": [1, "a"]}


@task
def reply_for_nobody(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:  # type: ignore[return]
    for _ in clients:
        pass


def federation() -> LocalFederation:
    return LocalFederation([Client(i, torch.zeros(2, 1)) for i in range(2)], chunk=2)


@pytest.mark.parametrize("what", KEPT)
def test_a_client_keeps_tensors_alone(what: str) -> None:
    fed = federation()
    sentence = (
        rf"^Task 'tests.core.test_contract.keep' has put {what} into client.state\['mine'\]; .* torch.tensor\(3\)\.$"
    )
    with pytest.raises(RefusalError, match=sentence):
        fed.ask(keep, fed.all(what=what))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (reply_an_array, "replies with 'sums/a/1', a numpy array (torch.from_numpy makes a tensor of it); a reply "),
        (reply_a_number_of_numpys, "replies with 'count', a numpy int64; a reply holds tensors, numbers,"),
        (reply_with_a_number_as_key, "replies with 'sums', a dict with the key 3; keys are strings"),
        (reply_nothing, "should reply with a dict, {} if there is nothing, not None."),
        (reply_once, "should return a list with one reply per client, 2 here, not 1."),
        (reply_for_nobody, "should return a list with one reply per client, 2 here, not None."),
    ],
)
def test_a_task_replies_with_what_can_be_sent(asked: Any, sentence: str) -> None:
    fed = federation()
    with pytest.raises(RefusalError, match="^" + re.escape(f"Task '{asked.name}' {sentence}")):
        fed.ask(asked, fed.all())


def test_no_gradient_crosses_the_boundary_as_on_a_network() -> None:
    fed = federation()
    for reply in fed.ask(reply_with_gradients, fed.all(), {"update": (2,)}).values():
        assert not reply["update"].requires_grad
        assert not reply["more"]["each"][0].requires_grad
        assert (reply["update"].tolist(), reply["more"]["each"][1], reply["plain"]) == ([2.0, 2.0], 3, [1, "a"])


def test_what_is_asked_is_a_task_and_what_is_sent_can_be() -> None:
    fed = federation()
    sentence = r"^Clients are asked for federation, which is no task; decorate it with @client_task\.$"
    with pytest.raises(FedkinError, match=sentence):
        fed.ask(federation, fed.all())  # type: ignore[arg-type]
    with pytest.raises(FedkinError, match=r"for task 'tests.core.test_contract.reply_once', 'centres', a"):
        fed.ask(reply_once, fed.all(centres=np.zeros(2)))
    assert fed.traffic.sent == 0


@dataclass(frozen=True)
class Centres(State):
    centres: Any = field(default_factory=lambda: torch.zeros(1))


@dataclass(frozen=True)
class Given(Method[Centres]):
    """Returns what its functions give."""

    after: Callable[[Centres], Any] = lambda state: (state.next(finished=True), Record([0]))
    found: Any = None
    state_type: ClassVar[type[State]] = Centres
    traits = Traits(clusters="samples")

    def init(self, fed: Any) -> Centres:
        return Centres()

    def step(self, fed: Any, state: Centres) -> Any:
        return self.after(state)

    def result(self, state: Centres) -> Any:
        return self.found


class WithoutState(Given):
    state_type = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("method", "state", "sentence"),
    [
        (Given(), None, "Given.init should return a Centres, its state_type, not None."),
        (Given(), State(), "Given.init should return a Centres, its state_type, not a State."),
        (Given(), Centres(centres=np.zeros(2)), "Given.init returned a state with 'centres', a numpy array ("),
        (Given(), Centres(centres={0: 1}), "Given.init returned a state with 'centres', a dict with the key 0;"),
        (WithoutState(), State(), "WithoutState does not say what its state is; give it the class attribute state_ty"),
    ],
)
def test_a_run_begins_with_a_state_of_the_method(method: Any, state: Any, sentence: str) -> None:
    with pytest.raises(FedkinError, match="^" + re.escape(sentence)):
        first_state(method, state)


RECORD = Record([0])


STEPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "stuck": (
        lambda state: (state, RECORD),
        "was given a state of 2 steps and returned one of 2 instead of 3; state.n",
    ),
    "leaps": (lambda state: (state.next().next(), RECORD), "returned one of 4 instead of 3"),
    "no record": (lambda state: state.next(), "Given.step should return a state and a Record, not a Centres."),
    "a dict for a record": (
        lambda state: (state.next(), {}),
        "should return a state and a Record, not a state and a dict",
    ),
    "no state": (lambda state: (None, RECORD), "Given.step should return a Centres beside the record, not None."),
    "array": (lambda state: (state.next(centres=np.zeros(1)), RECORD), "a state with 'centres', a numpy array ("),
    "set": (
        lambda state: (state.next(), Record([0], values={"a": {"b": [{1}]}})),
        "put a set into the record's values, ",
    ),
    "vector": (lambda state: (state.next(), Record([0], values={"a": torch.zeros(2)})), "put a Tensor into the record"),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_returns_the_next_state_and_a_record(kind: str) -> None:
    after, sentence = STEPS[kind]
    with pytest.raises(FedkinError, match=re.escape(sentence)):
        do_step(Given(after), federation(), Centres(steps=2))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (None, "Given.result should return a dict, not None."),
        ({"centres": torch.zeros(1)}, "Given.result has no 'n_clusters' where the"),
        ({"n_clusters": 2.0}, "Given.result has 'n_clusters', a float,"),
        ({"n_clusters": 2, "centres": np.zeros(1)}, "Given.result returned 'centres', a numpy array (torch.from_numpy"),
    ],
)
def test_a_result_has_the_number_of_clusters_and_can_be_written(found: Any, sentence: str) -> None:
    with pytest.raises(FedkinError, match="^" + re.escape(sentence)):
        check_result(replace(Given(), found=found), found)
