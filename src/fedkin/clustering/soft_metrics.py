"""Metrics of fuzzy memberships: how soft they are, and how well they agree with the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedkin.core.errors import FedkinError


def partition_coefficient(memberships: ArrayLike) -> float:
    """Partition coefficient (Bezdek 1981): the mean over samples of the sum of squared memberships.

    Parameters
    ----------
    memberships : array-like, shape (n, k)
        At least 0; each row sums to 1.

    Returns
    -------
    float
        In [1 / k, 1]: 1 if each sample belongs to one cluster alone.

    Raises
    ------
    FedkinError
        If `memberships` are no such table.
    """
    return float(np.square(_shares(memberships)).sum(1).mean())


def soft_rand(truth: ArrayLike, memberships: ArrayLike) -> float:
    """Adjusted Rand index of memberships and classes, from expected numbers of pairs.

    The cluster of each sample is thought to be drawn by its memberships; pairs of samples in one cluster, and in one
    cluster and class, are counted in expectation. With memberships of 0 and 1 it is
    `fedkin.clustering.metrics.adjusted_rand`, with equal ones 0.

    Parameters
    ----------
    truth : array-like of int, shape (n,)
        True class of each sample.
    memberships : array-like, shape (n, k)
        At least 0; each row sums to 1.

    Returns
    -------
    float
        At most 1; 0 for memberships that have nothing to do with the classes.

    Raises
    ------
    FedkinError
        If they differ in length, or `memberships` are no such table.
    """
    shares, classes = _shares(memberships), np.unique(np.asarray(truth), return_inverse=True)[1].ravel()
    count = len(shares)
    if len(classes) != count:
        raise FedkinError(f"There are {len(classes)} true classes and memberships of {count} samples.")
    table = np.zeros((int(classes.max()) + 1, shares.shape[1]))
    np.add.at(table, classes, shares)
    alone = np.square(shares).sum()  # of each sample with itself, which is no pair
    together, columns = ((np.square(one).sum() - alone) / 2 for one in (table, table.sum(0)))
    rows = (np.square(table.sum(1)).sum() - count) / 2
    pairs = count * (count - 1) / 2
    by_chance, most = rows * columns / pairs if pairs else 0.0, (rows + columns) / 2
    return 1.0 if np.isclose(most, by_chance) else float((together - by_chance) / (most - by_chance))


def soft_scores(truth: ArrayLike, memberships: ArrayLike) -> dict[str, float]:
    """Return ``soft_ari`` and ``partition_coefficient``, see `soft_rand` and `partition_coefficient`."""
    return {"soft_ari": soft_rand(truth, memberships), "partition_coefficient": partition_coefficient(memberships)}


def _shares(memberships: ArrayLike) -> NDArray[np.float64]:
    shares = np.asarray(memberships, dtype=np.float64)
    if shares.ndim != 2 or not shares.size or shares.min() < 0 or not np.allclose(shares.sum(1), 1, atol=1e-4):
        raise FedkinError("Memberships must be a table with a row for each sample that sums to 1.")
    return shares
