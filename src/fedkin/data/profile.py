"""Profile of clusters in original units: sums over clients' tables, by cluster and column.

Of each cluster and column a client reports how many cells are not empty, their sum and squared distances, and how often
each category occurs. A cluster with fewer than `min_members` values in a column at a client is not reported there.
Since the server knows the number of rows and may know the column's total, and could subtract, some values of the
client's largest cluster are withheld, too, so that either none or at least `min_members` values are missing. The same
is reported of the rows in the middle of each cluster, by the same rule, see `typical_cells`: their means are a typical
sample, which is no client's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Self

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Method, Payload, client_task
from fedkin.core.client import Column
from fedkin.core.errors import RefusalError
from fedkin.core.payload import MAX_COUNT, Expected, counts_to, doubles, int64, is_text
from fedkin.core.runner import predicted_clusters
from fedkin.core.seeds import Secret
from fedkin.core.tasks import named_object
from fedkin.data.columns import (
    UNIT,
    aligned,
    are_columns,
    are_numbers,
    columns_of,
    count_lengths,
    plain,
    smallest_group,
    unit_of,
)
from fedkin.data.encoding import Encoding
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.preparation import encoding_of, is_encoding
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import summed

_FRACTIONS = ("sum", "squares", "typical_sum")
"""Sums that are no whole numbers."""
MAX_CLUSTERS = 2**15
_LARGEST_SQUARE = 1e20
"""Of a column's standard deviation; farther values count as this one in squares, which stay within any client's."""
BY_CLUSTER = ("samples", "filled", "sum", "squares", "counts", "typical_filled", "typical_sum", "typical_counts")
"""Tensors of a profile with a row for each cluster."""
_TENSORS = (*BY_CLUSTER, "around")


@dataclass(frozen=True)
class ClusterProfile:
    """Profile of clusters: sums over clients by cluster and column.

    By cluster, `samples`, int64 ``(k,)``, are as many as clients report, see `reportable`. By cluster and column, ``(k,
    columns)``, `filled`, int64, counts cells that are not empty; `sum` and `squares`, float64, are of values as
    `fedkin.core.client.Column` has them, booleans and levels being positions, and of squared distances from `around`,
    float64 ``(columns,)``; 0 for categories. `counts`, int64 ``(k, frequencies)``, say how often each category occurs,
    one column after the other, each with *other* last. `typical_filled`, `typical_sum` and `typical_counts` are alike,
    of the rows in the middle of the clusters alone; empty if unknown.

    `members` are samples of each cluster by client, int64 ``(k,)``; empty with secure sums. `missing` are clients that
    are not in the sums, and why. `rows` are all samples of the others, also those that they do not report; 0 if that is
    not known. `min_members` are samples of one client below which it reports nothing of
    a cluster, and names no category. `gone` are numbers of clusters that an earlier run had.
    """

    columns: tuple[Column, ...]
    samples: Tensor
    filled: Tensor
    around: Tensor
    sum: Tensor
    squares: Tensor
    counts: Tensor
    typical_filled: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.int64))
    typical_sum: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.float64))
    typical_counts: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.int64))
    members: dict[int, Tensor] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    rows: int = 0
    min_members: int = MIN_MEMBERS
    gone: tuple[int, ...] = ()

    @property
    def withheld(self) -> int:
        """The samples that are in no sum, as far as that is known."""
        return max(0, self.rows - int(self.samples.sum()))

    def counts_of(self, column: int) -> Tensor:
        """Return the frequencies of a category column, *other* last: int64 ``(k, categories + 1)``."""
        return self.counts[:, self._spans[column]]

    def typical_counts_of(self, column: int) -> Tensor:
        """Return the same frequencies of the rows in the middle of the clusters."""
        return self.typical_counts[:, self._spans[column]]

    @cached_property
    def _spans(self) -> list[slice]:
        """Begin and end of each column's frequencies in `counts`."""
        return [slice(*ends) for ends in pairwise(accumulate(count_lengths(self.columns), initial=0))]

    @cached_property
    def has_typical(self) -> bool:
        """Whether any sums of the rows in the middle of the clusters are known."""
        return bool(self.typical_filled.any())

    def centres(self, encoding: Encoding) -> Tensor:
        """Return the clusters' means as `encoding` has rows, float64 ``(k, width)``; NaN where clients report none.

        Of a column with outliers the means are compressed as values are.
        """
        centres = torch.full((len(self.samples), len(encoding.mean)), torch.nan, dtype=torch.float64)
        for i, (column, (_, start, _)) in enumerate(zip(self.columns, encoding.blocks, strict=True)):
            if column.kind == "category":
                counts = self.counts_of(i)[:, : len(column.categories) + int(encoding.other[i])].double()
                means = counts / counts.sum(1, keepdim=True)
            else:
                means = (self.sum[:, i] / self.filled[:, i])[:, None]
                means = encoding.compressed(means, slice(i, i + 1))
            centres[:, start : start + means.shape[1]] = means
        return centres if encoding.mode == "none" else (centres - encoding.mean) / encoding.scale

    def tree(self) -> dict[str, Any]:
        """Return the fields, ready for `fedkin.core.payload.pack`."""
        tensors = {name: getattr(self, name) for name in _TENSORS}
        members = {str(client): sizes for client, sizes in self.members.items()}
        missing = {str(client): reason for client, reason in self.missing.items()}
        facts = {"rows": self.rows, "min_members": self.min_members} | ({"gone": [*self.gone]} if self.gone else {})
        return {"columns": plain(self.columns), "members": members, "missing": missing, **facts, **tensors}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the profile that `tree` was made of."""
        fields: dict[str, Any] = {name: value for name, value in tree.items() if isinstance(value, Tensor)}
        members = {int(client): sizes for client, sizes in tree["members"].items()}
        missing = {int(client): reason for client, reason in tree["missing"].items()}
        fields |= {name: int(tree[name]) for name in ("rows", "min_members") if name in tree}
        return cls(columns_of(tree), members=members, missing=missing, gone=tuple(tree.get("gone", ())), **fields)


_QUESTION: Expected = {
    "columns": are_columns, "n_clusters": counts_to(MAX_CLUSTERS), "around": doubles(None), "unit": UNIT,
    "min_members": counts_to(MAX_COUNT),
}  # fmt: skip


@client_task(
    takes=_QUESTION,
    holds={
        "rows": int64(1), "members": int64("clusters"), "filled": int64("clusters", "columns"),
        "sum": doubles("clusters", "columns"), "squares": doubles("clusters", "columns", minimum=0),
        "counts": int64("clusters", None), "typical_filled": int64("clusters", "columns"),
        "typical_sum": doubles("clusters", "columns"), "typical_counts": int64("clusters", None),
    },
    sends="By cluster and column: how many rows, their mean and spread, and frequent categories", fewest="min_members",
)  # fmt: skip
def cluster_cells(client: Client, payload: Payload) -> Payload:
    """Report sums by cluster and column of a table, without cells of too few values; zeros without clusters."""
    clusters, k, columns = client.state.get("clusters"), payload["n_clusters"], columns_of(payload)
    if client.table is None or clusters is None or len(clusters) != len(client.table):
        zeros = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in _shapes(columns, k).items()}
        return {name: part if name in _FRACTIONS else part.long() for name, part in zeros.items()}
    minimum = smallest_group(client, payload)
    values = aligned(client.table, columns, f"Client {client.id}", imputes=True)
    reported = reportable(clusters, ~values.isnan(), k, minimum)
    everyone = reportable(clusters, torch.ones(len(values), 1, dtype=torch.bool), k, minimum)
    member = (clusters[None] == torch.arange(k)[:, None]).double()
    away = ((values - payload["around"]) / payload["unit"]).square().clamp(max=_LARGEST_SQUARE)
    typical = _sums(values, columns, member, typical_cells(client.x, clusters, reported, k, minimum))
    return {
        "rows": torch.tensor([len(values)]),
        "members": (member @ everyone.double())[:, 0].long(),
        "squares": member @ torch.where(reported & are_numbers(columns), away, 0.0),
        **_sums(values, columns, member, reported),
        **{f"typical_{name}": part for name, part in typical.items()},
    }


def _sums(values: Tensor, columns: Sequence[Column], member: Tensor, cells: Tensor) -> dict[str, Tensor]:
    """Return by cluster and column how many `cells` there are, the sum of their numbers, and counts of categories."""
    counts = [torch.zeros(len(member), 0)]
    for i, length in enumerate(count_lengths(columns)):
        if length:
            codes = values[:, i].nan_to_num(0.0).long()
            counts.append(member @ (torch.nn.functional.one_hot(codes, length).double() * cells[:, i, None]))
    total = member @ torch.where(cells & are_numbers(columns), values, 0.0)
    return {"filled": (member @ cells.double()).long(), "sum": total, "counts": torch.cat(counts, 1).long()}


def _shapes(columns: Sequence[Column], n_clusters: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that a client reports."""
    cells, counts = (n_clusters, len(columns)), (n_clusters, sum(count_lengths(columns)))
    sums = {"filled": cells, "sum": cells, "counts": counts}
    typical = {f"typical_{name}": shape for name, shape in sums.items()}
    return {"rows": (1,), "members": (n_clusters,), "squares": cells, **sums, **typical}


