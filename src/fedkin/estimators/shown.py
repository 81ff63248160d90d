"""What a fitted estimator shows of its clusters: as text, as a DataFrame, and in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from fedkin.core.errors import listing
from fedkin.report.notebook import notebook_block
from fedkin.report.numbers import pluralize
from fedkin.report.words import cluster_title, sentences

_SHOWN = 20
"""Clusters and clients in a notebook; more are counted."""


class ShownClusters:
    """Functions of all estimators that show clusters; `_members` says what is in one."""

    cluster_names_: dict[int, str]
    client_names_: list[str]
    n_clusters_: int
    result_: dict[str, Any]

    def to_frame(self) -> pd.DataFrame:
        """Return the clusters as a table.

        Returns
        -------
        DataFrame
            Where samples are clustered a row for each: ``client``, ``sample``, its position in the client's data,
            ``cluster``, the cluster's ``name`` and, where the method says it, ``confidence`` in [0, 1]. Where clients
            are clustered a row for each: ``client``, ``cluster`` and ``name``. Names are empty where there are none; of
            a client without a part in the result the cluster is -1.
        """
        check_is_fitted(self, "result_")
        frame = self._members()
        names = [self.cluster_names_.get(cluster, "") for cluster in frame["cluster"]]
        frame.insert(frame.columns.get_loc("cluster") + 1, "name", names)
        return frame

    def summary(self) -> str:
        """Return the clusters as text: their number, then a line for each with what is known of it."""
        check_is_fitted(self, "result_")
        return "\n".join([f"{self._title()}.", *(line for _, line in self._lines())])

    def _members(self) -> pd.DataFrame:
        raise NotImplementedError

    def _title(self) -> str:
        frame = self._members()
        clients = pluralize(len(self.client_names_), "client")
        of = f"{pluralize(len(frame), 'sample')} of {clients}" if "sample" in frame else clients
        return f"{type(self).__name__}: {pluralize(self.n_clusters_, 'cluster')} of {of}"

    def _lines(self) -> list[tuple[int, str]]:
        """Return each cluster that has members, with a sentence: from the profile, or on its members."""
        profile, frame = getattr(self, "_profile", None), self._members()
        sizes = frame.loc[frame["cluster"] >= 0, "cluster"].value_counts().sort_index()
        names = self.cluster_names_
        spoken = [] if profile is None else sentences(profile, self.client_names_, cluster_names=names)
        lines = []
        for cluster, size in zip(sizes.index.tolist(), sizes.tolist(), strict=True):
            if cluster < len(spoken):
                text = spoken[cluster]
            elif "sample" in frame:
                text = f"{cluster_title(cluster, names)}: {pluralize(size, 'sample')}."
            else:
                members = frame.loc[frame["cluster"] == cluster, "client"].tolist()
                text = f"{cluster_title(cluster, names)}: {pluralize(size, 'client')}: {listing(members, 10)}."
            lines.append((cluster, text))
        return lines

    def _notebook_html(self) -> str:
        frame, lines = self._members(), self._lines()
        shown = [cluster for cluster, _ in lines[:_SHOWN]]
        more = [(lines[_SHOWN][0], f"... and {len(lines) - _SHOWN:,} more.")] if len(lines) > _SHOWN else []
        rows: Sequence[Sequence[str]] = []
        if "sample" in frame:
            counts = pd.crosstab(frame["client"], frame["cluster"]).reindex(
                index=self.client_names_[:_SHOWN], columns=shown, fill_value=0
            )
            rows = [[client, *(f"{count:,}" for count in row)] for client, row in counts.iterrows()]
            if (rest := len(self.client_names_) - _SHOWN) > 0:
                rows.append([f"... and {rest:,} more", *("" for _ in shown)])
        names = {cluster: f"{cluster}, {name}" for cluster, name in self.cluster_names_.items()}
        heads = ["samples by client", *(names.get(cluster, str(cluster)) for cluster in shown)]
        return notebook_block(self._title(), [*lines[:_SHOWN], *more], heads, rows, repr(self))

    # scikit-learn's two entrances: that of IPython, and that of consumers which do not know mime bundles.

    def _repr_mimebundle_(self, **more: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**more)  # type: ignore[misc]
        if "text/html" in bundle and hasattr(self, "result_"):
            bundle["text/html"] = self._notebook_html()
        return bundle

    def _repr_html_inner(self) -> str:
        return self._notebook_html() if hasattr(self, "result_") else super()._repr_html_inner()  # type: ignore[misc]
