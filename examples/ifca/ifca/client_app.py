"""The client: trains and evaluates what it is sent, as with FedAvg; its choice is by the loss on its training part."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from fedkin.flower import report_name
from ifca.dataset import partition
from ifca.model import network, test, train

app = ClientApp()
app.query("fedkin")(report_name)


def _loaded(message: Message, context: Context) -> tuple[nn.Module, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    torch.set_num_threads(1)
    run, node = context.run_config, context.node_config
    own, held_out = partition(
        str(run["data"]), int(node["num-partitions"]), int(node["partition-id"]), int(run["seed"])
    )
    model = network(own[0][0].numel())
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model, own, held_out


@app.train()
def train_here(message: Message, context: Context) -> Message:
    """Train the cluster's model."""
    model, (x, y), _ = _loaded(message, context)
    run = context.run_config
    torch.manual_seed(int(run["seed"]) + int(message.content["config"]["server-round"]))
    loss = train(model, x, y, int(run["local-epochs"]), float(run["learning-rate"]), int(run["batch-size"]))
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate_here(message: Message, context: Context) -> Message:
    """Report the loss on the training part, by which IFCA chooses, and the accuracy on the test part."""
    model, own, held_out = _loaded(message, context)
    metrics = {"eval_loss": test(model, *own)[0], "eval_acc": test(model, *held_out)[1], "num-examples": len(own[0])}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
