"""Sections of the configuration: their options, each declared once with its type, default, range and meaning."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Gt, Interval
from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt, PositiveInt, create_model

from fedkin.core.errors import FedkinError, require
from fedkin.core.options import options_of
from fedkin.core.table import SampleEncoder
from fedkin.data.options import AUTO, COLUMN_KEYS, PREPARING, Name, TableOptions

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""How all sections are read: no other keys, and no number where a text is wanted."""


def encoder_named(spec: str | None, folder: str | None = None) -> SampleEncoder | None:
    """Return the encoder that a spec names, which keeps embeddings in `folder`; ``None`` if it is none.

    Raises FedkinError if it is no spec.
    """
    if spec is None:
        return None
    from fedkin.features.encoders import PREFIXES, ROCKET, Encoder

    if spec != ROCKET and not spec.startswith(PREFIXES):
        raise FedkinError(f"encode is '{spec}'; allowed: {ROCKET}, {', '.join(f'{prefix}...' for prefix in PREFIXES)}.")
    return Encoder(spec, folder)


class _Columns(BaseModel):
    """Options for the columns of tables, as an experiment's file and a site's own have them; see `TableOptions`.

    Attributes
    ----------
    encode : str or None
        What turns images, texts and series into numbers where they are read: "rocket" for series, "timm:NAME",
        "sentence-transformers:NAME", "onnx:FILE" or "torch:FILE"; by default the method's `features`, if they are one.
    """

    model_config = STRICT
    encode: Name | None = None

    if TYPE_CHECKING:  # what a type checker cannot see: `create_model` adds fields

        def __getattr__(self, name: str) -> Any: ...

    @property
    def of_columns(self) -> dict[str, Any]:
        """Options of columns that differ from their defaults; in a real federation each site's own file has them."""
        fields = type(self).model_fields
        return {key: value for key in COLUMN_KEYS if (value := getattr(self, key)) != fields[key].default}

    @property
    def table(self) -> TableOptions:
        """Options for the columns of tables: how they are read, and in an experiment how they are prepared."""
        names = TableOptions.__dataclass_fields__.keys() & type(self).model_fields.keys()
        return TableOptions(**{name: getattr(self, name) for name in names}, encoder=encoder_named(self.encode))


def _declared(*names: str) -> dict[str, Any]:
    """Return the types and defaults of options as `TableOptions` declares them, as fields of a pydantic model."""
    options = {option.name: option for option in options_of(TableOptions)}
    return {name: (options[name].kind, options[name].default) for name in names}


ColumnOptions = create_model(
    "ColumnOptions", __base__=_Columns, __doc__=TableOptions.__doc__, **_declared(*COLUMN_KEYS[1:])
)
_Prepared = create_model("_Prepared", __base__=ColumnOptions, **_declared(*PREPARING))


class DataSection(_Prepared):
    """Section ``[data]``: the data set, its label column, and how values are prepared.

    Attributes
    ----------
    source : str
        A data set's name or path.
    label : str
        The column or array of labels; "auto" takes one of a usual name, "none" says that there are no labels.
    seed : int or None
        Seed of the partition of samples and of the choice of absent clients; by default the run's. Runs with the
        same one have the same clients.
    """

    source: str = "digits"
    label: str = "auto"
    seed: NonNegativeInt | None = None

    @property
    def labels(self) -> str | None:
        """The column of labels as `fedkin.data.sources.load` takes it."""
        return None if self.label == AUTO else self.label


class FederationSection(BaseModel):
    """Section ``[federation]``: who takes part, and what becomes of those that do not reply.

    Attributes
    ----------
    clients : list of str
        Names of the clients that a real federation admits; by default those with keys. Without names and keys, the
        first `sites` clients that connect are admitted.
    keys : dict of str to str
        Public keys by name, the lines of the clients' ``site.key.pub``: a client is admitted only with its own key.
    sites : int or None
        Sites that a real federation begins with.
    newcomers : int
        Sites that may join a real federation while its run is under way.
    quorum : float
        Fraction of the sites asked whose replies close a round of a real federation, in (0, 1]; or `timeout` does.
    late : {"refuse", "count"}
        Whether a reply that comes after its round was closed is refused, or counts in the next round.
    timeout : float
        On Flower, seconds after which a client that has not replied counts as missing.
    patience : float
        Seconds that a real federation waits for its sites to connect.
    min_clients : int
        Minimum number of replies with which a step that needs all clients continues; clients without a usable
        reply are then left out of the run.
    secure_sums : bool
        Whether the server learns sums over clients only.
    forgotten : list of int or str
        Clients that never take part, by position or name: those that `fedkin forget` has left out. Unlike those of
        absent clients, their data are not used at all.
    keep_checkpoints : int
        Interval, in steps, of the checkpoints that are kept, from which a client that joined later can be forgotten
        without starting anew; 0 keeps the last one only.
    """

    model_config = STRICT
    clients: list[Name] = []
    keys: dict[Name, Name] = {}
    sites: PositiveInt | None = None
    newcomers: NonNegativeInt = 0
    quorum: Annotated[float, Interval(gt=0, le=1)] = 1.0
    late: Literal["refuse", "count"] = "refuse"
    timeout: Annotated[float, Gt(0)] = 3600.0
    patience: Annotated[float, Gt(0)] = 600.0
    min_clients: PositiveInt = 2
    secure_sums: bool = False
    forgotten: list[NonNegativeInt | Name] = []
    keep_checkpoints: NonNegativeInt = 0

    @property
    def listed(self) -> dict[str, str]:
        """Return the public key of every listed client by name, without comment; empty where none is listed."""
        return {name: " ".join(self.keys.get(name, "").split()[:2]) for name in self.clients or self.keys}

    def check(self) -> None:
        """Check that the lists agree with each other and with the number of sites.

        Raises
        ------
        FedkinError
            If a client is listed twice, a key belongs to no client or to two or is not a public key, or `sites` exceeds
            the number listed.
        """
        if twice := [name for name in self.clients if self.clients.count(name) > 1]:
            raise FedkinError(f"'federation.clients' lists '{twice[0]}' twice.")
        if unknown := [name for name in self.keys if name not in self.listed]:
            raise FedkinError(
                f"'federation.keys' has a key of '{unknown[0]}', which 'federation.clients' does not list."
            )
        if self.keys:
            from fedkin.secure_aggregation.signatures import public_keys

            public_keys(self.keys, "'federation.keys'")
        if self.listed and self.sites is not None and self.sites > len(self.listed):
            raise FedkinError(f"'federation.sites' is {self.sites}, but [federation] lists {len(self.listed)} clients.")


