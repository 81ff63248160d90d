"""Estimators that cluster samples, one for each method; the last ones are centralised baselines."""

from __future__ import annotations

from typing import Any, Self

from fedkin.core.keywords import checked_keywords
from fedkin.core.method import OwnData
from fedkin.core.progress import Followers
from fedkin.data.inputs.client_input import client_input
from fedkin.data.preparing.preparation import Preparation
from fedkin.estimators.estimator import prepared_samples
from fedkin.estimators.sample_clusterer import LatentClusterer, SampleClusterer
from fedkin.methods.samples import centralized, dec, ffcm, kfed, ppfc_gan, sda_fc, uifca
from fedkin.methods.samples.afcl import afcl
from fedkin.methods.samples.ccfc import ccfc
from fedkin.methods.samples.feddp_kmeans import feddp_kmeans


class KFed(SampleClusterer, method=kfed.KFedMethod):
    """Cluster every client's samples, then the clients' centres, in one round (k-FED; Dennis, Li, Smith 2021).

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


class FedDPKMeans(SampleClusterer, method=feddp_kmeans.FedDPKMeansMethod):
    """Differentially private k-means, initialised by the server's samples (FedDP-KMeans; Scott, Lampert, Saulpic 2025).

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs(6300, centers=[[0.2, 0.2], [0.8, 0.2], [0.5, 0.8]], cluster_std=0.05, random_state=0)
    >>> model = fedkin.FedDPKMeans(n_clusters=3, epsilon=4.0, random_state=0)
    >>> model = model.fit([x[300:3300], x[3300:]], y=[y[300:3300], y[3300:]], server_data=x[:300])
    >>> round(model.score([(x[300:3300], y[300:3300])]), 1)
    1.0
    """

    @checked_keywords
    def fit(
        self, X: Any, y: Any = None, *, server_data: Any = None, eval: Any = None,  # noqa: N803
        callbacks: Followers = (),
    ) -> Self:  # fmt: skip
        """Find the clusters, initialised by samples of the server, if any.

        Parameters
        ----------
        X, y, eval, callbacks
            As for all estimators that cluster samples.
        server_data : array-like or DataFrame, optional
            Samples that the server has, as a client's in `X`, in place of the parameter `server_data`; they are
            prepared as the clients' are, and labels in them are ignored.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data, the server's or a parameter cannot be used.
        """
        clients, names = self._clients(X, y)
        options = self._hyper_parameters()
        self._given = server_data
        if server_data is not None:
            options["server_data"] = "server_data of fit"
        try:
            return self._fitted(clients, names, options, eval, callbacks)
        finally:
            del self._given

    def _own_data(self, preparation: Preparation) -> OwnData:
        if self._given is None:
            return super()._own_data(preparation)
        given = client_input(self._given, "server_data")
        return lambda _: prepared_samples(preparation, given, "server_data", self._read.label)


class AFCL(SampleClusterer, method=afcl.AFCLMethod):
    """Cluster samples by seeds that merge until their number is that of the clusters (AFCL; Zhang et al. 2025).

    Attributes
    ----------
    records_ : list of dict
        One entry per round: clusters so far, distance that seeds moved, bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.AFCL(seeds=3, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class FFCM(SampleClusterer, method=ffcm.FFCMMethod):
    """Federated fuzzy c-means: local updates of common centres, round after round (FFCM; Stallmann and Wilbik 2022).

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


class UIFCA(LatentClusterer, method=uifca.UIFCAMethod):
    """Cluster samples by normalising flows, each the model of one cluster (UIFCA; Chung, Lee, Ramchandran 2022).

    Attributes
    ----------
    result_ : dict
        The flows, ``models`` ``(n_clusters_, size)``, and what they take.
    records_ : list of dict
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


class SDAFC(SampleClusterer, method=sda_fc.SDAFCMethod):
    """Cluster synthetic samples of each client's generative network by k-means or FCM (SDA-FC; Yan et al. 2024).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.

    Attributes
    ----------
    records_ : list of dict
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
    """Cluster synthetic samples of each client's generative network by a deep network (PPFC-GAN; Yan et al. 2022).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.

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
    """Cluster by a contrastive network, trained on views of a sample and then on clusters (CCFC; Liu, Yan, Zhang 2024).

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters; with ``standalone=True`` those of all clients together.
    result_ : dict
        The network, its ``models``, and the ``centroids`` of the samples' latents.
    records_ : list of dict
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
    """Cluster by a contrastive network trained on views alone (SCFC, section 4.4 of CCFC; Liu, Yan, Zhang 2024).

    The attributes are those of `CCFC`; `cluster_rounds` is 0.

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
    """Deep embedded clustering of all samples together, or of each client's alone (DEC; Xie, Girshick, Farhadi 2016).

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
