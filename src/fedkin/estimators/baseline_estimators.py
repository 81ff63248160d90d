"""Estimators of the centralised baselines, for which the data are moved."""

from __future__ import annotations

from fedkin.estimators.sample_clusterer import LatentClusterer, SampleClusterer
from fedkin.methods.samples import centralized, dec


class KMeans(SampleClusterer, method=centralized.KMeansMethod):
    """k-means of all clients' samples together: a centralised baseline, for which **the data are moved**.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> fedkin.KMeans(n_clusters=3, random_state=0).fit([x[0::2], x[1::2]]).n_clusters_
    3
    """


class FuzzyCMeans(SampleClusterer, method=centralized.FuzzyCMeansMethod):
    """Fuzzy c-means of all clients' samples together: a centralised baseline, for which **the data are moved**.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> fedkin.FuzzyCMeans(n_clusters=3, random_state=0).fit([x[0::2], x[1::2]]).n_clusters_
    3
    """


class DEC(LatentClusterer, method=dec.DECMethod):
    """Deep embedded clustering of all samples together or of every client's alone (Xie, Girshick, Farhadi 2016).

    A centralised baseline: by default **the data are moved** to one place.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters; with ``scope="client"`` those of all clients together.
    result_ : dict
        ``encoder`` and ``centroids``, with ``scope="all"``.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.DEC(n_clusters=3, pretrain_steps=150, random_state=0).fit(clients)
    >>> [len(set(labels)) for labels in model.labels_]
    [2, 2, 2]
    """
