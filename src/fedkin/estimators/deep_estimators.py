"""Estimators that train networks to cluster samples."""

from __future__ import annotations

from fedkin.estimators.sample_clusterer import LatentClusterer, SampleClusterer
from fedkin.methods.samples import dec, ppfc_gan, sda_fc, uifca
from fedkin.methods.samples.ccfc import ccfc


class UIFCA(LatentClusterer, method=uifca.UIFCAMethod):
    """Let samples choose among normalising flows that all clients train together (Chung, Lee, Ramchandran 2022).

    See `fedkin.methods.samples.uifca.UIFCAMethod` for all parameters. The most useful ones:

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    cluster_rounds : int
        How often samples choose.
    rounds : int
        Rounds of communication after each choice.
    local_steps : int
        Optimiser steps of a cluster at a client, in a round.
    learning_rate : float
        Of Adam.
    width : int
        Units of a flow's hidden layers.
    start : {"centroids", "random"}
        What samples choose by at first: centroids of all clients, or flows drawn at random.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that clients send.
    random_state : int, RandomState or None
        Same number, same result.
    device : str
        Where networks compute: "cpu", what torch calls a GPU, such as "cuda", or "auto", a GPU if there is one.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the cluster of every sample.
    n_clusters_ : int
        Number of clusters.
    result_ : dict
        The flows, ``models`` ``(n_clusters_, size)``, and what they take.
    history_ : list of dict
        One entry per round: samples in each cluster, how many samples moved, loss, bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> small = dict(cluster_rounds=2, rounds=1, local_steps=20, learning_rate=0.01, width=16)
    >>> model = fedkin.UIFCA(n_clusters=3, **small, random_state=0).fit(clients)
    >>> [len(set(labels)) for labels in model.labels_]
    [2, 2, 2]
    """


class DEC(LatentClusterer, method=dec.DECMethod):
    """Deep embedded clustering of all samples together or of every client's alone (Xie, Girshick, Farhadi 2016).

    A yardstick: by default **the data are moved** to one place. See `fedkin.methods.samples.dec.DECMethod` for
    all parameters. The most useful ones:

    Parameters
    ----------
    scope : {"all", "client"}
        Cluster samples of all clients together, or each client's alone. Then clusters of different clients have nothing to do
        with each other and different numbers, and `predict` has none for new samples.
    n_clusters : int
        Clusters of all samples, or of every client's.
    pretrain_steps : int
        Steps of the autoencoder that comes first.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others.
    random_state : int, RandomState or None
        Same number, same result.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the cluster of every sample.
    n_clusters_ : int
        Number of clusters; with ``scope="client"`` those of all clients together.
    result_ : dict
        ``encoder`` and ``centroids``, with ``scope="all"``.
    history_ : list of dict
        One entry, with the bytes sent and received.

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


class SDAFC(SampleClusterer, method=sda_fc.SDAFCMethod):
    """k-means or fuzzy c-means of synthetic samples from each client's generative network (SDA-FC; Yan et al. 2024).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** Where no copies of samples may leave a
    client, use another method.

    See `fedkin.methods.samples.sda_fc.SDAFCMethod` for all parameters. The most useful ones:

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    clustering : {"kmeans", "fuzzy"}
        How the server clusters the synthetic samples.
    epochs : int
        Of a client's networks. Clients with few samples need more.
    synthetic_samples : int or None
        That a client makes; by default as many as it has.
    capacity : float
        Units and channels of the networks, as a share of the paper's. Less is faster. At 0.25, networks of digits
        often failed to learn; larger ones have not been measured.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that clients send.
    random_state : int, RandomState or None
        Same number, same result.
    device : str
        Where networks compute: "cpu", what torch calls a GPU, such as "cuda", or "auto", a GPU if there is one.
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
        One entry per epoch, with the networks' losses, and one for the synthesis.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.SDAFC(n_clusters=3, epochs=10, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class PPFCGAN(LatentClusterer, method=ppfc_gan.PPFCGANMethod):
    """A deep clustering network of synthetic samples from each client's generative network (PPFC-GAN; Yan et al. 2022).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** Where no copies of samples may leave a
    client, use another method.

    See `fedkin.methods.samples.ppfc_gan.PPFCGANMethod` for all parameters, and `SDAFC` for attributes. The most
    useful ones:

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    pretrain_epochs, cluster_epochs : int
        Of the server's network: of reconstruction alone, and then with the clusters.
    epochs, synthetic_samples, capacity, scaling, random_state, device, verbose
        As of `SDAFC`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> options = {"epochs": 10, "pretrain_epochs": 10, "cluster_epochs": 10}
    >>> model = fedkin.PPFCGAN(n_clusters=3, random_state=0, **options).fit(clients)
    >>> model.n_clusters_
    3
    """


class CCFC(LatentClusterer, method=ccfc.CCFCMethod):
    """Train a contrastive network together, by views of a sample and then by clusters (CCFC; Liu, Yan, Zhang 2024).

    See `fedkin.methods.samples.ccfc.ccfc.CCFCMethod` for all parameters. The most useful ones:

    Parameters
    ----------
    n_clusters : int
        Clusters to find.
    pretrain_rounds, cluster_rounds : int
        Rounds of learning by views, and by clusters. More samples in batches and more rounds make better clusters.
    batch_size : int
        Clients with few samples need smaller batches, or more rounds.
    model_weight : float
        How much clients are held to the common network.
    latent : int
        Numbers in a representation.
    backbone : {"auto", "convolutions", "resnet18", "perceptron"}
        "auto" goes by the samples' shape.
    precision : {"float32", "bfloat16"}
        "bfloat16" is faster on some processors that have instructions for it.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that clients send.
    random_state : int, RandomState or None
        Same number, same result.
    device : str
        Where networks compute: "cpu", what torch calls a GPU, such as "cuda", or "auto", a GPU if there is one.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the cluster of every sample.
    n_clusters_ : int
        Number of clusters; with ``standalone=True`` those of all clients together.
    result_ : dict
        The network, its ``models``, and the ``centroids`` of what it makes of samples.
    history_ : list of dict
        One entry per round: phase, loss, bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> small = dict(pretrain_rounds=4, cluster_rounds=2, batch_size=32, latent=16, projector_units=32)
    >>> model = fedkin.CCFC(n_clusters=3, **small, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class SCFC(LatentClusterer, method=ccfc.SCFCMethod):
    """Train a network together by views of a sample alone, then cluster (section 4.4 of CCFC; Liu, Yan, Zhang 2024).

    Parameters and attributes are those of `CCFC`; `cluster_rounds` is 0.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> small = dict(pretrain_rounds=4, batch_size=32, latent=16, projector_units=32)
    >>> model = fedkin.SCFC(n_clusters=3, **small, random_state=0).fit([x[0::2], x[1::2]])
    >>> model.n_clusters_
    3
    """
