"""Estimators that find centroids."""

from __future__ import annotations

from fedkin.estimators.sample_clusterer import SampleClusterer
from fedkin.methods.samples import centralized, ffcm, kfed


class KFed(SampleClusterer, method=kfed.KFedMethod):
    """Cluster every client's samples, and the clients' centres; one exchange (k-FED; Dennis, Li, Smith 2021).

    See `fedkin.methods.samples.kfed.KFedMethod` for all parameters. The most useful ones:

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    local_clusters : int or None
        Clusters to find at every client, if these hold fewer clusters than there are in all.
    features : str
        "raw", "unit" (every sample scaled to length 1), other names of `fedkin.features.extractors`, or "auto": "unit"
        for images, "raw" for tables.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that clients send.
    random_state : int, RandomState or None
        Same number, same result.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the cluster of every sample.
    n_clusters_ : int
        Number of clusters found.
    result_ : dict
        ``centroids`` ``(n_clusters_, width)`` and the ``features`` they are of.
    history_ : list of dict
        One entry, with the bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.KFed(n_clusters=3, local_clusters=2, random_state=0).fit(clients)
    >>> [len(set(labels)) for labels in model.labels_]
    [2, 2, 2]
    """


class FFCM(SampleClusterer, method=ffcm.FFCMMethod):
    """Fuzzy c-means at every client, again and again from common centres (FFCM; Stallmann and Wilbik 2022).

    See `fedkin.methods.samples.ffcm.FFCMMethod` for all parameters, and `KFed` for attributes. The most useful:

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    aggregation : {"kmeans", "mean"}
        k-means of all clients' centres, or means of those that started from the same one, weighted by support.
    fuzziness : float
        Above 1. In many dimensions more than 1.1 or so makes all centres one.
    rounds : int
        Most rounds.
    features, scaling, random_state, verbose
        As of `KFed`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[0::2], x[1::2]]
    >>> model = fedkin.FFCM(n_clusters=3, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class KMeans(SampleClusterer, method=centralized.KMeansMethod):
    """k-means of all clients' samples together: a yardstick, for which all data are moved.

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    n_init : int
        Sets of k-means++ seeds to try; the best is kept.
    max_iter : int
        Most iterations from each.
    features, scaling, random_state, verbose
        As of `KFed`, and so are the attributes.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> fedkin.KMeans(n_clusters=3, random_state=0).fit([x[0::2], x[1::2]]).n_clusters_
    3
    """


class FuzzyCMeans(SampleClusterer, method=centralized.FuzzyCMeansMethod):
    """Fuzzy c-means of all clients' samples together: a yardstick, for which all data are moved.

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    fuzziness : float
        Above 1. In many dimensions more than 1.1 or so makes all centres one.
    tolerance : float
        The search ends when no centre moves further.
    max_iter : int
        Most iterations.
    features, scaling, random_state, verbose
        As of `KFed`, and so are the attributes.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> fedkin.FuzzyCMeans(n_clusters=3, random_state=0).fit([x[0::2], x[1::2]]).n_clusters_
    3
    """
