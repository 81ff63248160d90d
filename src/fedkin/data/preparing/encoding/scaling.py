"""Scaling of arrays by statistics of all clients; rows are never sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task, task
from fedkin.core.errors import FedkinError, RefusalError
from fedkin.core.replies import Expected, Maybe, doubles, is_count, is_flag, is_shape, whole
from fedkin.core.table import Table
from fedkin.data.preparing.column_reports import MIN_MEMBERS, are_names, are_reports, moments_of, reports_of, too_long
from fedkin.data.preparing.encoding.column_scales import UNIT, constant, in_unit, note_on_unit, scale_of, unit_of
from fedkin.data.preparing.encoding.fixed_point import UNITS, of_digits, to_digits
from fedkin.data.preparing.encoding.histograms import BINS, histograms
from fedkin.data.preparing.encoding.outliers import find_limits, limited, note_on_outliers
from fedkin.data.reading.arrays import common_shape
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import sums_of_all

_FEATURES = doubles("features")


@dataclass(frozen=True)
class Scaling:
    """Scaling of samples, kept to repeat it on new ones.

    In `mode` ``"unit"`` all data lie in [0, 1] and stay as they are; ``"standard"`` is mean 0 and variance 1 per
    column, or per channel of images; ``"common"`` is mean 0 per column, and variance 1 of all columns together, since
    they are in one unit; ``"none"`` leaves data unchanged, whatever they are. `shape` is that of one sample,
    ``(features,)`` or ``(channels, height, width)``. `mean` and `scale` are float64, one value per column or channel; 0
    and 1 if data are unchanged. `low` and `high`, float64 ``(features,)``, are limits of columns with outliers, which
    values beyond count as; ``None`` without any.
    """

    mode: str
    shape: tuple[int, ...]
    mean: Tensor
    scale: Tensor
    low: Tensor | None = None
    high: Tensor | None = None

    def apply(self, x: Tensor) -> Tensor:
        """Scale samples ``(n, *shape)`` as in training; `x` itself is not changed.

        Raises FedkinError if samples are of another shape.
        """
        if tuple(x.shape[1:]) != self.shape:
            raise FedkinError(
                f"The samples have shape {tuple(x.shape[1:])}, but the model was made for {self.shape}.", public=True
            )
        if self.mode not in ("standard", "common"):
            return x.float()
        return standardise(limited(x, self.low, self.high), self.mean, self.scale)

    def tree(self) -> dict[str, Any]:
        """Return the fields, ready for `fedkin.core.payload.pack`."""
        return {"mode": self.mode, "shape": list(self.shape), "mean": self.mean, "scale": self.scale, **self.limits}

    @property
    def limits(self) -> dict[str, Tensor]:
        """Limits by name; empty without outliers."""
        return {} if self.low is None or self.high is None else {"low": self.low, "high": self.high}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self:
        """Return the scaling that `tree` was made of; `KeyError` or `TypeError` if it was not."""
        if not (isinstance(tree["mean"], Tensor) and isinstance(tree["scale"], Tensor)):
            raise TypeError("mean and scale are no tensors")
        return cls(tree["mode"], tuple(tree["shape"]), tree["mean"], tree["scale"], tree.get("low"), tree.get("high"))


def scale_arrays(fed: Federation, mode: str, replies: Mapping[int, Payload]) -> tuple[Scaling, list[str]]:
    """Scale all clients' arrays, as if they had been pooled, by the `moments` they have sent; also return notes.

    Clients then send the sum of squared distances from the common mean, which is sound however large the mean is. With
    "auto" columns with outliers are limited, see `fedkin.data.preparing.encoding.outliers`.
    """
    shape = common_shape(replies)
    lowest = torch.stack([reply["min"] for reply in replies.values()]).amin(0)
    highest = torch.stack([reply["max"] for reply in replies.values()]).amax(0)
    if mode == "auto" and in_unit(lowest, highest):
        return Scaling("unit", shape, torch.zeros_like(lowest), torch.ones_like(lowest)), []
    count = sum(reply["count"] for reply in replies.values())
    mean = sum_of(replies, "sum") / count
    unit = unit_of(torch.maximum(highest - mean, mean - lowest))
    wanted = {"squares": doubles(*mean.shape, minimum=0)}
    replies = fed.ask_until_all_reply(squares, {"mean": mean, "unit": unit}, expected=wanted)
    spread = (sum_of(replies, "squares") * unit.square() / count).sqrt()
    scale, shared = scale_of(mode if len(shape) == 1 else "standard", lowest, highest, spread)
    called = [f"column {i + 1}" for i in range(len(mean))]
    scale, notes = torch.where(lowest == highest, 1.0, scale), note_on_unit(called, shared, lowest < highest)
    scaling = Scaling("common" if shared.any() else "standard", shape, mean, scale)
    if mode == "auto" and len(shape) == 1:
        limits = find_limits(partial(_histograms_of, fed), mean, spread, lowest, highest, ~shared)
        if len(limits.at):
            scaling = Scaling(scaling.mode, shape, *limits.within(mean, scale), *limits.ends(len(mean)))
            notes += note_on_outliers(called, limits, lowest, highest, spread)
    fed.ask_until_all_reply(rescale, {"mean": scaling.mean, "scale": scaling.scale, **scaling.limits})
    return scaling, notes


def _histograms_of(fed: Federation, at: Tensor, low: Tensor, high: Tensor) -> Tensor:
    payload, expected = {"at": at, "low": low, "high": high}, {"histograms": doubles(len(at), BINS, minimum=0)}
    return sum_of(fed.ask_until_all_reply(column_histograms, payload, expected=expected), "histograms")


def scale_arrays_by_sums(fed: Federation, shape: tuple[int, ...]) -> Scaling:
    """Scale all clients' arrays by secure sums; besides these the server sees only the shape of a sample."""
    digits = (len(UNITS), shape[0])
    sums = sums_of_all(fed, hidden_sums, {}, [Term("count"), Term("sum", digits)])
    mean = of_digits(sums["sum"]) / sums["count"]
    payload = {"mean": mean, "unit": torch.ones_like(mean)}
    spread = of_digits(sums_of_all(fed, hidden_squares, payload, [Term("squares", digits)])["squares"])
    spread = (spread / sums["count"]).sqrt()
    scaling = Scaling("standard", shape, mean, torch.where(constant(mean, spread), 1.0, spread))
    fed.ask_until_all_reply(rescale, {"mean": scaling.mean, "scale": scaling.scale})
    return scaling


