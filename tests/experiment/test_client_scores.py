from collections.abc import Mapping
from typing import Any

import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor
from torch.nn.functional import one_hot

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.experiment.evaluation import evaluate_clusters
from fedkin.methods.clients.client_method import ClientMethodState

CLASSES = 4


class Shift:
    """A model of one number: the class of a sample is its only value plus that number."""

    calls: list[tuple[int, int]]

    def __init__(self) -> None:
        self.calls = []

    def of(self, spec: Mapping[str, Any]) -> "Shift":
        assert dict(spec) == {"name": "shift", "shape": [1], "classes": CLASSES}
        return self

    def logits(self, vector: Tensor, x: Tensor) -> Tensor:
        self.calls.append((int(vector[0]), len(x)))
        return one_hot((x[:, 0].long() + int(vector[0])) % CLASSES, CLASSES).float()


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch) -> Shift:
    made = Shift()
    monkeypatch.setattr("fedkin.experiment.evaluation.Classifier", made)
    return made


def part(values: list[int], by: int) -> tuple[Tensor, Tensor]:
    return torch.tensor(values, dtype=torch.float32)[:, None], (torch.tensor(values, dtype=torch.int64) + by) % CLASSES


def situation(
    labels: list[int], shifts: list[float], **changes: Any
) -> tuple[object, Population, LocalFederation, ClientMethodState]:
    """Four clients; in the world of the first two a class is the value itself, in the others' the next one."""
    clients = [Client(i, torch.zeros(1, 1), torch.zeros(1).long()) for i in range(4)]
    worlds = [part([0, 1, 2], 0), part([3], 0), part([0, 1], 1), part([], 1)]
    defaults: dict[str, Any] = {"tests": worlds, "clusters": torch.tensor([0, 0, 1, 1])}
    population = Population(clients, None, [], **(defaults | changes))
    models = torch.tensor(shifts)[:, None]
    module = {"name": "shift", "shape": [1], "classes": CLASSES}
    return None, population, LocalFederation(clients), ClientMethodState(0, False, module, models, torch.tensor(labels))


def test_the_right_clusters_with_the_right_models_have_full_marks(shift: Shift) -> None:
    metrics = evaluate_clusters(*situation([1, 1, 0, 0], [1, 0]))
    agreement = ["ari", "ami", "homogeneity", "completeness", "purity"]
    assert {name: metrics[name] for name in agreement} == dict.fromkeys(agreement, 1.0)
    assert metrics["client_accuracy"] == [1.0, 1.0, 1.0, None]
    assert (metrics["personal_accuracy"], metrics["personal_f1"]) == (1.0, 1.0)
    assert {type(value) for name, value in metrics.items() if name != "client_accuracy"} == {float}


def test_personal_and_global_scores_are_means_over_clients(shift: Shift) -> None:
    common = part([0, 1, 2, 3, 0, 1, 2, 0], 0)
    common[1][0] = 1
    metrics = evaluate_clusters(*situation([0, 0, 0, 1], [0, 1], common_test=common))
    assert metrics["client_accuracy"] == [1.0, 1.0, 0.0, None]
    assert metrics["personal_accuracy"] == pytest.approx(2 / 3)
    assert metrics["personal_f1"] == pytest.approx(2 / 3)
    # Three clients have model 0, which is right on all but the first; one has model 1, right on that one only.
    assert metrics["global_accuracy"] == pytest.approx((3 * 7 / 8 + 1 / 8) / 4)
    f1 = [f1_score(common[1], (common[0][:, 0].long() + by) % CLASSES, average="macro") for by in (0, 1)]
    assert metrics["global_f1"] == pytest.approx((3 * f1[0] + f1[1]) / 4)
    assert metrics["learning_gap"] == pytest.approx(abs(2 / 3 - metrics["global_f1"]))
