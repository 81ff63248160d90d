"""The strategies in Flower's own simulation, with Ray's processes and Flower's own loop around the client app."""

import gc
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import nn

import planted
from fedkin import flower


def simulate(app: ClientApp, nodes: int, main: Callable[[Grid], None]) -> None:
    """Run a ServerApp's `main` with so many nodes, in one process besides this."""
    server = ServerApp()
    server.main()(lambda grid, context: main(grid))
    config = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": 1, "include_dashboard": False},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Ray and Flower think of each other
        from flwr.simulation import run_simulation

        run_simulation(server, app, num_supernodes=nodes, backend_config=config)
        gc.collect()  # Ray leaves files open


def partitions(result: Any) -> list[int]:
    """The clusters in order of partition, which the app tells among its metrics."""
    clusters = {
        int(result.train_metrics_by_node[node]["partition-id"]): cluster for node, cluster in result.clusters.items()
    }
    return [clusters[partition] for partition in sorted(clusters)]


class Net(nn.Module):
    """As in Flower's quickstart for PyTorch, for images of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(6 * 3 * 3, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.conv1(x)))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def load_data(partition: int, nodes: int) -> tuple[Any, Any]:
    """Digits of one node, for training and for testing; to every other node a 0 is a 9, a 1 an 8, and so on."""
    x, y = load_digits(return_X_y=True)
    x, y = x[partition::nodes].reshape(-1, 1, 8, 8) / 16, y[partition::nodes]
    pairs = list(zip(torch.tensor(x, dtype=torch.float32), torch.tensor(y if partition % 2 else 9 - y), strict=True))
    cut = int(0.8 * len(pairs))
    return (
        torch.utils.data.DataLoader(pairs[:cut], batch_size=16, shuffle=True),
        torch.utils.data.DataLoader(pairs[cut:], batch_size=16),
    )


def quickstart() -> ClientApp:
    """The client app of Flower's quickstart for PyTorch, its data and network aside."""
    app = ClientApp()

    @app.train()
    def train(msg: Message, context: Context) -> Message:
        model = Net()
        model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
        trainloader, _ = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=msg.content["config"]["lr"], momentum=0.9)
        model.train()
        running_loss = 0.0
        for _ in range(context.run_config.get("local-epochs", 3)):
            for images, labels in trainloader:
                optimizer.zero_grad()
                loss = criterion(model(images), labels)
                loss.backward()
                optimizer.step()
                running_loss += loss.item()
        metrics = {
            "train_loss": running_loss / len(trainloader),
            "num-examples": len(trainloader.dataset),
            "partition-id": context.node_config["partition-id"],
        }
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)})
        return Message(content=content, reply_to=msg)

    @app.evaluate()
    def evaluate(msg: Message, context: Context) -> Message:
        model = Net()
        model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
        _, testloader = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
        model.eval()
        correct, loss = 0, 0.0
        with torch.no_grad():
            for images, labels in testloader:
                outputs = model(images)
                loss += nn.functional.cross_entropy(outputs, labels).item()
                correct += int((outputs.argmax(1) == labels).sum())
        metrics = {
            "eval_loss": loss / len(testloader),
            "eval_acc": correct / len(testloader.dataset),
            "num-examples": len(testloader.dataset),
        }
        return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)

    return app


@pytest.mark.slow
def test_flowers_quickstart_finds_its_clusters(tmp_path, monkeypatch):
    """Ten nodes, two clusters; OCFL and IFCA find them, the models are saved, and each serves its own nodes."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flwr"))
    strategies = {
        "fedavg": flower.FedAvgStrategy(),
        "ocfl": flower.OCFLStrategy(),
        "ifca": flower.IFCAStrategy(n_clusters=2),
    }
    found = {}

    def main(grid: Grid) -> None:
        torch.manual_seed(0)
        first = ArrayRecord(Net().state_dict())
        for name, strategy in strategies.items():
            found[name] = strategy.start(
                grid=grid, initial_arrays=first, num_rounds=10, train_config=ConfigRecord({"lr": 0.05})
            )

    simulate(quickstart(), 10, main)
    accuracy = {name: result.evaluate_metrics_clientapp[10]["eval_acc"] for name, result in found.items()}
    assert accuracy["fedavg"] < 0.7
    for name in ("ocfl", "ifca"):
        assert planted.same_partition(partitions(found[name]), [0, 1] * 5)
        assert accuracy[name] > 0.85
        check_saved(found[name], tmp_path / name)


def check_saved(result: Any, folder: Path) -> None:
    """The saved model of each cluster tells its own nodes' digits."""
    result.save(folder)
    for cluster in json.loads((folder / "clusters.json").read_text())["clusters"]:
        model = Net()
        model.load_state_dict(load_file(folder / cluster["model"]))
        for node in cluster["nodes"]:
            partition = int(result.train_metrics_by_node[node]["partition-id"])
            hits = [
                float((model(images).argmax(1) == labels).float().mean())
                for images, labels in load_data(partition, 10)[0]
            ]
            assert np.mean(hits) > 0.85
