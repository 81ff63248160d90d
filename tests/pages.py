"""Records and pages of made-up runs, for tests of what a page shows."""

import torch

from fedkin.core import Client
from fedkin.data.encoding import Encoding
from fedkin.data.population import Population
from fedkin.data.preparation import Preparation
from fedkin.experiment.config import Config
from fedkin.report.figures import PagePart, PageView
from fedkin.report.run_page import page_of_run


def scaling(mode: str, shape: tuple[int, ...], mean: float = 0.0, scale: float = 1.0) -> Preparation:
    ends = (torch.full(shape[:1], value).double() for value in (mean, scale))
    return Preparation(Encoding(mode, *ends, shape=shape))


def view(config: Config, x: torch.Tensor, scaled: Preparation, *records: dict) -> PageView:
    clusters = torch.tensor([0, 2, 2, 2])
    clients = [
        Client(0, x, state={"clusters": clusters}),
        Client(1, x[:2], state={"clusters": clusters[:2]}),
        Client(2, x),
    ]
    return page_of_run(config, Population(clients, None, []), scaled, records)


def record(step: int, **changes: object) -> dict:
    return {"step": step, "missing": {}, "values": {}, "metrics": {}, "sent": 5 * step, "received": step, **changes}


def client_record(step: int, labels: list[int], accuracy: list | None = None, **values: object) -> dict:
    metrics = {} if accuracy is None else {"client_accuracy": accuracy, "ari": 1.0}
    return record(step, values={"labels": labels, **values}, metrics=metrics)


def clustered(config: Config, *records: dict, clusters: list[int] | None = None) -> PageView:
    clients = [Client(i, torch.zeros(5, 3)) for i in range(4)]
    hidden = None if clusters is None else torch.tensor(clusters)
    return page_of_run(config, Population(clients, None, [], clusters=hidden), scaling("none", (3,)), records)


def part(view: PageView, anchor: str) -> PagePart:
    """Return a section of a page; an empty one where the page has none."""
    return next((one for one in view.parts if one.anchor == anchor), PagePart(anchor, ""))