def standardise(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Return ``(x - mean) / scale`` per column or channel, computed in float64 and returned in float32."""
    around = (1, -1) + (1,) * (x.ndim - 2)
    return ((x - mean.view(around)) / scale.view(around)).float()


_QUESTION: Expected = {"min_members": Maybe(is_count)}


@client_task(
    takes=_QUESTION,
    holds={
        "count": is_count, "sum": _FEATURES, "min": _FEATURES, "max": _FEATURES, "shape": is_shape, "scaled": is_flag,
    },
    may_hold={"names": are_names, "columns": are_reports, "filled": _FEATURES},
)  # fmt: skip
def moments(client: Client, payload: Payload) -> Payload:
    """Report count, sum, minimum and maximum of each column or channel; for a table also its columns."""
    facts: Payload = {"shape": list(client.x.shape[1:]), "scaled": is_prepared(client)}
    if client.table is None:
        x = _by_feature(client.x)
        return {"count": len(x), "sum": x.sum(0), "min": x.amin(0), "max": x.amax(0), **facts}
    facts |= moments_of(client.table) | _reports_of(client.table, _min_members(client, payload))
    return {"count": len(client), **facts}


@client_task(takes=_QUESTION, holds={"names": are_names, "columns": are_reports})
def table_columns(client: Client, payload: Payload) -> Payload:
    """Report the columns of a table, and nothing of its samples except names of frequent categories."""
    if client.table is None:
        return {"names": [], "columns": []}
    return _reports_of(client.table, _min_members(client, payload))


@client_task(takes={"mean": _FEATURES, "unit": UNIT}, holds={"squares": doubles("features", minimum=0)})
def squares(client: Client, payload: Payload) -> Payload:
    """Report the sum of squared distances from the common mean, per column or channel, in squares of its unit."""
    return {"squares": ((_by_feature(client.x) - payload["mean"]) / payload["unit"]).square().sum(0)}


@client_task(
    takes={"unscaled": Maybe(is_flag)},
    holds={"shape": is_shape, "scaled": is_flag},
    may_hold={"names": are_names, "plain": is_flag},
    accounted=True,
)
def shapes(client: Client, payload: Payload) -> Payload:
    """Report the shape of a sample, whether the data are scaled already, and names of a table's columns.

    ``plain`` is whether all columns are of numbers and no cell is empty. Arrays that are to stay ``unscaled`` must be
    float32: RefusalError if they are so far from zero that this would lose what varies in them.
    """
    if payload.get("unscaled") and client.table is None and client.x.dtype == torch.float64:
        raise RefusalError(
            "A column is so far from zero that float32 would lose what varies in it; subtract a common number from it "
            "at every client, or set scaling = 'standard'.",
            public=True,
        )
    reply: Payload = {"shape": list(client.x.shape[1:]), "scaled": is_prepared(client)}
    if client.table is not None:
        numbers = all(column.kind == "number" for column in client.table.columns)
        reply |= {"names": client.table.names, "plain": numbers and not bool(client.table.values.isnan().any())}
    return reply


def is_prepared(client: Client) -> bool:
    """Return whether a client's data are scaled or encoded already."""
    return "scaling_mean" in client.state or "preparation" in client.state


def _reports_of(table: Table, min_members: int) -> Payload:
    """Report on a table; raise RefusalError if a name or category is too long, before the server refuses the report."""
    if problems := too_long(table, min_members):
        raise RefusalError(" ".join(problems), public=True)  # names and lengths
    return reports_of(table, min_members)


def _min_members(client: Client, payload: Payload) -> int:
    """Return how many samples a category needs for its name to leave the client; a server cannot lower it."""
    wanted = payload.get("min_members", MIN_MEMBERS)
    return max(wanted if is_count(wanted) else 0, MIN_MEMBERS, client.min_members)


@client_task(takes={})
def hidden_sums(client: Client, payload: Payload) -> Payload:
    """Report the count, and sums as digits, for a secure sum."""
    return {"count": len(client), "sum": to_digits(_by_feature(client.x).sum(0))}


@task(takes={"mean": _FEATURES, "unit": UNIT})
def hidden_squares(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Report the same as `squares`, as digits, for a secure sum."""
    return [{"squares": to_digits(reply["squares"])} for reply in squares.run(clients, payloads)]


@client_task(
    takes={"at": whole("columns"), "low": doubles("columns"), "high": doubles("columns")},
    holds={"histograms": doubles("columns", BINS, minimum=0)},
)
def column_histograms(client: Client, payload: Payload) -> Payload:
    """Report how many values of some columns lie in each bin between ``low`` and ``high``; ends take the rest."""
    x = _by_feature(client.x)
    if bool((payload["at"] >= x.shape[1]).any()):
        raise FedkinError(
            f"Column {int(payload['at'].amax())} was asked for, but samples have {x.shape[1]}.", public=True
        )
    return {"histograms": histograms(x[:, payload["at"]], payload["low"], payload["high"])}


@client_task(
    takes={
        "mean": _FEATURES, "scale": doubles("features", minimum=0), "low": Maybe(_FEATURES), "high": Maybe(_FEATURES),
    }
)  # fmt: skip
def rescale(client: Client, payload: Payload) -> Payload:
    """Standardise the client's data and keep the scaling in its state; a second request does nothing."""
    if "scaling_mean" not in client.state:
        client.state |= {f"scaling_{name}": value for name, value in payload.items()}
        restore_scaling(client)
    return {}


def restore_scaling(client: Client) -> None:
    """Scale a client's freshly loaded data by the scaling in its state, if any; for resuming."""
    if "scaling_mean" in client.state:
        x = limited(client.x, client.state.get("scaling_low"), client.state.get("scaling_high"))
        client.x = standardise(x, client.state["scaling_mean"], client.state["scaling_scale"])


def sum_of(replies: Mapping[int, Payload], name: str) -> Tensor:
    """Return the sum of one tensor over all replies, in order of client."""
    return torch.stack([replies[i][name] for i in sorted(replies)]).sum(0)


def _by_feature(x: Tensor) -> Tensor:
    return x.double() if x.ndim == 2 else x.double().movedim(1, -1).flatten(0, -2)
