"""What has changed since the run whose numbers of clusters a run keeps: sizes, moved rows, drifted clusters."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core.files import write_atomically
from fedkin.data.profile import ClusterProfile
from fedkin.experiment.numbering import Earlier
from fedkin.report import figures as fig
from fedkin.report.numbers import join_words, pluralize
from fedkin.report.page import write_page
from fedkin.report.words import described

CHANGES, CHANGES_PAGE = "changes.json", "changes.html"
ANEW = 0.2  # above unchanged months' median of three sets, not of digits' (0.55): benchmarks/monthly_updates.py
"""Share of rows in doubt from which clustering anew is advised."""
_SHIFT, _ERRORS = 0.5, 4.0  # Cohen's medium effect, and beyond chance in hundreds of columns (p < 0.0001)
"""Standard deviations, and standard errors, that a cluster's mean has moved at least where the cluster has drifted."""
_LARGER = 0.15  # of a share that is 0.5 before, one and a half standard deviations of 25 rows
"""Change of a category's share from which a cluster has drifted."""
_OTHER = None  # which is no category's name


Status = Literal["kept", "drifted", "new", "empty", "gone"]


@dataclass(frozen=True)
class ChangedCluster:
    """One cluster, before and now.

    Attributes
    ----------
    cluster : int
        Its number.
    name : str
        Its name; empty without one.
    status : {"kept", "drifted", "new", "empty", "gone"}
        Whether it was there before and is there now, and whether its rows are otherwise; "empty" without rows now.
    before, now : int
        Rows in it, of the run before and of this one.
    came, left : int
        Rows of the run before that are now in it and were not, and the other way round.
    drifts : list of str
        How columns differ, such as "age 66.1 (61.2 before)"; the largest first.
    """

    cluster: int
    name: str
    status: Status
    before: int
    now: int
    came: int
    left: int
    drifts: list[str]


