"""What the report of a run shows, whatever the method.

Words come from `fedkin.wording`. A method that finds communities of local clusters may put a ``graph`` into its
records' values, to be drawn as of the first and of the last step:

* ``nodes``: ``[site, cluster, samples]`` each; ``edges``: pairs of positions in them.
* ``communities``: lists of such positions; all other nodes are alone.
* ``groups``: the group that each community has become by the end of the step, or ``None``.
* ``next``: by site, as text, the group of each local cluster it goes on with, which are the next step's nodes.

With the last two, both drawings use the numbers that groups have in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from fedkin.config import Config
from fedkin.core import Client
from fedkin.data.scaling import Scaling
from fedkin.data.scenario import Population
from fedkin.report import Curve, Graph, GroupPictures, GroupTable, Node, Profiles, RunView
from fedkin.wording import measures, number, scaled, size, written

_MEMBERS = 11  # with the mean they fill a card
_COLUMNS = 40

Line = dict[str, Any]
Number = TypeVar("Number", int, int | None)


def view_of(config: Config, population: Population, scaling: Scaling, records: Sequence[Line]) -> RunView:
    """The page's content, from the run's records and from what sites hold.

    Parameters
    ----------
    config : Config
        The experiment.
    population : Population
        Its clients; those with int64 ``state["groups"]`` are shown by group.
    scaling : Scaling
        How their data were scaled.
    records : sequence of dict
        The lines of ``records.jsonl``.
    """
    clients = [client for client in population.clients if "groups" in client.state]
    groups = sorted({group for client in clients for group in client.state["groups"].tolist()})
    is_image = population.kind == "image"
    return RunView(
        title=f"{type(config.method).__name__} on {Path(config.data.source).name}",
        lead=_lead(population.clients, groups, records),
        summary=_summary(records),
        curves=_curves(records),
        graphs=_graphs(records),
        table=_table(clients, groups, population.names) if groups else None,
        pictures=[_pictures(clients, group, scaling) for group in groups] if is_image else (),
        profiles=_profiles(clients, groups, population.features) if groups and not is_image else None,
        notes=_notes(records),
        settings=config.tables,
    )


def _lead(clients: Sequence[Client], groups: Sequence[int], records: Sequence[Line]) -> str:
    samples = sum(len(client) for client in clients)
    steps = _many(len(records), "step")
    found = f" In {steps}, {_many(len(groups), 'group')} were found across them." if groups else f" So far: {steps}."
    return f"{_many(len(clients), 'site')} hold {samples:,} samples, which never left them.{found}"


def _summary(records: Sequence[Line]) -> list[tuple[str, str, str]]:
    if not records:
        return []
    first, last = records[0], records[-1]
    known = measures(last)
    rows = []
    for name, measure in known.items():
        if measure.headline:
            text = measure.meaning
            if measure.beside in known:
                beside = known[measure.beside]
                text += f"; {beside.title.lower()}: {written(last, measure.beside, beside)}"
            if number(first, name) != number(last, name):
                text += f"; after the first step {written(first, name, measure)}"
            rows.append((measure.title, written(last, name, measure), text))
    crossed = size(last["sent"] + last["received"])
    return [*rows, ("Traffic", crossed, "of models and statistics, to the sites and from them")]


def _curves(records: Sequence[Line]) -> list[Curve]:
    if len(records) < 2:
        return []
    x = [record["step"] for record in records]
    known = measures(*records)
    curves = []
    for name, measure in known.items():
        if measure.chart:
            drawn = {n: known[n] for n in (name, measure.beside) if n in known}
            series = {m.title: [scaled(record, n, m) for record in records] for n, m in drawn.items()}
            caption = f"{measure.meaning[0].upper()}{measure.meaning[1:]}."
            curves.append(Curve(measure.title, caption, x, series, measure.unit, "step"))
    traffic = {name: _increments([record[name] for record in records]) for name in ("sent", "received")}
    caption = "Sent to the sites and received from them, in each step."
    return [*curves, Curve("Traffic", caption, x, traffic, "bytes", "step")]


def _increments(totals: Sequence[float]) -> list[float]:
    return [after - before for before, after in zip([0, *totals], totals, strict=False)]


def _graphs(records: Sequence[Line]) -> list[Graph]:
    """The first step's associations and the last one's."""
    steps = [record["step"] for record in records if "graph" in record["values"]]
    graphs = [record["values"]["graph"] for record in records if "graph" in record["values"]]
    numbers = _final_numbers(graphs)
    order = "with the number of the group it became" if numbers else "numbered by size in each drawing"
    drawn = []
    for at in sorted({0, len(graphs) - 1}) if graphs else ():
        group_of = _by_node(graphs[at], numbers[at] if numbers else range(len(graphs[at]["communities"])))
        nodes = [Node(str(site), q, n, group_of.get(a)) for a, (site, q, n) in enumerate(graphs[at]["nodes"])]
        found = _many(len(graphs[at]["communities"]), "community")
        lone = len(nodes) - len(group_of)
        caption = f"{found}, each {order}; {_many(lone, 'local cluster') if lone else 'none'} alone."
        drawn.append(Graph(f"After step {steps[at]}", caption, nodes, [(a, b) for a, b in graphs[at]["edges"]]))
    return drawn


def _final_numbers(graphs: Sequence[Line]) -> list[list[int]]:
    """For every graph, the group in the end of each of its communities; an empty list if the graphs do not tell.

    A community that came to nothing gets a number that no group has.
    """
    if not graphs or not all("groups" in graph for graph in graphs):
        return []
    numbers: list[list[int | None]] = [graphs[-1]["groups"]]
    for after, before in pairwise(reversed(graphs)):
        number_of = _by_node(after, numbers[0])
        numbers.insert(0, [_heir(group, before["next"], after["nodes"], number_of) for group in before["groups"]])
    free = 1 + max((number for own in numbers for number in own if number is not None), default=-1)
    return [[free + at if number is None else number for at, number in enumerate(own)] for own in numbers]


def _by_node(graph: Line, numbers: Sequence[Number]) -> dict[int, Number]:
    """The number of each node's community; nodes that are alone have none."""
    return {a: number for number, members in zip(numbers, graph["communities"], strict=True) for a in members}


