"""What the report of a run shows, whatever the method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedkin.config import Config
from fedkin.core import Client
from fedkin.data.scaling import Scaling
from fedkin.data.scenario import Population
from fedkin.report import Curve, GroupPictures, GroupTable, Profiles, RunView

_MEMBERS = 12

Line = dict[str, Any]


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
        title=f"{config.method_name} on {config.data.source}",
        lead=_lead(population.clients, groups, records),
        summary=_summary(records),
        curves=_curves(records),
        table=_table(clients, groups) if groups else None,
        pictures=[_pictures(clients, group, scaling) for group in groups] if is_image else (),
        profiles=_profiles(clients, groups) if groups and not is_image and scaling.mode == "standard" else None,
        notes=_notes(records),
        settings=config.tables,
    )


def _lead(clients: Sequence[Client], groups: Sequence[int], records: Sequence[Line]) -> str:
    samples = sum(len(client) for client in clients)
    found = f"; {len(groups)} groups were found across them" if groups else ""
    return f"{len(clients)} sites hold {samples:,} samples that never left them{found}, in {len(records)} steps."


def _summary(records: Sequence[Line]) -> list[tuple[str, str, str]]:
    if not records:
        return []
    last = records[-1]
    rows = [(_words(name), _written(value), "against the hidden truth") for name, value in _singles(last["metrics"])]
    rows += [(_words(name), _written(value), "at the last step") for name, value in _singles(last["values"])]
    crossed = (last["sent"] + last["received"]) / 1e6
    return [*rows, ("traffic", f"{crossed:,.1f} MB", "crossed between the sites and the federation, both ways")]


def _curves(records: Sequence[Line]) -> list[Curve]:
    if len(records) < 2:
        return []
    x = [record["step"] for record in records]
    curves = []
    for part, caption in (("metrics", "Against the hidden truth."), ("values", "As the method reports it.")):
        for name in dict.fromkeys(name for record in records for name, _ in _singles(record[part])):
            series = [record[part].get(name) for record in records]
            whole = all(isinstance(value, int) for value in series if value is not None)
            curves.append(Curve(_words(name), caption, x, {_words(name): series}, "count" if whole else "number"))
    traffic = {name: [record[name] for record in records] for name in ("sent", "received")}
    return [*curves, Curve("traffic", "Bytes that crossed so far.", x, traffic, "bytes")]


def _table(clients: Sequence[Client], groups: Sequence[int]) -> GroupTable:
    counts = torch.stack([_count(client.state["groups"], groups) for client in clients])
    return GroupTable([str(client.id) for client in clients], groups, counts.numpy(), "Samples of each site by group.")


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


def _profiles(clients: Sequence[Client], groups: Sequence[int]) -> Profiles:
    x = torch.cat([client.x for client in clients])
    labels = torch.cat([client.state["groups"] for client in clients])
    means = torch.stack([x[labels == group].mean(0) for group in groups])
    names = [f"column {index + 1}" for index in range(x.shape[1])]
    return Profiles(names, groups, means.numpy(), "Means of the standardised columns.")


def _notes(records: Sequence[Line]) -> list[str]:
    return [
        f"Step {record['step']}: site {site} was missing ({reason})."
        for record in records
        for site, reason in record["missing"].items()
    ]


def _singles(part: dict[str, Any]) -> list[tuple[str, float]]:
    return [(name, v) for name, v in part.items() if isinstance(v, int | float) and not isinstance(v, bool)]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _written(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