@dataclass(frozen=True)
class Changes:
    """What has changed since the run before; printed, it is a text.

    Attributes
    ----------
    since : str
        The run before.
    clusters : list of ChangedCluster
        All clusters of both, by number.
    rows, common, moved : int
        Rows now; those of them that the run before had; and those of these in another cluster.
    by_client : dict of str to dict of str to int
        The same three by client.
    doubt : float
        Share of the rows that are in a new or drifted cluster, or in another one than the run before has or predicts.
    anew : bool
        Whether that is so many that the clusters should be found anew.
    """

    since: str
    clusters: list[ChangedCluster]
    rows: int
    common: int
    moved: int
    by_client: dict[str, dict[str, int]]
    doubt: float
    anew: bool

    @property
    def names(self) -> dict[int, str]:
        """The names that clusters keep."""
        return {each.cluster: each.name for each in self.clusters if each.name and each.status != "gone"}

    def lines(self) -> list[str]:
        """Return sentences on what has changed, the most important first."""
        lines = [self._verdict()]
        if self.common:
            moved = f"{self.moved:,} of these {'is' if self.moved == 1 else 'are'} in another cluster"
            lines.append(f"{self.common:,} of {pluralize(self.rows, 'row')} were in {self.since}; {moved}.")
        for status, text in (("new", "New"), ("empty", "Without rows now"), ("gone", "Gone")):
            clusters = [each for each in self.clusters if each.status == status]
            titles = [f"c{_title(each)[1:]} ({max(each.before, each.now):,})" for each in clusters]
            lines += [f"{text}: {join_words(titles, 12)}."] if titles else []
        drifted = [each for each in self.clusters if each.status == "drifted"]
        lines += [f"{_title(each)} has drifted: {join_words(each.drifts[:3])}." for each in drifted]
        return lines

    def _verdict(self) -> str:
        share = f"{self.doubt:.0%} of the rows are in a new or drifted cluster, or in another one than before"
        if self.anew:
            return (
                f"Much has changed: {share}. From {ANEW:.0%} on, cluster all rows anew, keeping the numbers, and look "
                "at both results before anybody acts on the clusters."
            )
        return f"The clusters still hold: {share}, less than {ANEW:.0%}."

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def write(self, folder: Path) -> None:
        """Write ``changes.json`` and the page ``changes.html`` into a run's folder; they hold counts, and no row."""
        write_atomically(folder / CHANGES, json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")
        write_page(folder / CHANGES_PAGE, self._page())

    def _page(self) -> fig.PageView:
        rows = [
            (
                _title(each),
                [fig.TableCell(each.status)]
                + [fig.TableCell(f"{n:,}") for n in (each.before, each.now, each.came, each.left)]
                + [fig.TableCell("; ".join(each.drifts[:3]) or "–")],
            )
            for each in self.clusters
        ]
        caption = (
            "Rows before and now; of the rows that both runs have, those that came from another cluster and those that "
            f"left. A cluster has drifted if a column's mean has moved by {_SHIFT:g} standard deviations and more than "
            f"chance would, or a category's share by {_LARGER:.0%}."
        )
        heads = ["status", "before", "now", "came", "left", "what drifted"]
        clients = [
            (name, [fig.TableCell(f"{counts[key]:,}") for key in ("rows", "common", "moved")])
            for name, counts in self.by_client.items()
        ]
        beside = "Rows now, rows of these that were there before, and rows of these in another cluster."
        return page_of_clusters(
            "What has changed",
            self.lines(),
            fig.ResultTable("Before and now", caption, "cluster", heads, rows),
            fig.ResultTable("Rows", beside, "client", ["rows", "before, too", "moved"], clients),
        )


def page_of_clusters(
    title: str, lead: Sequence[str], clusters: fig.ResultTable, clients: fig.ResultTable
) -> fig.PageView:
    """Return a page that compares the clusters of two runs, with a table of them, and one of clients."""
    tables = (("clusters", "Clusters", clusters), ("clients", "Clients", clients))
    parts = [fig.PagePart(anchor, heading, figures=[table]) for anchor, heading, table in tables if table.rows]
    return fig.PageView(title, "\n".join(lead), parts=parts)


def compared(
    earlier: Earlier,
    labels: Sequence[NDArray[np.int64]],
    names: Sequence[str],
    profile: ClusterProfile | None,
    since: str,
    exist: Collection[int],
) -> Changes:
    """Compare clusters with those of the run or fit before.

    `labels`, int64 ``(n,)`` each, are the clients' clusters by the numbers that follow; `names` are the clients',
    `profile` describes the clusters, `since` says what came before, and `exist` are the numbers that the result has.
    """
    now, before, known = (np.concatenate([*parts]) for parts in (labels, earlier.before, earlier.known))
    sizes = dict(zip(*(part.tolist() for part in np.unique(now[now >= 0], return_counts=True)), strict=True))
    drifts = {} if profile is None or earlier.profile is None else drifted_columns(earlier.profile, profile)
    clusters = []
    for cluster in sorted(sizes.keys() | earlier.sizes.keys() | (earlier.names.keys() & {*exist})):
        was, is_now = earlier.sizes.get(cluster, 0), sizes.get(cluster, 0)
        moved = drifts.get(cluster, []) if was and is_now else []
        sides = ((now, before), (before, now))
        came, left = (int((known & (a == cluster) & (b != cluster) & (b >= 0)).sum()) for a, b in sides)
        status: Status = "new" if not was else "drifted" if moved else "kept"
        status = status if is_now else "empty" if cluster in exist else "gone"
        name = earlier.names.get(cluster, "")
        clusters.append(ChangedCluster(cluster, name, status, was, is_now, came, left, moved))
    doubtful = [each.cluster for each in clusters if each.status in ("new", "drifted")]
    inside = now >= 0
    doubt = float((inside & (np.isin(now, doubtful) | ((before >= 0) & (before != now)))).sum() / max(inside.sum(), 1))
    by_client = {
        names[i] if i < len(names) else str(i): {
            "rows": int((part >= 0).sum()),
            "common": int(same.sum()),
            "moved": int((same & (part != old)).sum()),
        }
        for i, (part, old, same) in enumerate(zip(labels, earlier.before, earlier.known, strict=True))
        if len(part)
    }
    rows, common, moves = (sum(counts[key] for counts in by_client.values()) for key in ("rows", "common", "moved"))
    return Changes(since, clusters, rows, common, moves, by_client, doubt, doubt >= ANEW)


def drifted_columns(before: ClusterProfile, now: ClusterProfile) -> dict[int, list[str]]:
    """Return how columns of clusters with the same number differ, by cluster, the largest shift first."""
    texts = [{column.name: column for column in described(profile)} for profile in (before, now)]
    places = {column.name: i for i, column in enumerate(now.columns)}
    found: dict[int, list[tuple[float, str]]] = {}
    for i, column in enumerate(before.columns):
        if column.name not in places or now.columns[places[column.name]].kind != column.kind:
            continue
        shifts = _category_shifts if column.kind == "category" else _mean_shifts
        for cluster, shift in enumerate(shifts(before, i, now, places[column.name]).tolist()):
            if shift > 0:
                was, is_now = (each[column.name].cells[cluster].partition(" ± ")[0] for each in texts)
                found.setdefault(cluster, []).append((shift, f"{column.name} {is_now} ({was} before)"))
    return {cluster: [text for _, text in sorted(each, reverse=True)] for cluster, each in found.items()}


def _mean_shifts(before: ClusterProfile, i: int, now: ClusterProfile, j: int) -> Tensor:
    """Return how far a column's mean has moved in each cluster, in standard deviations before; 0 if that is no drift.

    Comparisons with NaN, of clusters without values, are false.
    """
    k = min(len(before.samples), len(now.samples))
    n, m = before.filled[:k, i].double(), now.filled[:k, j].double()
    mean = before.sum[:k, i].double() / n
    spread = (before.squares[:k, i] / n - (mean - before.around[i]) ** 2).clamp_min(0).sqrt()
    moved = (now.sum[:k, j] / m - mean).abs()
    has_moved = (spread > 0) & (moved >= _SHIFT * spread) & (moved >= _ERRORS * spread * (1 / n + 1 / m).sqrt())
    return torch.where(has_moved, moved / spread, 0.0)


def _category_shifts(before: ClusterProfile, i: int, now: ClusterProfile, j: int) -> Tensor:
    """Return the largest change of a category's share in each cluster, in standard deviations; 0 if that is none."""
    sides = ((before.columns[i].categories, before.counts_of(i)), (now.columns[j].categories, now.counts_of(j)))
    levels = [*dict.fromkeys([*sides[0][0], *sides[1][0]]), _OTHER]
    counts = torch.zeros(2, min(len(side) for _, side in sides), len(levels), dtype=torch.float64)
    for table, (names, side) in zip(counts, sides, strict=True):
        table[:, [levels.index(name) for name in (*names, _OTHER)]] = side[: len(table)].double()
    totals = counts.sum(2, keepdim=True)
    was, is_now = counts / totals
    middle = counts.sum(0) / totals.sum(0)
    spread, moved = (middle * (1 - middle)).clamp_min(1e-12).sqrt(), (is_now - was).abs()
    has_moved = (moved >= _LARGER) & (moved >= _ERRORS * spread * (1 / totals).sum(0).sqrt())
    has_moved[:, -1] = False  # what others are differs between runs
    return torch.where(has_moved, moved / spread, 0.0).amax(1)


def _title(each: ChangedCluster) -> str:
    return f"Cluster {each.cluster}{f', {each.name}' if each.name else ''}"
