"""Two runs on the same samples or clients: which clusters match, and who is in another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedkin.clustering.matching import corresponding
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import FedkinError
from fedkin.data.profile import ClusterProfile
from fedkin.experiment.numbering import Numbers, drifted_columns, page_of_clusters, sizes_of
from fedkin.experiment.run_folder import CONFIG, is_finished, load_found, read_labels, read_names, run_config
from fedkin.report.figures import PageView, ResultTable, TableCell
from fedkin.report.numbers import join_words, pluralize
from fedkin.studies.pages import page_text

_PLACES = 4  # of a row that is to be read at a glance
_ORDERED = ("row", "client")  # names of an index of numbers, which are no ids


@dataclass(frozen=True)
class Difference:
    """How the clusters of two runs differ; printed, it is a text.

    Attributes
    ----------
    counts : DataFrame
        Members that both runs have, by cluster before (rows) and after (columns).
    matched : dict of int to int
        The cluster after of each cluster before with mostly the same members: of those in either more than half are in
        both. Clusters without one have vanished, or are new.
    ari : float
        Adjusted Rand index of both clusterings of these members, at most 1; NaN of fewer than two.
    moved : dict of str to DataFrame
        Members whose cluster is not the one that theirs is matched to, by client: columns ``before`` and ``after``, by
        id or number of the row. They are rows of a client, and for its eyes alone. Of clusters of clients the key is
        ``"clients"``.
    common : dict of str to int
        Members that both runs have, by client.
    sizes : pair of dict of int to int
        All members of each cluster before and after, also those that only one run has.
    names : pair of dict of int to str
        Names of the clusters before and after, as far as they have any.
    drifts : dict of int to list of str
        How columns of matched clusters differ, by cluster before, such as "age 66.1 (61.2 before)"; of tables.
    notes : list of str
        What could not be compared.
    """

    counts: pd.DataFrame
    matched: dict[int, int]
    ari: float
    moved: dict[str, pd.DataFrame]
    common: dict[str, int]
    sizes: tuple[dict[int, int], dict[int, int]]
    names: tuple[dict[int, str], dict[int, str]]
    drifts: dict[int, list[str]]
    notes: list[str]

    def tree(self) -> dict[str, Any]:
        """Return plain values for JSON: counts by cluster and client, and no rows."""
        counts = self.counts.stack()
        return {
            "ari": None if np.isnan(self.ari) else self.ari,
            "common": self.common,
            "moved": {client: len(rows) for client, rows in self.moved.items()},
            "matched": self.matched,
            "counts": [
                {"before": int(old), "after": int(new), "members": int(n)} for (old, new), n in counts.items() if n
            ],
            "sizes_before": self.sizes[0], "sizes_after": self.sizes[1],
            "names_before": self.names[0], "names_after": self.names[1],
            "drifts": self.drifts, "notes": self.notes,
        }  # fmt: skip

    def page(self) -> PageView:
        """Return it as a page: counts by cluster and client, and no rows."""

        def title(cluster: int, side: int) -> str:
            return f"{cluster}, {self.names[side][cluster]}" if cluster in self.names[side] else str(cluster)

        total, moved = sum(self.common.values()), sum(map(len, self.moved.values()))
        what = pluralize(total, "client" if "clients" in self.common else "sample")
        lead = [f"{what} in both; {moved:,} in another cluster. ARI {self.ari:.3f}."]
        fresh = [title(new, 1) for new in self.counts.columns if new not in self.matched.values()]
        lead += [f"New: {join_words(fresh, 12)}."] if fresh else []
        rows = []
        for old, counts in self.counts.iterrows():
            new = self.matched.get(old)
            parts = counts[counts > 0].sort_values(ascending=False, kind="stable")[:_PLACES]
            cells = [
                "gone" if new is None else title(new, 1),
                f"{self.sizes[0].get(old, 0):,}",
                "–" if new is None else f"{self.sizes[1].get(new, 0):,}",
                ", ".join(f"{title(cluster, 1)} ({count:,})" for cluster, count in parts.items()) or "–",
                "; ".join(self.drifts.get(old, [])[:3]) or "–",
            ]
            rows.append((title(old, 0), [*map(TableCell, cells)]))
        heads = ["is now", "size", "size now", "where its members are now", "what differs"]
        caption = (
            "A cluster is the same in both if more than half of the members of either, of those in both runs, are in "
            f"both. At most {_PLACES} clusters are named in which its members are now."
        )
        clients = [
            (client, [TableCell(f"{self.common[client]:,}"), TableCell(f"{len(members):,}")])
            for client, members in self.moved.items()
        ]
        return page_of_clusters(
            "Two runs",
            [*lead, *(f"Note: {note}" for note in self.notes)],
            ResultTable("Before and now", caption, "cluster before", heads, rows),
            ResultTable("Members", "", "client", ["in both", "in another cluster"], clients),
        )

    def __str__(self) -> str:
        return page_text(self.page())


def diff(before: Any, after: Any) -> Difference:
    """Compare the clusters of two runs on samples, or clients, that they have in common.

    Samples are the same by their ids, or else by their order, where a client has as many in both.

    Parameters
    ----------
    before, after : str or Path, or fitted estimator
        Folders of finished runs, or of a run's results at a site, or estimators.

    Raises
    ------
    FedkinError
        If there are no clusters, as at the server of a real federation, which never learns them; or nothing in common.

    Examples
    --------
    >>> import fedkin
    >>> print(fedkin.diff("runs/2026-11", "runs/2026-12"))  # doctest: +SKIP
    """
    (old, names_before), (new, names_after) = _clusters(before), _clusters(after)
    in_order, parts = _are_dealt_alike(before, after), {}
    notes = [f"{client or 'Clients'}: in one of the runs alone." for client in old.keys() ^ new.keys()]
    for client in [client for client in old if client in new]:
        if (joined := _joined(old[client], new[client], in_order)) is None:
            notes.append(f"{client or 'Clients'}: without ids, and not the same data in order.")
        else:
            parts[client or "clients"] = joined[(joined >= 0).all(axis=1)]
    both = pd.concat([pd.DataFrame({"before": [], "after": []}, dtype="int64"), *parts.values()])
    if both.empty:
        raise FedkinError(f"The two runs have nothing in common to compare. {' '.join(sorted(notes)[:3])}".rstrip())
    sizes = (sizes_of(old), sizes_of(new))
    counts = pd.crosstab(both["before"], both["after"])
    matched = corresponding(both["before"].to_numpy(), both["after"].to_numpy())
    return Difference(
        counts.reindex(index=sorted(sizes[0]), columns=sorted(sizes[1]), fill_value=0),
        matched,
        adjusted_rand(both["before"].to_numpy(), both["after"].to_numpy()) if len(both) > 1 else float("nan"),
        {client: part[part["before"].map(matched) != part["after"]] for client, part in parts.items()},
        {client: len(part) for client, part in parts.items()},
        sizes,
        (names_before, names_after),
        _drifts(_profile(before), _profile(after), matched),
        sorted(notes),
    )


def _is_of_site(folder: Path) -> bool:
    """Return whether a folder holds what a site of a real federation has of a run: the clusters of its rows."""
    return not (folder / CONFIG).exists() and (folder / "labels").is_dir()


def _profile(run: Any) -> ClusterProfile | None:
    if not isinstance(run, str | Path):
        return getattr(run, "_profile", None)
    folder = Path(run).expanduser()
    return load_found(folder).profile if is_finished(folder) else None  # a site of a real federation has none


def _drifts(
    before: ClusterProfile | None, after: ClusterProfile | None, matched: Mapping[int, int]
) -> dict[int, list[str]]:
    """Return how columns of matched clusters differ, by cluster before."""
    if before is None or after is None:
        return {}
    k, number = len(before.samples), {new: old for old, new in matched.items()}
    numbers = torch.tensor([number.get(new, k + new) for new in range(len(after.samples))], dtype=torch.int64)
    return drifted_columns(before, Numbers(numbers, k + len(numbers)).of_profile(after))


def _clusters(run: Any) -> tuple[dict[str, pd.Series[Any]], dict[int, str]]:
    """Return the clusters of a run or an estimator by client, and the names of clusters."""
    if isinstance(run, str | Path):
        folder = Path(run).expanduser()
        if not (is_finished(folder) or _is_of_site(folder)):
            raise FedkinError(f"{folder} holds no finished run.")
        if not (labels := read_labels(folder)):
            raise FedkinError(f"{folder} has no clusters of rows: in a real federation each site has its own.")
        return labels, read_names(folder)
    if not hasattr(run, "result_"):
        raise FedkinError(f"{run!r} is neither the folder of a run nor a fitted estimator.")
    if hasattr(run, "client_labels_"):
        names = pd.Index(run.client_names_, name="name")
        return {"": pd.Series(run.client_labels_, index=names)}, run.cluster_names_
    labels = {name: pd.Series(each).rename_axis("row") for name, each in run.labels_.items()}
    return labels, run.cluster_names_


def _are_dealt_alike(before: Any, after: Any) -> bool:
    """Return whether a number of a client or row means the same in both; another seed deals data out otherwise."""
    folders = [Path(run).expanduser() for run in (before, after) if isinstance(run, str | Path)]
    if len(folders) < 2 or any(map(_is_of_site, folders)):
        return True
    first, second = map(run_config, folders)
    if first.simulation.scenario == second.simulation.scenario == "files":
        return True
    dealt = [(c.tables["simulation"], c.data.source, c.data_seed) for c in (first, second)]
    return dealt[0] == dealt[1]


def _joined(before: pd.Series[Any], after: pd.Series[Any], in_order: bool) -> pd.DataFrame | None:
    """Return the clusters ``before`` and ``after`` of common members; ``None`` where these cannot be known."""
    if before.index.name == after.index.name not in _ORDERED:
        places = before.index.get_indexer(after.index)
    elif in_order and len(before) == len(after):
        places = np.arange(len(after))
    else:
        return None
    common = places >= 0
    old = before.iloc[places[common]]
    return pd.DataFrame({"before": old, "after": after.to_numpy()[common]}, index=old.index)
