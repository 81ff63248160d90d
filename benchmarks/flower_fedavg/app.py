"""FedAvg as a Flower user writes it: a `ClientApp`, and a `ServerApp` around the built-in `FedAvg` strategy.

``python -m flower_fedavg.app WORKLOAD REPORT CORES TEMPORARY_FOLDER`` runs it in Flower's own simulation; `flwr run`
would leave a SuperLink behind. It follows the shape of Flower's PyTorch quickstart: each message makes a model, loads
the arrays, trains it with `torch.optim.SGD` on a `DataLoader` over a `TensorDataset`, and replies with the arrays and
the mean training loss.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from flower_fedavg.workload import Workload

client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model on the data of this node's partition."""
    torch.set_num_threads(1)  # one processor per client; two threads in each of two actors would wait for each other
    config = dict(message.content["config"])
    config.pop("server-round")
    work = Workload(**config)
    model = work.model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    data = TensorDataset(*work.client_data(int(context.node_config["partition-id"])))
    loss = fit(model, DataLoader(data, batch_size=work.batch_size, shuffle=True), work)
    metrics = MetricRecord({"loss": loss, "num-examples": len(data)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


def fit(model: nn.Module, loader: DataLoader[Any], work: Workload) -> float:
    """Local training; the mean loss over its steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
    criterion = nn.CrossEntropyLoss()
    model.train()
    total = 0.0
    for images, labels in islice(chain.from_iterable(repeat(loader)), work.local_steps):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / work.local_steps


def server_app(work: Workload, report: dict[str, Any]) -> ServerApp:
    """A server that runs all rounds, and puts their ``seconds`` and the ``loss`` of the last model into `report`."""
    app = ServerApp()
    ends: list[float] = []

    def mean_loss(replies: list[RecordDict], _: str) -> MetricRecord:
        if len(replies) != work.clients:
            raise RuntimeError(f"Only {len(replies)} of {work.clients} clients answered.")
        return MetricRecord({"loss": sum(float(reply["metrics"]["loss"]) for reply in replies) / len(replies)})

    def note_the_time(round_: int, arrays: ArrayRecord) -> None:
        ends.append(perf_counter())  # called before the first round and after each: the least intrusive clock

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        model = work.first_model()
        # Waits by itself until all nodes are there; clients are not asked to evaluate.
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=work.clients, train_metrics_aggr_fn=mean_loss)
        result = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(model.state_dict()),
            num_rounds=work.rounds,
            train_config=ConfigRecord(asdict(work)),
            evaluate_fn=note_the_time,
        )
        report["seconds"] = [end - start for start, end in pairwise(ends)]
        model.load_state_dict(result.arrays.to_torch_state_dict())
        report["loss"] = work.loss(model)

    return app


def main(workload: str, report: str, cores: str, folder: str) -> None:
    """Simulate and write the report; one actor per core, each with one processor."""
    work = Workload(**json.loads(workload))
    measured: dict[str, Any] = {}
    run_simulation(
        server_app(work, measured),
        client_app,
        num_supernodes=work.clients,
        backend_config={
            "init_args": {"num_cpus": int(cores), "_temp_dir": folder},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    Path(report).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
