"""Descriptions of clusters of tables by estimators, in original units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from fedkin.core import FedkinError
from fedkin.data.preparing.cluster_profile import ClusterProfile
from fedkin.estimators.forgetting_fit import ForgettingEstimator
from fedkin.experiment.cluster_words import remarks, sentences
from fedkin.experiment.column_words import described

if TYPE_CHECKING:
    import pandas as pd


class DescribingEstimator(ForgettingEstimator):
    """Base class of estimators that describe clusters of tables."""

    _profile: ClusterProfile | None
    _is_cut = False
    """Whether the clusters are those of a cut, which clients have not described."""

    def describe(self) -> pd.DataFrame:
        """Describe the clusters of tables in original units.

        Returns
        -------
        DataFrame
            One row per cluster: ``samples``, as far as clients report them; ``sentence``, what distinguishes it; and
            the columns of the tables, those that distinguish clusters most first: the mean of numbers, ordinals as
            positions from 0 and booleans as shares of the second value; the mean date; the most frequent category.
            ``attrs["effects"]`` says by column how far it distinguishes clusters, in [0, 1]. Cells of a cluster and a
            column at one client with fewer than five values are left out; ``attrs["remarks"]`` says how many samples
            are missing for it, and what else a reader should know.

        Raises
        ------
        FedkinError
            If the clients had no tables, or the method is private, so that they were not asked.
        """
        from pandas import DataFrame

        profile = self._described()
        columns = described(profile)
        spoken = sentences(profile, self.client_names_)
        frame = DataFrame({column.name: column.values for column in columns}, index=range(len(spoken)))
        frame.index.name = "cluster"
        frame.insert(0, "samples", profile.samples.numpy(), allow_duplicates=True)
        frame.insert(1, "sentence", spoken, allow_duplicates=True)
        frame.attrs["effects"] = {column.name: column.effect for column in columns}
        frame.attrs["remarks"] = remarks(profile, self.client_names_, columns)
        return frame

    def _described(self) -> ClusterProfile:
        check_is_fitted(self, "result_")
        if self._profile is None and self._is_cut:
            raise FedkinError(
                "The clusters of a cut are not described, since that asks the clients; fit again with this n_clusters "
                "or resolution and the same random_state, which finds the same clusters."
            )
        if self._profile is None:
            raise FedkinError(
                "The clusters cannot be described: clients need tables with named columns, such as DataFrames, and a "
                "method that promises no differential privacy."
            )
        return self._profile

    def representatives(self) -> pd.DataFrame:
        """Return a typical sample of each cluster of tables, in original units.

        Returns
        -------
        DataFrame
            One row per cluster: ``rows``, the number of rows that it summarises, and the columns of the tables, in the
            order of `describe`: the mean over the rows nearest to the cluster's centre at each client, rounded as its
            spread justifies, their mean date as a text, or their most frequent category, level or truth value. It is
            not a real row: clients do not send cells of fewer than five rows, and a value that no client sends is
            missing.

        Raises
        ------
        FedkinError
            As `describe`.
        """
        from pandas import DataFrame

        profile = self._described()
        rows = profile.typical_filled.amax(1).numpy()
        columns = {column.name: column.typical_values() or [None] * len(rows) for column in described(profile)}
        frame = DataFrame(columns, index=range(len(rows)))
        frame.index.name = "cluster"
        frame.insert(0, "rows", rows, allow_duplicates=True)
        return frame