def reportable(clusters: Tensor, filled: Tensor, n_clusters: int, minimum: int) -> Tensor:
    """Choose the values to report in sums by cluster and column, so that none over fewer than `minimum` is inferred.

    `clusters` are int64 ``(n,)``; rows with a cluster of `n_clusters` or more are not reported. `filled`, bool ``(n,
    columns)``, are cells that are not empty; return in the same form those to report. In each column, values of
    clusters with fewer than `minimum` are withheld. If these are fewer than `minimum` together, the first values of the
    largest cluster are withheld to make up for it, or all of that cluster if fewer than `minimum` would be left. Equal
    requests always get equal answers.
    """
    member = clusters[None] == torch.arange(n_clusters)[:, None]
    cells = (member.double() @ filled.double()).long()
    away = filled.sum(0) - (cells * (cells >= minimum)).sum(0)
    wanting = torch.where(away > 0, (minimum - away).clamp_min(0), 0)
    size_of_largest, largest = cells.max(0)
    wanting = torch.where(size_of_largest - wanting < minimum, size_of_largest, wanting)
    members = filled & (clusters[:, None] == largest)
    enough = member.T.double() @ (cells >= minimum).double() > 0
    return filled & enough & ~(members & (members.cumsum(0) <= wanting))


def typical_cells(x: Tensor, clusters: Tensor, reported: Tensor, n_clusters: int, minimum: int) -> Tensor:
    """Choose the cells, of those `reported`, in the rows nearest to the medoid of their cluster.

    `x` ``(n, ...)`` are the rows as methods see them, and `clusters` int64 ``(n,)``. `reported`, bool ``(n, columns)``,
    are the cells that sums by cluster and column are over, each of `minimum` cells or more. Return bool ``(n,
    columns)``, true in `reported` cells only. Of a cluster and column, they are none, or at least `minimum` and all but
    at least `minimum` of those reported, or all, so that nobody finds fewer by subtraction.
    """
    chosen = torch.zeros(len(x), dtype=torch.bool)
    for cluster in range(n_clusters):
        rows = (clusters == cluster).nonzero()[:, 0]
        if len(rows):
            chosen[rows[_nearest(x[rows].flatten(1).double(), minimum)]] = True
    cells = reported & chosen[:, None]
    member = (clusters[None] == torch.arange(n_clusters)[:, None]).double()
    taken, total = member @ cells.double(), member @ reported.double()
    allowed = (taken >= minimum) & ((total - taken >= minimum) | (taken == total))
    return cells & (member.T @ allowed.double() > 0)


