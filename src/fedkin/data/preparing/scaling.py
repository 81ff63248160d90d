"""Federated scaling: standardised columns from statistics that clients send, never from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, task
from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.replies import is_count, is_flag, is_shape
from fedkin.data.reading.arrays import common_shape, plain_numbers
from fedkin.secure.sum_tasks import Term
from fedkin.secure.sums import check_enough, sums_of_all

_FEATURES = ("features",)
_UNITS = (2.0**40, 2.0**20, 1.0, 2.0**-20, 2.0**-40)
"""Columns may be of any size, and hidden numbers are of fixed point, so these are hidden in pieces."""
_ROUNDING = 1e-12
"""Spread of a column, relative to its mean, below which it is constant but for rounding."""


@dataclass(frozen=True)
class Scaling:
    """How samples were scaled, to do the same with new ones.

    Attributes
    ----------
    mode : str
        ``"unit"``: all data lie in [0, 1] and stay as they are. ``"standard"``: mean 0 and variance 1 per column, or
        per channel of images. ``"none"``: unchanged, whatever they are.
    shape : tuple of int
        Of one sample: ``(features,)`` or ``(channels, height, width)``.
    mean, scale : Tensor
        float64, one value per column or channel; 0 and 1 unless the mode is ``"standard"``.
    """

    mode: str
    shape: tuple[int, ...]
    mean: Tensor
    scale: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Samples ``(n, *shape)`` as the model saw them in training; `x` itself is not changed.

        Raises
        ------
        FedkinError
            If samples are of another shape.
        """
        if tuple(x.shape[1:]) != self.shape:
            raise FedkinError(f"The samples have shape {tuple(x.shape[1:])}, but the model was made for {self.shape}.")
        return standardise(x, self.mean, self.scale) if self.mode == "standard" else x.float()

    def tree(self) -> dict[str, Any]:
        """The fields, ready for `fedkin.core.payload.pack`."""
        return {"mode": self.mode, "shape": list(self.shape), "mean": self.mean, "scale": self.scale}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self:
        """The inverse of `tree`."""
        return cls(tree["mode"], tuple(tree["shape"]), tree["mean"], tree["scale"])


def scale(fed: Federation, mode: str = "auto") -> Scaling:
    """Scale every client's data in the same way, as if they had been pooled; to be done once per federation.

    Clients send, per column or channel, count, sum, least and greatest value, and then the sum of squared distances
    from the common mean, which is sound however large the mean is. If nothing is to be scaled they send the shape of a
    sample alone.

    Parameters
    ----------
    fed : Federation
        Its clients' `x` is replaced where the mode comes out as ``"standard"``.
    mode : {"auto", "standard", "none"}
        ``"auto"`` leaves data alone that all lie in [0, 1] and standardises others; not with secure sums, for it needs
        least and greatest values. Constant columns become 0.

    Raises
    ------
    FedkinError
        If clients differ in the shape of their samples, one cannot be reached, or the data are scaled already.
    """
    if mode not in ("auto", "standard", "none"):
        raise unknown_name("scaling", mode, ("auto", "standard", "none"))
    take_numbers(list(getattr(fed, "clients", {}).values()))
    if mode == "none":
        shape = _checked_shape(fed.ask_until_all_reply(shapes, {}))
        return Scaling("none", shape, torch.zeros(shape[0]).double(), torch.ones(shape[0]).double())
    if fed.secure_sums:
        return _scale_by_sums(fed, mode)
    replies = fed.ask_until_all_reply(moments, {})
    shape = _checked_shape(replies)
    least = torch.stack([reply["min"] for reply in replies.values()]).amin(0)
    greatest = torch.stack([reply["max"] for reply in replies.values()]).amax(0)
    in_unit = bool((least >= 0).all() and (greatest <= 1).all())
    if mode == "auto" and in_unit:
        return Scaling("unit", shape, torch.zeros_like(least), torch.ones_like(least))
    count = sum(reply["count"] for reply in replies.values())
    mean = sum_of(replies, "sum") / count
    replies = fed.ask_until_all_reply(squares, {"mean": mean}, expected={"squares": tuple(mean.shape)})
    spread = (sum_of(replies, "squares") / count).sqrt()
    scaling = Scaling("standard", shape, mean, torch.where(least == greatest, 1.0, spread))
    fed.ask_until_all_reply(rescale, {"mean": scaling.mean, "scale": scaling.scale})
    return scaling


def _checked_shape(replies: Mapping[int, Payload]) -> tuple[int, ...]:
    """Shape of a sample, the same at all clients, of which none is scaled yet."""
    if any(reply["scaled"] for reply in replies.values()):
        raise FedkinError("The clients' data are scaled already; make a new federation to scale them again.")
    return common_shape(replies)


