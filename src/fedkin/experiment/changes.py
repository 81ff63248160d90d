"""What has changed since the run whose numbers of clusters a run keeps: sizes, moved rows, drifted clusters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from fedkin.core.files import write_atomically
from fedkin.data.profile import ClusterProfile
from fedkin.experiment.numbering import Earlier, Numbers
from fedkin.report import figures as fig
from fedkin.report.numbers import join_words
from fedkin.report.words import described

CHANGES, CHANGES_PAGE = "changes.json", "changes.html"
ANEW = 0.1  # above 99 of 100 months without a change, below 94 with a new class: benchmarks/monthly_updates.py
"""Share of rows in drifted clusters from which clustering anew is advised."""
_SHIFT, _ERRORS = 0.5, 4.0  # Cohen's medium effect, and beyond chance in hundreds of columns (p < 0.0001)
"""Standard deviations, and standard errors, that a cluster's mean has moved at least where the cluster has drifted."""

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
        Whether it was there before and is there now, and whether the rows that the result before puts into it are
        otherwise than those of before; "empty" without rows now.
    before, now : int
        Rows in it, of the run before and of this one.
    came, left : int
        Rows of now that are in it and not by the result before, and the other way round.
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
    rows, moved : int
        Rows now, as far as clients report them; and those in another cluster than by the result before.
    doubt : float or None
        Share of the rows that the result before puts into clusters that have drifted; ``None`` without named columns.
    anew : bool
        Whether these are so many that the clusters should be found anew.
    """

    since: str
    clusters: list[ChangedCluster]
    rows: int
    moved: int
    doubt: float | None
    anew: bool

    @property
    def names(self) -> dict[int, str]:
        """The names that clusters keep."""
        return {each.cluster: each.name for each in self.clusters if each.name and each.status != "gone"}

    def lines(self) -> list[str]:
        """Return sentences on what has changed, the most important first."""
        lines = []
        if self.doubt is not None:
            share = f"{self.doubt:.0%} of the rows would be in clusters that are no longer what they were"
            advice = "Cluster all rows anew, keeping the numbers, and look at both results before anybody acts on them."
            verdict = f"Much has changed: {share}. {advice}" if self.anew else f"The clusters still hold: {share}."
            lines.append(verdict)
        verb = "is" if self.moved == 1 else "are"
        lines.append(f"{self.moved:,} of {self.rows:,} rows {verb} in another cluster than by the result before.")
        for status, text in (("new", "New"), ("empty", "Without rows now"), ("gone", "Gone")):
            clusters = [each for each in self.clusters if each.status == status]
            titles = [f"c{_title(each)[1:]} ({max(each.before, each.now):,})" for each in clusters]
            lines += [f"{text}: {join_words(titles, 12)}."] if titles else []
        drifted = [each for each in self.clusters if each.status == "drifted"]
        return lines + [f"{_title(each)} has drifted: {join_words(each.drifts[:3])}." for each in drifted]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def write(self, folder: Path) -> None:
        """Write ``changes.json`` and the page ``changes.html`` into a run's folder; they hold counts, and no row."""
        write_atomically(folder / CHANGES, json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")
        rows = []
        for each in self.clusters:
            counts = [f"{count:,}" for count in (each.before, each.now, each.came, each.left)]
            cells = (each.status, *counts, "; ".join(each.drifts[:3]) or "–")
            rows.append((_title(each), [*map(fig.TableCell, cells)]))
        caption = (
            "Rows before and now; of the rows of now those that came into the cluster, which the result before puts "
            "into another one, and those that left. A cluster has drifted if, of the rows that the result before puts "
            f"there, a column's mean or a category's share has moved by {_SHIFT:g} standard deviations and more than "
            f"chance would. From {ANEW:.0%} of the rows in such clusters on, cluster anew."
        )
        heads = ["status", "before", "now", "came", "left", "what drifted"]
        table = fig.ResultTable("Before and now", caption, "cluster", heads, rows)
        from fedkin.report.page import write_page

        write_page(folder / CHANGES_PAGE, page_of_clusters("What has changed", self.lines(), table))


def page_of_clusters(title: str, lead: Sequence[str], *tables: fig.ResultTable) -> fig.PageView:
    """Return a page that compares two runs, with a table of their clusters, and maybe one of clients."""
    headings = (("clusters", "Clusters"), ("clients", "Clients"))
    shown = [pair for pair in zip(headings, tables, strict=False) if pair[1].rows]
    return fig.PageView(title, "\n".join(lead), parts=[fig.PagePart(*head, figures=[table]) for head, table in shown])


def compared(earlier: Earlier, numbers: Numbers, table: Tensor, seen: ClusterProfile | None) -> Changes:
    """Compare clusters that have `numbers` with those of the run or fit before.

    `table`, int64 ``(before, after)``, and the profile `seen` are as `Earlier.ask` returns them.
    """
    moves, exist = numbers.placed(table, 1), {*numbers.by_cluster.tolist()}
    sizes, by_earlier, same = moves.sum(0).tolist(), moves.sum(1).tolist(), moves.diagonal().tolist()
    drifts = {} if seen is None or earlier.profile is None else drifted_columns(earlier.profile, seen)
    clusters, listed = [], {cluster for cluster, count in enumerate(sizes) if count} | earlier.sizes.keys()
    for cluster in sorted(listed | (earlier.names.keys() & exist)):
        was, staying = earlier.sizes.get(cluster, 0), same[cluster] if cluster < len(same) else 0
        leaving = by_earlier[cluster] - staying if cluster < len(by_earlier) else 0
        drifted = drifts.get(cluster, []) if was else []
        status: Status = "new" if not was else "drifted" if drifted else "kept"
        status = status if sizes[cluster] else "empty" if cluster in exist else "gone"
        name, coming = earlier.names.get(cluster, ""), sizes[cluster] - staying
        clusters.append(ChangedCluster(cluster, name, status, was, sizes[cluster], coming, leaving, drifted))
    rows, doubtful = sum(sizes), sum(by_earlier[cluster] for cluster in drifts if cluster < len(by_earlier))
    doubt = None if seen is None else doubtful / max(rows, 1)
    return Changes(earlier.origin, clusters, rows, rows - sum(same), doubt, doubt is not None and doubt >= ANEW)


def drifted_columns(before: ClusterProfile, now: ClusterProfile) -> dict[int, list[str]]:
    """Return how columns of clusters with the same number differ, by cluster, the largest shift first."""
    texts = [{column.name: column for column in described(profile)} for profile in (before, now)]
    places = {column.name: i for i, column in enumerate(now.columns)}
    shifted: dict[int, list[tuple[float, str]]] = {}
    for i, column in enumerate(before.columns):
        if column.name not in places or now.columns[places[column.name]].kind != column.kind:
            continue
        for cluster, shift in enumerate(_shifts(before, i, now, places[column.name]).tolist()):
            if shift > 0:
                was, is_now = (each[column.name].cells[cluster].partition(" ± ")[0] for each in texts)
                shifted.setdefault(cluster, []).append((shift, f"{column.name} {is_now} ({was} before)"))
    return {cluster: [text for _, text in sorted(each, reverse=True)] for cluster, each in shifted.items()}


def _shifts(before: ClusterProfile, i: int, now: ClusterProfile, j: int) -> Tensor:
    """Return how far a column's mean, or a category's share, has moved in each cluster, in standard deviations.

    The deviation is that within both: a column that was constant before may have had few values by chance. It is 0 of
    what is no drift; comparisons with NaN, of clusters without values, are false.
    """
    levels = dict.fromkeys([*before.columns[i].categories, *now.columns[j].categories])  # without others, which differ
    k, sides = min(len(before.samples), len(now.samples)), ((before, i), (now, j))
    counts, means, variances = (
        torch.stack(parts) for parts in zip(*(_moments(*s, k, levels) for s in sides), strict=True)
    )
    spread = ((counts * variances).sum(0) / counts.sum(0)).sqrt()
    moved = (means[1] - means[0]).abs()
    has_moved = (moved >= _SHIFT * spread) & (moved >= _ERRORS * (variances / counts).sum(0).sqrt())
    return torch.where(has_moved & (spread > 0), moved / spread, 0.0).amax(1)


def _moments(profile: ClusterProfile, i: int, k: int, levels: Iterable[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Return number, mean and variance of a column's values in each of `k` clusters, ``(k, 1)``, or of each level."""
    if profile.columns[i].kind != "category":
        count, total, squares = (part[:k, i, None].double() for part in (profile.filled, profile.sum, profile.squares))
        mean = total / count
        return count, mean, (squares / count - (mean - profile.around[i]) ** 2).clamp_min(0)
    counts, names = profile.counts_of(i)[:k].double(), list(profile.columns[i].categories)
    none = counts.new_zeros(k)
    count = counts.sum(1, keepdim=True)
    share = torch.stack([counts[:, names.index(level)] if level in names else none for level in levels], 1) / count
    return count.expand_as(share), share, share * (1 - share)


def _title(each: ChangedCluster) -> str:
    return f"Cluster {each.cluster}{f', {each.name}' if each.name else ''}"
