"""A class that cannot be used as a method is refused in a sentence, before anything runs."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Method, Payload, State, client_task
from fedkin.core.method import check_class
from fedkin.core.runner import begin, do_step
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.samples.kfed import KFedMethod


@client_task
def nothing(client: Client, payload: Payload) -> Payload:
    return {}


@dataclass(frozen=True)
class Misspelt(KFedMethod):
    traits = KFedMethod.traits.replace(clusters="sample")


@dataclass(frozen=True)
class Mapped(KFedMethod):
    traits = "costly"  # type: ignore[assignment]


@dataclass(frozen=True)
class Alone(KFedMethod):
    def init(self) -> Any:  # type: ignore[override]
        return State()


@dataclass(frozen=True)
class Stateless(KFedMethod):
    def step(self, fed: Federation) -> Any:  # type: ignore[override]
        return State()


@dataclass(frozen=True)
class Bound(KFedMethod):
    def predict(self, result: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return torch.zeros(len(x), dtype=torch.int64)


@dataclass(frozen=True)
class BoundToo(FedAvgMethod):
    def predict(self, result: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return torch.zeros(len(x), dtype=torch.int64)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (Misspelt, "Misspelt.traits has clusters = 'sample'; it should be 'samples' or 'clients' or None."),
        (Mapped, "Mapped.traits should be fedkin.core.Traits(...), not a str"),
        (Alone, "Alone.init should take fed, as in def init(self, fed)."),
        (Stateless, "Stateless.step should take fed and state, as in def step(self, fed, state)."),
        (Bound, "Bound.predict is called without an instance; write @staticmethod above it."),
        (BoundToo, "BoundToo.predict is called without an instance; write @classmethod above it."),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(made: type[Any], sentence: str) -> None:
    with pytest.raises(FedkinError, match="^" + re.escape(sentence)):
        check_class(made)


@dataclass(frozen=True)
class Remembers(KFedMethod):
    def init(self, fed: Federation) -> Any:
        self.last = fed  # type: ignore[misc]

    def step(self, fed: Federation, state: Any) -> Any:
        state.steps = 3


@dataclass(frozen=True)
class ByName(KFedMethod):
    def step(self, fed: Federation, state: Any) -> Any:
        fed.ask(nothing, {"centroids": torch.zeros(1)})  # type: ignore[dict-item]


def test_options_and_states_do_not_change_and_payloads_are_by_client() -> None:
    fed = LocalFederation([Client(i, torch.zeros(2, 1)) for i in range(2)])
    with pytest.raises(FedkinError, match=r"^Remembers.init cannot assign to field 'last': options and states do not"):
        begin(Remembers(), fed)
    with pytest.raises(FedkinError, match=r"^Remembers.step cannot assign to field 'steps': .* state.next\(centroids="):
        do_step(Remembers(), fed, State())
    with pytest.raises(FedkinError, match=r"payloads by 'centroids' instead of by client; fed.all\(centroids=...\) is"):
        do_step(ByName(), fed, State())


def depth(made: type[Any]) -> int:
    """Classes from a method to `Method`, on the longest way."""
    return 0 if made is Method else 1 + max(depth(base) for base in made.__bases__ if issubclass(base, Method))


@pytest.mark.parametrize("name", registry.METHODS)
def test_no_method_is_more_than_three_classes_deep(name: str) -> None:
    assert depth(registry.resolve("method", name)) <= 3