def _scale_by_sums(fed: Federation, mode: str) -> Scaling:
    """`scale` of which the server sees sums over all clients alone, and the shape of a sample."""
    if mode == "auto":
        raise FedkinError(
            "Scaling 'auto' takes least and greatest values; with secure sums it should be 'standard' or 'none'."
        )
    shape = _checked_shape(fed.ask_until_all_reply(shapes, {}))
    check_enough(len(fed.present))
    digits = (len(_UNITS), shape[0])
    sums = sums_of_all(fed, hidden_sums, {}, [Term("count"), Term("sum", digits)])
    mean = _of_digits(sums["sum"]) / sums["count"]
    spread = _of_digits(sums_of_all(fed, hidden_squares, {"mean": mean}, [Term("squares", digits)])["squares"])
    spread = (spread / sums["count"]).sqrt()
    constant = spread <= _ROUNDING * mean.abs()
    scaling = Scaling("standard", shape, mean, torch.where(constant, 1.0, spread))
    fed.ask_until_all_reply(rescale, {"mean": scaling.mean, "scale": scaling.scale})
    return scaling


def scale_newcomers(fed: Federation, clients: Sequence[Client], scaling: Scaling) -> None:
    """Scale the freshly loaded data of clients that have just joined as everyone else's were.

    A client whose state has the scaling applies it itself, as in a resumed run. Others receive it if data are
    standardised.

    Raises
    ------
    FedkinError
        If one cannot be reached.
    """
    new = [client.id for client in clients if "scaling_mean" not in client.state]
    for client in clients:
        restore_scaling(client)
    if new and scaling.mode == "standard":
        fed.ask_until_all_reply(rescale, {"mean": scaling.mean, "scale": scaling.scale}, new)


def standardise(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """``(x - mean) / scale`` per column or channel, in float64 inside and float32 outside."""
    around = (1, -1) + (1,) * (x.ndim - 2)
    return ((x - mean.view(around)) / scale.view(around)).float()


@task(
    holds={
        "count": is_count, "sum": _FEATURES, "min": _FEATURES, "max": _FEATURES, "shape": is_shape, "scaled": is_flag,
    }
)  # fmt: skip
def moments(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Count, sum, least and greatest value of each column or channel."""
    replies: list[Payload] = []
    for client in clients:
        x = _by_feature(client.x)
        reply = {"count": len(x), "sum": x.sum(0), "min": x.amin(0), "max": x.amax(0)}
        replies.append({**reply, "shape": list(client.x.shape[1:]), "scaled": "scaling_mean" in client.state})
    return replies


@task(holds={"squares": _FEATURES})
def squares(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Sum of squared distances from the common mean, per column or channel."""
    return [
        {"squares": (_by_feature(client.x) - payload["mean"]).square().sum(0)}
        for client, payload in zip(clients, payloads, strict=True)
    ]


@task(holds={"shape": is_shape, "scaled": is_flag}, accounted=True)
def shapes(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Shape of a sample, and whether the data are scaled already."""
    return [{"shape": list(client.x.shape[1:]), "scaled": "scaling_mean" in client.state} for client in clients]


@task
def hidden_sums(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Count, and sums as digits, for a secure sum."""
    return [{"count": len(client), "sum": _digits(_by_feature(client.x).sum(0))} for client in clients]


@task
def hidden_squares(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """`squares` as digits, for a secure sum."""
    return [{"squares": _digits(reply["squares"])} for reply in squares.run(clients, payloads)]


def _digits(values: Tensor) -> Tensor:
    """Numbers ``(n,)`` of any size as multiples of `_UNITS`, float64 ``(5, n)``; all but the first below 2^20."""
    rest, digits = values.double(), []
    for unit in _UNITS[:-1]:
        digits.append((rest / unit).round())
        rest = rest - digits[-1] * unit
    return torch.stack([*digits, rest / _UNITS[-1]])


def _of_digits(digits: Tensor) -> Tensor:
    """The numbers ``(n,)`` that `_digits` took apart, or sums of such."""
    units = torch.tensor(_UNITS, dtype=torch.float64)
    return (units[:, None] * digits).sum(0)


@task
def rescale(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Standardise the client's data and remember how; asked a second time, do nothing."""
    for client, payload in zip(clients, payloads, strict=True):
        if "scaling_mean" not in client.state:
            client.state["scaling_mean"], client.state["scaling_scale"] = payload["mean"], payload["scale"]
            restore_scaling(client)
    return [{} for _ in clients]


def take_numbers(clients: Sequence[Client]) -> None:
    """Take the values of clients' tables for their samples, where they are numbers and the same columns.

    Raises
    ------
    FedkinError
        If they are not.
    """
    tables = [(client, client.table) for client in clients if client.table is not None]
    for client, table in tables:
        if table.names != tables[0][1].names:
            odd = set(table.names) ^ set(tables[0][1].names)
            what = f"column '{min(odd)}'" if odd else "an order of columns"
            raise FedkinError(f"Client {client.id} and client {tables[0][0].id} differ in {what}.")
    for client, table in tables:
        if client.x.dtype == torch.float64:
            client.x = plain_numbers(table, f"Client {client.id}")


def restore_scaling(client: Client) -> None:
    """Scale a client's freshly loaded data as its state remembers, if it does; for resuming."""
    take_numbers([client])
    if "scaling_mean" in client.state:
        client.x = standardise(client.x, client.state["scaling_mean"], client.state["scaling_scale"])


def sum_of(replies: dict[int, Payload], name: str) -> Tensor:
    """The sum of one tensor over all replies, in order of client."""
    return torch.stack([replies[i][name] for i in sorted(replies)]).sum(0)


def _by_feature(x: Tensor) -> Tensor:
    return x.double() if x.ndim == 2 else x.double().movedim(1, -1).flatten(0, -2)