def _nearest(points: Tensor, minimum: int) -> Tensor:
    """Return the indices of a tenth of the points, at most fifty, nearest to their medoid; all where they are few.

    The medoid is found among a thousand points.
    """
    if len(points) < 2 * minimum:
        return torch.arange(len(points))
    sample = torch.linspace(0, len(points) - 1, min(len(points), 1_000)).round().long()
    medoid = points[sample[torch.cdist(points[sample], points[sample]).sum(1).argmin()]]
    count = min(max(2 * minimum, min(len(points) // 10, 50)), len(points) // 2)
    return (points - medoid).square().sum(1).argsort(stable=True)[:count]


def profile_clusters(
    fed: Federation, encoding: Encoding, n_clusters: int, min_members: int = MIN_MEMBERS
) -> ClusterProfile | None:
    """Ask every client for its part of the profile, and add up the replies; ``None`` where no client gives any.

    It changes nothing at the clients. One that refuses, as those with a privacy budget do, is in `missing`. The clients
    of `fed` have tables, encoded by `encoding`, and in their state clusters, int64, in
    ``0..n_clusters-1``. `min_members`, at least 5, is how many values a cell needs for its sums to leave its client.
    """
    columns = encoding.schema.columns
    starts = [start for _, start, _ in encoding.blocks]
    around = torch.where(are_numbers(columns), encoding.mean.double()[starts], 0.0)
    unit = unit_of(encoding.scale.double()[starts])
    payload: Payload = {
        "columns": plain(columns), "n_clusters": n_clusters, "around": around, "unit": unit, "min_members": min_members,
    }  # fmt: skip
    shapes = _shapes(columns, n_clusters)
    if fed.secure_sums:
        terms = [Term(name, shape, wide=name in _FRACTIONS) for name, shape in shapes.items()]
        hidden = summed(fed, cluster_cells, fed.all(**payload), terms)
        missing, members, sums = hidden.missing, {}, hidden[0].totals if hidden else {}
    else:
        replies = fed.ask_again(cluster_cells, fed.all(**payload), 3, shapes)
        silent = [client for client, reply in replies.items() if not int(reply["rows"])]
        missing = dict(sorted({**replies.missing, **dict.fromkeys(silent, "it gave no clusters of its table")}.items()))
        members = {client: reply["members"] for client, reply in replies.items() if client not in silent}
        sums = {name: torch.stack(replies.each(name)).sum(0) for name in shapes} if members else {}
    if not sums:
        return None
    sums = {name: part if name in _FRACTIONS else part.round().long() for name, part in sums.items()}
    sums["squares"] = sums["squares"] * unit.square()
    tensors = {**sums, "samples": sums["members"], "around": around}
    facts: dict[str, Any] = {name: tensors[name] for name in _TENSORS if name in tensors}
    rows = int(sums["rows"])
    return ClusterProfile(columns, members=members, missing=missing, rows=rows, min_members=min_members, **facts)


# Rows by their cluster in an earlier result and in a new one: the table by which clusters keep their numbers.


@client_task(
    takes={
        "method": is_text, "result": lambda result: isinstance(result, dict), "encoding": is_encoding,
        "before": counts_to(MAX_CLUSTERS), "after": counts_to(MAX_CLUSTERS), "min_members": counts_to(MAX_COUNT),
    },
    holds={"table": int64("before", "after")},
    sends="How many rows of each earlier cluster are in each new one", fewest="min_members",
)  # fmt: skip
def count_transitions(client: Client, payload: Payload) -> Payload:
    """Report how many rows of each cluster ``before`` are in each ``after``.

    Of each new cluster, a site leaves cells of fewer than ``min_members`` out, so that none is found by subtraction; a
    simulated client counts all.
    """
    before, after = int(payload["before"]), int(payload["after"])
    clusters = client.state.get("clusters")
    if clusters is None:
        return {"table": torch.zeros(before, after, dtype=torch.int64)}
    method = named_object(payload["method"], "Method")
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise RefusalError(f"'{payload['method']}' is no method.", public=True)
    x = _encoded_as(client, Encoding.from_tree(payload["encoding"]))
    old = predicted_clusters(method, payload["result"], x)
    inside = clusters[:, None] == torch.arange(after)
    counted = reportable(
        old, inside, before, smallest_group(client, payload) if isinstance(client.noise, Secret) else 1
    )
    return {"table": ((old == torch.arange(before)[:, None]).double() @ counted.double()).long()}


def _encoded_as(client: Client, encoding: Encoding) -> Tensor:
    """Return a client's rows as another encoding has them, whatever its own is."""
    if not encoding.shape and client.table is not None:
        return encoding.apply(client.table, "The client's table", client.table)
    current = encoding_of(client.state)
    if current is None or not current.is_scaled:
        return encoding.scaled(client.x)
    if torch.equal(current.mean, encoding.mean) and torch.equal(current.scale, encoding.scale):
        return client.x
    around = (1, -1) + (1,) * (client.x.ndim - 2)
    return encoding.scaled(client.x.double() * current.scale.view(around) + current.mean.view(around))


def check_encodings(before: Encoding, now: Encoding, origin: str) -> None:
    """Raise FedkinError if rows as `now` encodes them lack what those `before` had; `origin` says whose are those."""
    if before.shape != now.shape:
        raise FedkinError(f"The data are of another form than those of {origin}, so that clusters keep no numbers.")
    names = {*now.schema.names, *now.text_names}
    if lacking := [name for name in (*before.schema.names, *before.text_names) if name not in names]:
        raise FedkinError(f"The data have no column '{lacking[0]}', which those of {origin} had.")
