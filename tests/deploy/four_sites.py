"""Four sites that answer in this process, and experiments on them."""

from pathlib import Path

from fedkin.data.inputs import load_clients
from fedkin.data.preparation import restore_preparation
from fedkin.deploy.site_app import keep
from fedkin.engines.site import Site
from fedkin.experiment.config import Config, load_config
from nodes import Nodes, nodes_of

OPTIONS = ["method.module=perceptron", "method.rounds=4", "method.local_epochs=2"]
FEDERATED = ["data.source=federation", "simulation.scenario=files", "simulation.engine=flower", "federation.sites=4"]


def grid(data: Path, folder: Path) -> Nodes:
    """The sites as nodes; each keeps what is its own in its folder."""
    made = [
        Site(f"site-{i}", folder / f"site-{i}", one.x, one.y, one.classes, prepare=restore_preparation)
        for i, one in enumerate(load_clients(str(data)))
    ]
    return nodes_of(made, keep)


def config(method: str, *more: str) -> Config:
    return load_config(method, [*FEDERATED, *more])
