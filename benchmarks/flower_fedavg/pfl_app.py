"""FedAvg as a user of pfl-research writes it: its PyTorch model and `SimulatedBackend`, in one process.

``python -m flower_fedavg.pfl_app WORKLOAD REPORT``. Each client has its images as tensors, in an order of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from flower_fedavg.workload import REGIMES, Workload


class Classifier(nn.Module):
    """The regime's model with the loss that pfl asks for."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.layers(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


class Stopwatch(TrainingProcessCallback):
    """The seconds of each round."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.began = perf_counter()

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        self.seconds.append(perf_counter() - self.began)
        self.began = perf_counter()
        return False, Metrics()


def run(work: Workload) -> dict[str, Any]:
    """Train, and return the rounds' seconds and the last model's loss."""
    torch.manual_seed(work.seed)
    work.read_all()
    orders = [torch.randperm(work.samples) for _ in range(work.clients)]
    parts = [[part[order] for part in work.client_data(i)] for i, order in enumerate(orders)]
    data = FederatedDataset(
        lambda user: PyTorchTensorDataset(parts[user], user_id=str(user)),
        get_user_sampler("minimize_reuse", list(range(work.clients))),
    )
    classifier, regime, watch = Classifier(work.first_model()), REGIMES[work.regime], Stopwatch()
    model = PyTorchModel(classifier, torch.optim.SGD, torch.optim.SGD(classifier.parameters(), lr=1.0))
    local = NNTrainHyperParams(
        local_batch_size=work.batch_size, local_num_epochs=regime.epochs, local_num_steps=regime.steps,
        local_learning_rate=work.learning_rate,
    )  # fmt: skip
    rounds = NNAlgorithmParams(
        central_num_iterations=work.rounds, train_cohort_size=work.clients, val_cohort_size=0,
        evaluation_frequency=work.rounds,  # in the first round alone, which is set apart
    )  # fmt: skip
    backend = SimulatedBackend(data, data, postprocessors=[WeightByUser()])
    FederatedAveraging().run(rounds, backend, model, local, callbacks=[watch], send_metrics_to_platform=False)
    return {"seconds": watch.seconds, "loss": work.loss(classifier.layers)}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(Workload(**json.loads(sys.argv[1])))))
