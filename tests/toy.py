"""A method and a scenario small enough for tests of the run around them."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Method, Record, State, task
from fedkin.data.population import Population
from fedkin.experiment import registry

METHOD = registry.RegistryEntry("toy:Toy", "A federated mean.")
SCENARIO = registry.RegistryEntry("toy:Blobs", "Two blobs.")


@dataclass(frozen=True)
class ToyState(State):
    mean: Tensor = field(default_factory=lambda: torch.zeros(2))
    seen: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, ...] = ()


@task
def walk(clients: list[Client], payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every client moves by a random step from the mean; its own place stays with it."""
    replies = []
    for client, payload in zip(clients, payloads, strict=True):
        place = client.state.get("place", torch.zeros(2)) + torch.randn(2, generator=client.rng)
        client.state["place"] = place
        if payload["last"]:
            client.state["clusters"] = (client.x[:, 0] > payload["mean"][0]).long()
        replies.append({"mean": client.x.mean(0) + 0.1 * place})
    return replies


@dataclass(frozen=True)
class Toy(Method[ToyState]):
    rounds: int = 4
    rate: float = 0.5
    kind: Literal["auto", "mean"] = "auto"
    parts: int | Literal["auto"] = "auto"
    limit: Annotated[int, Field(ge=1)] = 3
    widths: tuple[int, ...] | None = None
    center: str | None = "origin"
    pause: float = 0.0
    oracle: Callable[[int], int] | None = None

    state_type: ClassVar[type[State]] = ToyState

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise FedkinError(f"method.rounds must be at least 1, not {self.rounds}.")

    def init(self, fed: Federation) -> ToyState:
        replies = fed.ask(walk, fed.all(last=False, mean=torch.zeros(2)))
        return ToyState(mean=torch.stack([reply["mean"] for reply in replies.values()]).mean(0))

    def step(self, fed: Federation, state: ToyState) -> tuple[ToyState, Record]:
        time.sleep(self.pause)
        if os.environ.get("TOY_INTERRUPT") == str(state.steps):
            raise KeyboardInterrupt
        last = state.steps + 1 == self.rounds
        replies = fed.ask(walk, fed.all(last=last, mean=state.mean))
        mean = torch.stack([state.mean, *(reply["mean"] for reply in replies.values())]).mean(0)
        seen = {**state.seen, **{str(12 - client): state.steps for client in replies}}
        after = state.next(mean=mean, seen=seen, pair=(*state.pair, len(replies)), finished=last)
        return after, Record(list(replies), replies.missing, {"first": float(mean[0]), "undefined": float("nan")})

    def result(self, state: ToyState) -> dict[str, Any]:
        return {"mean": state.mean, "seen": list(state.seen)}

    @staticmethod
    def predict(result: dict[str, Any], x: Tensor) -> Tensor:
        return (x[:, 0] > result["mean"][0]).long()


@dataclass(frozen=True)
class Steady(Toy):
    """The same, with a state that does not grow."""

    def step(self, fed: Federation, state: ToyState) -> tuple[ToyState, Record]:
        after, record = super().step(fed, state)
        return replace(after, pair=()), record


@dataclass(frozen=True)
class Blobs:
    data: str
    label: str | None = None
    clients: Annotated[int, Field(ge=1)] = 3

    def build(self, seed: int) -> Population:
        rng = torch.Generator().manual_seed(seed)
        truth = [torch.randint(2, (6,), generator=rng) for _ in range(self.clients)]
        clients = [Client(i, t[:, None] * 4.0 + torch.randn(6, 2, generator=rng)) for i, t in enumerate(truth)]
        return Population(clients, truth, ["low", "high"])