class DeviceSection(BaseModel):
    """Section ``[device]``: what computes; a real site's own file sets its device.

    Attributes
    ----------
    name : str
        Where networks and kin-graph's large searches compute: "cpu", what torch calls a GPU, such as "cuda", or "auto",
        a GPU if there is one.
    tf32 : bool
        Whether an NVIDIA GPU may round the factors of products and convolutions to 10 bits: several times as fast where
        they take most of the time, and models differ from the third digit on. On the local engine only.
    cuda_graphs : bool
        Whether an NVIDIA GPU may record training steps as CUDA graphs and replay them: the same results in less time,
        and more memory. On the local engine only.
    workers : int or "auto"
        Number of clients that compute in parallel; "auto" is one per core, on a GPU at most four.
    chunk : int or "auto"
        Number of clients whose models train as one stack; on the local engine only.
    """

    model_config = STRICT
    name: Name = "cpu"
    tf32: bool = False
    cuda_graphs: bool = True
    workers: PositiveInt | Literal["auto"] = "auto"
    chunk: PositiveInt | Literal["auto"] = "auto"

    def used(self) -> AbstractContextManager[None]:
        """Have networks compute on the device, as the options say; raise FedkinError if there is no such device."""
        from fedkin.core.device import Execution, device_named, on

        device = device_named(self.name, "'device.name'")
        return on(device, self.tf32, Execution(self.cuda_graphs))


class SimulationSection(BaseModel):
    """Section ``[simulation]``: the scenario, which deals data to clients, its options, and what goes wrong.

    Attributes
    ----------
    scenario : str
        How clients get data, see `fedkin list scenarios`; by default the method's, and "files" for a folder of files.
    engine : {"local", "flower"}
        Whether clients run in this process, or as nodes of Flower.
    absent : float
        Fraction of the clients that never takes part.
    drop_rate : float
        Probability that a client does not reply; on the local engine only.
    failures : list of (int, int)
        Pairs of an exchange, counted from 1, and a client that does not reply in it; on the local engine only.
    """

    model_config = STRICT
    scenario: str = ""
    engine: Literal["local", "flower"] = "local"
    absent: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    drop_rate: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    failures: list[tuple[PositiveInt, NonNegativeInt]] = []


class EvaluationSection(BaseModel):
    """Section ``[evaluation]``: how results are compared with the truth and shown, and when a run may end.

    Attributes
    ----------
    every : int
        Interval, in steps, at which models are tested; clusters are scored after each step.
    common_test : bool
        Whether the model of each cluster of clients is tested on the common test, too, and not only on the tests of its
        clients; that is one pass over the common test per cluster.
    map : {"tsne", "pca", "none"}
        How the report projects samples to the plane: by t-SNE, by principal components, or not at all.
    target : str or None
        A metric of the records that the run should reach, such as ``personal_accuracy``.
    reach : float or None
        Value at which the target is reached.
    stop : bool
        Whether the run ends when the target is reached.
    """

    model_config = STRICT
    every: PositiveInt = 1
    common_test: bool = True
    map: Literal["tsne", "pca", "none"] = "tsne"
    target: str | None = None
    reach: FiniteFloat | None = None
    stop: bool = False


class TrackingSection(BaseModel):
    """Section ``[tracking]``: the tracking tools that receive the records; see `fedkin.experiment.tracking`.

    Attributes
    ----------
    to : list of {"tensorboard", "mlflow", "wandb"}
        The tools.
    name : str or None
        Name of the tracked run; by default that of the run's folder.
    project : str or None
        MLflow's experiment, and W&B's project.
    uri : str or None
        MLflow's server or database.
    folder : str or None
        Where TensorBoard and W&B write; by default the run's folder.
    artifacts : bool
        Whether the report and the result are uploaded too.
    """

    model_config = STRICT
    to: list[Literal["tensorboard", "mlflow", "wandb"]] = []
    name: Name | None = None
    project: Name | None = None
    uri: Name | None = None
    folder: Name | None = None
    artifacts: bool = True

    def check_installed(self) -> None:
        """Raise FedkinError if one of the tools is not installed."""
        for name in self.to:
            require(f"Tracking to '{name}'", name, "tracking")