def _heir(
    group: int | None, went: Mapping[str, list[int]], nodes: Sequence[list[int]], number_of: Mapping[int, int | None]
) -> int | None:
    """The number under which most samples of a step's `group` are found among the next step's nodes."""
    votes: Counter[int | None] = Counter()
    for a, (site, cluster, samples) in enumerate(nodes):
        if group is not None and went.get(str(site), [])[cluster : cluster + 1] == [group]:
            votes[number_of.get(a)] += samples
    return votes.most_common(1)[0][0] if votes else None


def _table(clients: Sequence[Client], groups: Sequence[int], names: Sequence[str]) -> GroupTable:
    counts = torch.stack([_count(client.state["groups"], groups) for client in clients])
    sites = [f"{client.id} ({names[client.id]})" if names else str(client.id) for client in clients]
    return GroupTable(sites, groups, counts.numpy(), "Samples of each site by group.")


def _count(labels: Tensor, groups: Sequence[int]) -> Tensor:
    return (labels[:, None] == torch.tensor(groups)).sum(0)


def _pictures(clients: Sequence[Client], group: int, scaling: Scaling) -> GroupPictures:
    holders = [client for client in clients if (client.state["groups"] == group).any()]
    x = torch.cat([client.x[client.state["groups"] == group] for client in holders])
    if scaling.mode == "standard":
        x = (x * scaling.scale.view(1, -1, 1, 1) + scaling.mean.view(1, -1, 1, 1)).float()
    # Grey as (H, W), colour as (H, W, 3); of any other number of channels the first is shown.
    x = x.clamp(0, 1).movedim(1, -1) if x.shape[1] == 3 else x[:, 0].clamp(0, 1)
    spread = torch.linspace(0, len(x) - 1, min(_MEMBERS, len(x))).round().long()
    return GroupPictures(group, len(x), len(holders), x.mean(0).numpy(), x[spread].numpy())


def _profiles(clients: Sequence[Client], groups: Sequence[int], columns: Sequence[str]) -> Profiles:
    """Means in standard deviations from the overall mean; of many columns, those in which groups differ most."""
    x = torch.cat([client.x for client in clients]).double()
    labels = torch.cat([client.state["groups"] for client in clients])
    spread = torch.where(x.amin(0) == x.amax(0), torch.inf, x.std(0, correction=0))
    x = (x - x.mean(0)) / spread
    means = torch.stack([x[labels == group].mean(0) for group in groups])
    names = columns or [f"column {index + 1}" for index in range(x.shape[1])]
    kept = means.abs().amax(0).argsort(descending=True, stable=True)[:_COLUMNS].sort().values
    caption = "Mean of each column by group, in standard deviations from the mean of all samples."
    if len(kept) < len(names):
        caption += f" Shown are the {len(kept)} of {len(names)} columns in which a group stands out most."
    return Profiles([names[index] for index in kept.tolist()], groups, means[:, kept].numpy(), caption)


def _notes(records: Sequence[Line]) -> list[str]:
    judged = records and records[-1]["metrics"]
    truth = ["Whatever is said of classes compares with the labels that came with the data."] if judged else []
    return truth + [
        f"Step {record['step']}: site {site} was missing ({reason})."
        for record in records
        for site, reason in record["missing"].items()
    ]


def _many(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
