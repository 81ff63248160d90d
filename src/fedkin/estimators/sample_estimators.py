"""Estimators that cluster samples, one for each method; `fit` takes clients without labels."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.clustering.matching import table_of
from fedkin.clustering.node_votes import counted
from fedkin.core import Client, FedkinError, runner
from fedkin.core.client_array import ClientArray
from fedkin.core.errors import PYTHON, at_door, checked_keywords, listing
from fedkin.core.method import CanForget, Nodes
from fedkin.core.runner import Callback
from fedkin.core.seeds import derive_generator
from fedkin.data.cluster_words import words_of_clusters
from fedkin.data.inputs import load_clients, population_of
from fedkin.data.options import NO_LABELS, TableOptions
from fedkin.data.population import Population
from fedkin.data.profile import ClusterProfile, profile_clusters
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.estimators.clients import Inputs, fitted_position, map_clients
from fedkin.estimators.estimator import Estimator
from fedkin.estimators.training import FeaturesOrName, features_of
from fedkin.experiment.numbering import Earlier, compared
from fedkin.experiment.prediction import why
from fedkin.experiment.revision import kept_of
from fedkin.experiment.run_folder import sizes_of
from fedkin.features.extractors import EMBEDDED
from fedkin.methods.samples.kingraph.kingraph_space import nodes_of_samples
from fedkin.methods.samples.sample_method import SampleMethod
from fedkin.report.figures import PagePart
from fedkin.report.numbers import pluralize
from fedkin.report.sample_map import MAX_POINTS, map_of_samples, with_scales
from fedkin.report.words import described, remarks, sentences

_DATA = "The data"


class ByClient(list[Any]):
    """List with one item per client, also found by the clients' names; a number is a position."""

    def __init__(self, values: Iterable[Any] = (), names: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.names = list(names)

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(fitted_position(key, self.names) if isinstance(key, str) else key)

    def keys(self) -> list[str]:
        """Return the clients' names."""
        return list(self.names)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of name and item."""
        return zip(self.names, self, strict=True)


@at_door(PYTHON)
def read_clients(data: Any, y: Any, table: TableOptions) -> Inputs:
    """Read clients whose samples are clustered; labels are left out."""
    if isinstance(data, ClientArray):
        if y not in (None, NO_LABELS):
            raise FedkinError("Clients of one array have no labels; leave out y.")
        array = ClientArray(data.rows, data.offsets, data.min_members, data.names)  # another fit's have memories
        return Inputs(Population([], None, [], names=list(data.names)), NO_LABELS, array=array)
    label = y if y is None or isinstance(y, str) else NO_LABELS
    population = population_of(load_clients(data, label, table), label is not None)
    return Inputs(replace(population, guesses=()) if label is y == NO_LABELS else population, y if label is y else None)


class SampleClusterer(ClusterMixin, Estimator):  # type: ignore[misc]
    """Base class of estimators that cluster the samples of several clients.

    A parameter `features` may also be a trained module, of which every fit copies the present state, or a function:
    from float32 ``(n, *shape)``, scaled unless `scaling` is "none", to ``(n, width)``.

    Attributes
    ----------
    labels_ : list of int64 arrays
        Cluster of every sample, an array per client in the order of `client_names_`; -1 if the client is forgotten
        or in `missing_`. Also by the client's name, ``labels_["north"]``, and by all names, ``dict(labels_)``. A
        number is a position.
    memberships_ : list of float32 arrays
        Membership of each sample in each cluster, ``(n, result_["n_clusters"])`` per client, rows summing to 1; no
        rows for a client that is forgotten or missing. Only of methods with fuzzy clusters.
    n_clusters_ : int
        Number of clusters with samples, which may be less than was asked for. ``result_["n_clusters"]`` also counts
        clusters of the result that no sample is in. Where each client is clustered alone, the clusters of all clients
        together.
    result_ : dict
        Complete result of the method, such as ``centroids`` ``(k, width)`` and the ``features`` they are of.
    certificates_ : list of dict
        Certificate of each call of `forget`.
    changes_ : Changes
        What the last `update` has changed; printed, it is a text. Absent without one.

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

    _clusters = "samples"
    _types: ClassVar[Mapping[str, Any]] = {"features": FeaturesOrName}
    _profile: ClusterProfile | None
    labels_: ByClient
    _earlier: Earlier | None = None
    """What clusters were before, whose numbers the next ones keep."""
    _offsets: NDArray[np.int64] | None = None
    """Where the rows of each client begin, and the last's end, if clients were one array."""

    @checked_keywords
    def fit(self, X: Any, y: Any = None, *, callbacks: Sequence[Callback] = ()) -> Self:  # noqa: N803
        """Find the clusters.

        Parameters
        ----------
        X : sequence, dict, str or Path, or FederatedDataset
            The clients, in a list, in a dict by name, as a table divided by ``groupby``, as a folder with a file each,
            or as Flower's ``FederatedDataset`` or partitioner. Each is an array or tensor ``(n, features)``, ``(n,
            height, width)`` or ``(n, channels, height, width)``, all finite; a DataFrame or a file, whose columns are
            matched by name and may hold numbers, text, categories, booleans, dates and empty cells; a list or folder of
            images, texts or series, which `features` encode; a torch ``Dataset`` or ``DataLoader``, or a Hugging Face
            ``Dataset``; or any of these with labels, such as a pair ``(x, y)``. Very many clients are a
            `fedkin.client_array`.
        y : str, sequence or dict, optional
            The name of a column of labels, which is then no feature, or "none" if there is none; or one array of
            labels per client, in order or by name. Labels are left out. By default they are in the pairs, or in the
            first column called ``label``, ``labels``, ``class``, ``target`` or ``y`` that can hold some.
        """
        self._earlier = None
        return self._fit(read_clients(X, y, self._table_options()), callbacks)

    @checked_keywords
    def update(self, X: Any, y: Any = None, *, callbacks: Sequence[Callback] = ()) -> Self:  # noqa: N803
        """Fit anew, such as with next month's rows and clients beside those of before; clusters keep their numbers.

        They also keep their names: a cluster is the same if more than half of the rows of either are in both.
        `changes_` says what has changed. Parameters and errors are those of `fit`.
        """
        check_is_fitted(self, "result_")
        self._refuse_array(X, "updated", "fit on all rows instead")
        inputs = read_clients(X, y, self._table_options())
        self._earlier = self._as_earlier()
        return self._fit(inputs, callbacks)

    def _fit(self, inputs: Inputs, callbacks: Sequence[Callback]) -> Self:
        clients = inputs.population.clients
        n_clusters = getattr(self, "n_clusters", None)
        samples = sum(map(len, clients)) if inputs.array is None else len(inputs.array.rows)
        if isinstance(n_clusters, int | np.integer) and n_clusters > samples:
            raise FedkinError(f"n_clusters is {n_clusters}, but all clients together hold {samples} samples.")
        features = getattr(self, "features", "")
        if callable(features) and clients and clients[0].samples is not None:
            features = EMBEDDED  # as they have been, where samples were read
        registered = None if isinstance(features, str) else features_of(features)
        named = {"features": registered.name if registered else features} if "features" in self.get_params() else {}
        self._run(inputs, named, {}, callbacks)
        self._registered = (registered,)
        return self

    def _take(
        self, method: Any, fed: LocalFederation, state: Any, result: dict[str, Any], clients: Sequence[Client]
    ) -> None:
        super()._take(method, fed, state, result, clients)
        absent, n_clusters = self._absent, int(result["n_clusters"])
        array = fed.clients if isinstance(fed.clients, ClientArray) else None
        self._offsets = None if array is None else array.offsets.numpy()
        self._state, remembered = state, isinstance(method, CanForget)
        self._private = [dict(client.state) if remembered and client.id not in absent else {} for client in clients]
        margins = [client.state.get("confidence") for client in clients]
        self._confidence = self._by_client([None if each is None else each.numpy() for each in margins])
        labels = self._by_client(
            [
                np.full(len(client), -1) if client.id in absent else client.state["clusters"].numpy()
                for client in clients
            ]
        )
        memberships: list[Tensor] = []
        if self._method.soft:
            if array is not None and not {"memberships", "nearest_nodes"} & clients[0].state.keys():
                clients = [replace(clients[0], x=array.encode(array.rows))]
            nobody = torch.zeros(0, n_clusters)
            parts = [nobody if client.id in absent else method.client_memberships(result, client) for client in clients]
            memberships = self._by_client(parts) if all(part is not None for part in parts) else []
        encoding, private = self.preparation_.table, method.is_private()
        self._profile = None if encoding is None or private else profile_clusters(fed, encoding, n_clusters)
        self._words = words_of_clusters(fed, n_clusters) if self.preparation_.has_texts and not private else []
        self._number(labels, memberships, fed)
        taking_part = [client for client in clients if client.id not in absent and array is None]
        most = max(200, 8_000_000 // max(1, math.prod(self.preparation_.shape)))  # 32 MB, of images, too
        step = math.ceil(max(1, sum(map(len, taking_part))) / min(MAX_POINTS, most))
        self._mapped = [(each.id, rows := torch.arange(0, len(each), step), each.x[rows]) for each in taking_part]
        # Empty cells of new rows are imputed by the clusters' means.
        centres = None if self._profile is None or encoding is None else self._profile.centres(encoding)
        self.preparation_ = replace(self.preparation_, centres=centres)

    def _refuse_array(self, data: Any, what: str, instead: str) -> None:
        if self._offsets is not None or isinstance(data, ClientArray):
            raise FedkinError(f"A model of clients that are one array cannot be {what}; {instead}.")

    def _by_client(self, parts: list[Any]) -> list[Any]:
        """Return what belongs to rows by client; that of clients of one array is one part."""
        if self._offsets is None:
            return parts
        return [None if parts[0] is None else parts[0][start:end] for start, end in pairwise(self._offsets)]

    def _number(
        self, labels: Sequence[NDArray[np.int64]], memberships: Sequence[Tensor], fed: LocalFederation | None = None
    ) -> None:
        """Set the clusters and memberships of samples, with the numbers of `_earlier` clusters, if there are such.

        Without `fed`, whose clients are asked, they are the same samples in the same order.
        """
        for name in ("memberships_", "changes_"):
            self.__dict__.pop(name, None)
        earlier, self._earlier = self._earlier, None
        if earlier is not None:
            count = int(self.result_["n_clusters"])
            if fed is None:
                before = np.concatenate(self.labels_)
                table = table_of(before, np.concatenate(labels), (earlier.n_clusters, count))
            else:
                earlier.check(self._made(), self.preparation_.encoding)
                table = earlier.ask(fed, count)
            numbers = earlier.numbers(table)
            self.changes_ = compared(earlier, numbers, table)
            self.result_ = numbers.of_result(self.result_)
            labels = [numbers.of_state({"clusters": torch.from_numpy(each)})["clusters"].numpy() for each in labels]
            memberships = [numbers.placed(each, 1) for each in memberships]
            self._profile = None if self._profile is None else numbers.of_profile(self._profile)
            self._words = numbers.of_words(self._words)
            self.cluster_names_ = self.changes_.names
        self.labels_ = ByClient(labels, self.client_names_)
        self.n_clusters_ = len({*np.concatenate(labels).tolist()} - {-1})
        if memberships:
            self.memberships_ = ByClient([part.numpy() for part in memberships], self.client_names_)

    def _as_earlier(self) -> Earlier:
        """Return what the clusters of now are, for those that follow them."""
        sizes, encoding, names = sizes_of(self.labels_), self.preparation_.encoding, dict(self.cluster_names_)
        return Earlier("the fit before", self._method, self.result_, encoding, sizes, names)

    def __getstate__(self) -> dict[str, Any]:
        # A model that leaves this process takes no samples with it.
        return {name: value for name, value in super().__getstate__().items() if name != "_mapped"}

    @property
    def _absent(self) -> set[int]:
        """The clients without a part in the result: those forgotten, and those missing."""
        return {*self._forgotten, *map(self.client_names_.index, self.missing_)}

    # What is shown.

    def _counted(self) -> list[Client]:
        return [
            Client(i, torch.zeros(len(y), 0), state={"clusters": torch.as_tensor(y)})
            for i, y in enumerate(self.labels_ if len(self.labels_) <= 1_000 else [])  # a longer table is not read
            if i not in self._absent
        ]

    def _map(self) -> PagePart | None:
        if not getattr(self, "_mapped", None):
            return None
        clients, ids, names = [], [], self.client_names_
        for i, rows, x in self._mapped:
            state = {"clusters": torch.as_tensor(self.labels_[i])[rows]}
            margins = self._confidence[i]
            if margins is not None and len(margins) == len(self.labels_[i]):
                state["confidence"] = torch.as_tensor(margins)[rows]
            clients.append(Client(i, x, state=state))
            ids += rows.tolist()
        population, total = Population(clients, None, [], names=names), sum(map(len, self.labels_))
        drawn = map_of_samples(self._method, self.result_, clients, population, "tsne", total)
        assert drawn is not None  # there are samples
        spoken = [] if self._profile is None else sentences(self._profile, names)
        view = replace(with_scales(drawn, self._nodes(), spoken), ids=list(map(str, ids)), id_name="sample")
        return PagePart("map", "Map of the samples", figures=[view])

    def _nodes(self) -> Nodes | None:
        return None

    def _members(self) -> pd.DataFrame:
        sizes, labels = list(map(len, self.labels_)), np.concatenate(self.labels_)
        samples = np.arange(len(labels)) - np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        clients = np.repeat(np.array(self.client_names_, dtype=object), sizes)
        frame = pd.DataFrame({"client": clients, "sample": samples, "cluster": labels})
        # Margins stay as they were when rows were left out since.
        here = [part is not None and len(part) == size for part, size in zip(self._confidence, sizes, strict=True)]
        if any(here):
            parts = zip(self._confidence, sizes, here, strict=True)
            margins = np.concatenate([part if has else np.full(size, np.nan) for part, size, has in parts])
            frame["confidence"] = np.where(labels < 0, np.nan, margins.astype(np.float64))
        return frame

    @property
    def cluster_centers_(self) -> NDArray[np.float64]:
        """Centroids in the units of the data, float64 ``(k, *shape)``, where the method finds centroids of raw samples.

        Of tables, columns are those of ``preparation_.columns``. Otherwise an `AttributeError` names what there is.
        """
        check_is_fitted(self, "result_")
        preparation, centroids = self.preparation_, self.result_.get("centroids")
        encoding, shape = preparation.encoding, preparation.shape
        is_raw = self.result_.get("features") == "raw" and not preparation.encoder and not preparation.has_texts
        if centroids is None or not is_raw or any(column.kind == "category" for column in encoding.schema.columns):
            raise AttributeError(
                f"This {type(self).__name__} has no centroids in the units of the data; describe() has means of "
                "clusters of tables, to_frame() has the cluster of each sample."
            )
        values = centroids.double().reshape(len(centroids), *shape)
        if encoding.is_scaled:
            by_column = (1, -1, *(1 for _ in shape[1:]))
            values = values * encoding.scale.reshape(by_column) + encoding.mean.reshape(by_column)
        return np.asarray(values)

    # New samples.

    @checked_keywords
    def predict(self, X: Any) -> Any:  # noqa: N803
        """Predict the clusters of new samples: int64 ``(n,)`` for one array, such arrays for several clients.

        Clients in a list have a list of arrays, those in a dict a dict with the same keys. `predict_proba`,
        `confidence` and `transform` take and return clients alike, and raise the same.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or differ in shape from those of `fit` or lack their columns; or, of other
            functions than `predict`, if the method or its clusters have none of what they return.
        """
        return self._map_clients(X, partial(runner.predicted_clusters, self._method), "The data to predict")

    @available_if(lambda self: self._method.soft)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the membership of samples in each cluster; only for methods with fuzzy clusters.

        float32 ``(n, result_["n_clusters"])`` for one array of samples; rows sum to 1. They are fuzzy c-means'
        memberships, DEC's soft assignments, or in `KinGraph` the shares of the nearest nodes' votes, and not
        probabilities of being right; those of the samples of `fit` are in `memberships_`.
        """
        return self._map_clients(X, partial(runner.predicted_memberships, self._method), _DATA)

    def confidence(self, X: Any) -> Any:  # noqa: N803
        """Return the confidence with which samples belong to their predicted clusters.

        float32 ``(n,)`` in [0, 1] for one array of samples: 0 halfway between two clusters, 1 without doubt. It is not
        a probability, and not comparable between methods.
        """
        return self._map_clients(X, self._method.confidence, _DATA)

    @available_if(lambda self: self._method.embed is not SampleMethod.embed)  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Any:  # noqa: N803
        """Transform samples to the representation in which clusters are found, float32 ``(n, width)``.

        `KinGraph` can use it as features: ``KinGraph(features=model.transform)``.
        """
        return self._map_clients(X, self._method.embed, "The data to transform")

    def _map_clients(self, data: Any, function: Callable[[Any, Tensor], Tensor | None], subject: str) -> Any:
        """Apply `function` to the result and one client's samples, or those of each of several clients."""
        check_is_fitted(self, "result_")

        def values_of(x: Any, name: str) -> NDArray[Any]:
            samples = self._prepared(x, name)
            with self._on_device():
                values = function(self.result_, samples)
            if values is None:
                raise FedkinError(f"The clusters of this {type(self).__name__} have no memberships and no confidence.")
            return values.numpy()

        if isinstance(data, ClientArray):
            batches = data.rows.split(1 << 18)
            return np.split(np.concatenate([values_of(part, subject) for part in batches]), data.offsets[1:-1].tolist())
        return map_clients(data, values_of, subject)

    # What clusters are.

    def describe(self) -> pd.DataFrame:
        """Describe the clusters of tables in original units.

        Returns
        -------
        DataFrame
            One row per cluster: its ``name``, if any has one; ``samples``, as far as clients report them;
            ``sentence``, what distinguishes it; and the columns of the tables, those that distinguish clusters most
            first: the mean of numbers, ordinals as positions from 0 and booleans as shares of the second value; the
            mean date; the most frequent category. ``attrs["effects"]`` says by column how far it distinguishes
            clusters, in [0, 1]; ``attrs["remarks"]`` what else a reader should know, such as cells with fewer than five
            values at one client, which are left out. Of texts: ``samples`` and ``words``, the most telling first, each
            in five texts or more of two clients.

        Raises
        ------
        FedkinError
            If the clients had no tables or texts, the method is private, so that they were not asked, or the clusters
            are those of a cut.
        """
        check_is_fitted(self, "result_")
        profile, words = self._profile, [", ".join(each) for each in getattr(self, "_words", [])]
        if profile is None and not any(words):
            raise FedkinError(
                "The clusters cannot be described: clients need tables with named columns, such as DataFrames, and a "
                "method that promises no differential privacy. Those of a cut are not described, since that asks the "
                "clients; fit again with its n_clusters or resolution and the same random_state."
            )
        if profile is None:
            sizes = np.bincount(np.concatenate(self.labels_).clip(-1) + 1, minlength=len(words) + 1)[1:]
            return pd.DataFrame({"samples": sizes, "words": words}).rename_axis("cluster")
        columns = described(profile)
        leading: dict[str, Any] = {"samples": profile.samples.numpy()}
        leading["sentence"] = sentences(profile, self.client_names_, columns, self.cluster_names_)
        if self.cluster_names_:
            names = [self.cluster_names_.get(i, "") for i in range(len(profile.samples))]
            leading = {"name": names, **leading}
        leading |= {"words": words} if any(words) else {}
        parts = [pd.DataFrame(leading), pd.DataFrame({column.name: column.values for column in columns})]
        frame = pd.concat(parts, axis=1).rename_axis("cluster")  # columns of clients may be called as the leading ones
        frame.attrs["effects"] = {column.name: column.effect for column in columns}
        frame.attrs["remarks"] = remarks(profile, self.client_names_, columns)
        return frame

    def why(self, X: Any) -> pd.DataFrame:  # noqa: N803
        """Return the columns that put rows into their clusters rather than into the next best ones.

        Distances from the means of both clusters, squared, differ by a sum over columns, where the method compares
        samples; the columns with the largest parts are the reasons. Of pictures and texts they are
        features. `X` are rows of one client, in any form that `predict` takes.

        Returns
        -------
        DataFrame
            Up to three rows for each of `X`, the strongest reason first: ``row``, its position; ``cluster``; ``next``,
            the next best, -1 if there is none; ``column``; ``value``, the row's own; ``here`` and ``there``, what is
            usual in both clusters, in original units, empty for what is no table; and ``share``, in (0, 1], of what
            speaks for the cluster. FedkinError is raised if the method's clusters have no means in columns.
        """
        check_is_fitted(self, "result_")
        with self._on_device(), at_door(PYTHON):
            data, subject = self._read_again(X, _DATA)
            x = self.preparation_.prepared(data.x, data.table, subject)
            return why(self._method, self.result_, self.preparation_, data, x, self._profile)

    @available_if(lambda self: issubclass(self._method, CanForget))  # type: ignore[untyped-decorator]
    def forget(self, client: int | str, X: Any, y: Any = None, *, rows: ArrayLike | None = None) -> dict[str, Any]:  # noqa: N803
        """Leave a client out of what the others have sent; its samples get the label -1.

        Only of methods that store each client's contribution separately; with others, fit again without the client.
        Positions of clients stay.

        Parameters
        ----------
        client : int or str
            By position (a number) or name (a text).
        X, y : as in `fit`
            The same clients with the same samples, since an estimator keeps none.
        rows : array-like of int, optional
            Rows of the samples to forget, for `MUFC`; by default the whole client.

        Returns
        -------
        dict
            The certificate, also appended to `certificates_`: the ``client``, and what of it the model
            ``still_holds``. It covers no copies of the model, no predictions made before, and not the client's data.
            FedkinError is raised if what a client sent cannot be separated from what others did.
        """
        check_is_fitted(self, "result_")
        position = fitted_position(client, self.client_names_)
        name, method = self.client_names_[position], self._made()
        if position in self._forgotten:
            raise FedkinError(f"Client '{name}' is forgotten already.")
        if len(self._forgotten) + 1 == len(self.client_names_):
            raise FedkinError(f"There is no client but '{name}'; nothing would be left.")
        self._refuse_array(X, "made to forget", "fit without the client instead")
        population = read_clients(X, y, self._table_options()).population
        sizes = [(name, len(each)) for name, each in self.labels_.items()]
        if list(zip(population.names, map(len, population.clients), strict=False)) != sizes:
            expected = listing([f"{name} with {pluralize(size, 'row')}" for name, size in sizes], 5)
            raise FedkinError(f"The clients are not those of fit: {expected}.")
        clients = [
            Client(each.id, self.preparation_.of(each), state=dict(private), table=each.table, samples=each.samples)
            for each, private in zip(population.clients, self._private, strict=True)
        ]
        fed = LocalFederation(clients, self._run_seed, names=self.client_names_, device=self._device)
        # More exchanges than any request to forget makes are free for each, so that no client draws numbers twice.
        fed.exchange = 1000 * (len(self.certificates_) + 1)
        fed.leave(self._absent)
        certificate: dict[str, Any] = {"client": name, "still_holds": kept_of(method, self.preparation_)}
        with self._on_device(), one_thread():
            if rows is None:
                if (state := method.without(self._state, {position})) is None:
                    raise FedkinError(f"What '{name}' sent cannot be separated from what others did; fit without it.")
                fed.leave([position])
                state, record = runner.do_step(method, fed, state)  # the last step again, with the clients that remain
                self._forgotten = self._forgotten | {position}
                records = [each for each in self.records_ if each.get("phase") != "refinement"]
                self.records_ = [*records[:-1], {**records[-1], **record.values}]
            else:
                numbers, count = torch.as_tensor(rows), len(clients[position])
                are_rows = numbers.ndim == 1 and numbers.dtype in (torch.int32, torch.int64) and len(numbers) > 0
                if not hasattr(method, "unlearned"):
                    raise FedkinError(f"{type(self).__name__} cannot forget single samples; forget the client.")
                if not are_rows or int(numbers.min()) < 0 or int(numbers.max()) >= count:
                    raise FedkinError(f"rows should be one or more numbers of rows, from 0 to {count - 1}.")
                state, report = method.unlearned(fed, self._state, {position: numbers.long().unique()})
                certificate |= report
            self._earlier = self._as_earlier()
            self._take(method, fed, state, method.result(state), clients)
        self.certificates_.append(certificate)
        return certificate


class KFed(SampleClusterer, method="kfed"):
    """Cluster every client's samples, then the clients' centres, in one round (k-FED; Dennis, Li, Smith 2021)."""


class FedDPKMeans(SampleClusterer, method="feddp-kmeans"):
    """Differentially private k-means, initialised by the server's samples (FedDP-KMeans; Scott, Lampert, Saulpic 2025).

    `server_data` may also be the samples themselves, in any form that a client's have, which are prepared as these are.
    """


class AFCL(SampleClusterer, method="afcl"):
    """Cluster samples by seeds that merge until their number is that of the clusters (AFCL; Zhang et al. 2025)."""


class FFCM(SampleClusterer, method="ffcm"):
    """Federated fuzzy c-means: local updates of common centres, round after round (FFCM; Stallmann and Wilbik 2022)."""


class UIFCA(SampleClusterer, method="uifca"):
    """Cluster samples by normalising flows, each the model of one cluster (UIFCA; Chung, Lee, Ramchandran 2022)."""


class SDAFC(SampleClusterer, method="sda-fc"):
    """Cluster synthetic samples of each client's generative network by k-means or FCM (SDA-FC; Yan et al. 2024).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.
    """


class PPFCGAN(SampleClusterer, method="ppfc-gan"):
    """Cluster synthetic samples of each client's generative network by a deep network (PPFC-GAN; Yan et al. 2022).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.
    """


class CCFC(SampleClusterer, method="ccfc"):
    """Cluster by a contrastive network, trained on views and then on clusters (CCFC; Liu, Yan, Zhang 2024)."""


class SCFC(SampleClusterer, method="scfc"):
    """Cluster by a contrastive network trained on views alone (SCFC, section 4.4 of CCFC; Liu, Yan, Zhang 2024).

    `CCFC` whose `cluster_rounds` is 0.
    """


class KMeans(SampleClusterer, method="kmeans"):
    """k-means of all clients' samples together: a centralised baseline, for which **the data are moved**."""


class FuzzyCMeans(SampleClusterer, method="fuzzy-cmeans"):
    """Fuzzy c-means of all clients' samples together: a centralised baseline, for which **the data are moved**."""


class DEC(SampleClusterer, method="dec"):
    """Deep embedded clustering of all samples together (DEC; Xie, Girshick, Farhadi 2016).

    A centralised baseline: **the data are moved** to one place.
    """


class KinGraph(SampleClusterer, method="kin-graph"):
    """Find clusters across clients, and their number, by community detection in a graph of micro-clusters (kin-graph).

    No parameter needs to be set. Each client sends sums of its samples' features, how neighbours differ, and means and
    sizes of many micro-clusters. `fit` warns if there are too few of these to find clusters.

    Attributes
    ----------
    scales_ : list of dict
        Coarser and finer clusters of the same graph, those with fewest clusters first: ``n_clusters``, ``stability``,
        ``samples`` of each cluster, ``parents`` among the clusters of the entry before, and whether these are
        ``chosen``. ``pandas.DataFrame(model.scales_)`` is a table of them.
    """

    def cut(self, n_clusters: int | None = None, *, resolution: float | None = None) -> KinGraph:
        """Cut the graph again, coarser or finer, without contacting the clients.

        Give either the number of clusters, from 1 to that of micro-clusters, or their resolution, above 0.

        Returns
        -------
        KinGraph
            A fitted copy with these parameters, whose labels are those of a fit with the same `random_state`, and no
            `refine`. It has no `memberships_`, and cannot `describe` its clusters, which clients do in `fit`.
        """
        check_is_fitted(self, "result_")
        if (n_clusters is None) == (resolution is None):
            raise FedkinError("Give either n_clusters or resolution.")
        options: dict[str, Any] = {"n_clusters": "auto", "resolution": "auto", "refine": False}
        options |= {"n_clusters": n_clusters} if resolution is None else {"resolution": resolution}
        method = self._made(**options)
        cut = copy.copy(self)
        cut.__dict__.update(vars(self))  # the mapped samples, too
        cut.set_params(**options)
        with cut._on_device():
            rng = derive_generator(cut._run_seed, "server", "communities")  # as the server's when it cut the graph
            cut._earlier = cut._as_earlier()
            state, values = method.clusters_of(method.before_cut(cut._state), rng)
            cut.result_, cut._cut = {**method.result(state), "space": cut.result_["space"]}, state
            cut.scales_ = cut.result_["scales"]
            records = [record for record in cut.records_ if record["phase"] != "refinement"]  # a cut has no head
            before = {name: value for name, value in records[-1].items() if name not in ("note", "warning")}
            cut.records_ = [*records[:-1], {**before, **values}]
            labels, private = list(cut.labels_), cut._private
            if cut._offsets is not None:
                parts = {name: cut._by_client([part]) for name, part in private[0].items()}
                private = [dict(zip(parts, each, strict=True)) for each in zip(*parts.values(), strict=True)]
            for i in set(range(len(labels))) - cut._absent:
                client = Client(i, torch.zeros(len(labels[i]), 0), state=private[i])
                labels[i] = counted(nodes_of_samples(client, cut._state.own), cut.result_).numpy()
            cut._profile, cut._confidence = None, [None for _ in cut.labels_]
            cut._number(labels, [])
        return cut

    def _nodes(self) -> Nodes | None:
        nodes: Nodes = self._made().nodes(self._cut)
        return nodes._replace(clusters=self.result_["clusters"])  # whose numbers follow those of an earlier fit

    def _take(
        self, method: Any, fed: LocalFederation, state: Any, result: dict[str, Any], clients: Sequence[Client]
    ) -> None:
        super()._take(method, fed, state, result, clients)
        self.scales_, self._cut = result["scales"], state


class FedCRef(SampleClusterer, method="fedcref"):
    """Find clusters across clients, and their number, by matching local clusters (FedCRef; Nardi, Valerio, Passarella).

    `predict` assigns a sample to the cluster whose model reconstructs it best. Samples of `fit` may get another cluster
    than in `labels_`, for which a client chooses among fewer models.
    """


class MUFC(SampleClusterer, method="mufc"):
    """Cluster samples in one round, so that some of them can be forgotten exactly (MUFC; Pan et al. 2023).

    `forget` removes samples, or a client: the clusters then have the distribution of those of a fit without them.

    Attributes
    ----------
    certificates_ : list of dict
        Certificate of each call of `forget`. With ``rows``, by client the number of forgotten rows, and how many of its
        centroids were ``kept`` and ``drawn`` again; the number of the ``request``, and of remaining ``samples``.
    """
