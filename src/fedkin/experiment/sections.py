"""Sections of the configuration: their options, each declared once with its type, default, range and meaning."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Interval, MinLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, FiniteFloat, NonNegativeInt, PositiveInt
from pydantic_core import PydanticCustomError

from fedkin.core.errors import FedkinError, require
from fedkin.core.samples import SampleEncoder
from fedkin.data.options import AUTO, COLUMN_KEYS, NA_VALUES, TableOptions, are_na_values

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""How all sections are read: no other keys, and no number where a text is wanted."""

_Name = Annotated[str, MinLen(1)]


def _as_list(value: Any) -> Any:
    """Return a list of a single name or number; a text such as ``[a]`` is a list without quotation marks, refused."""
    is_single = isinstance(value, str | int | float) and not isinstance(value, bool)
    return [value] if is_single and not str(value).startswith("[") else value


def _checked_na_values(value: Any) -> Any:
    """Check values that stand for empty cells, for which pydantic has a sentence for each type they may have."""
    if isinstance(value, str) and value.startswith("["):  # a list whose quotation marks the shell took
        raise PydanticCustomError("list_type", "Input should be a valid list")
    if not are_na_values(value):
        raise PydanticCustomError("na_values", NA_VALUES)
    return value


Names = Annotated[list[_Name], BeforeValidator(_as_list)]
"""Names in a list, or a single one."""
_Values = Annotated[list[_Name | int | float], BeforeValidator(_as_list)]
NaValues = Annotated[dict[_Name, _Values] | _Values, BeforeValidator(_checked_na_values)]
"""Values that stand for empty cells, as `TableOptions.na_values` takes them."""


def encoder_named(spec: str | None, folder: str | None = None) -> SampleEncoder | None:
    """Return the encoder that a spec names, which keeps embeddings in `folder`; ``None`` if it is none.

    Raises FedkinError if it is no spec.
    """
    if spec is None:
        return None
    from fedkin.features.encoders import PREFIXES, ROCKET, Encoder

    if spec != ROCKET and not spec.startswith(PREFIXES):
        raise FedkinError(f"encode is '{spec}'; allowed: {ROCKET}, {', '.join(f'{one}...' for one in PREFIXES)}.")
    return Encoder(spec, folder)


class ColumnOptions(BaseModel):
    """Options for the columns of tables, as an experiment's file and a site's own have them; see `TableOptions`.

    Attributes
    ----------
    drop : list of str
        Columns of tables that are left out.
    id : str
        The column that names rows; "auto" recognises it, "none" says that there is none.
    categorical : list of str
        Columns that hold names, even where they look like numbers.
    ordinal : dict of str to list of str
        Columns of levels, from the lowest.
    decimal : {"auto", ".", ","}
        What stands before decimals of numbers in text that can be read in two ways, as 1.234; "auto" refuses these.
    encoding : str
        Encoding of CSV files that are not UTF-8, as Python names it, such as "cp1252".
    header : bool
        Whether the first line of files names the columns; without, they are called 1, 2 and so on.
    sheet : list of str
        The sheet of workbooks such as ``.xlsx`` that hold several; of more than one name the first that a workbook has.
    na_values : list of str or number, or dict of str to such a list
        Values that stand for empty cells, such as "unknown" or -9: in all columns, or by column.
    encode : str or None
        What turns images, texts and series into numbers where they are read: "rocket" for series, "timm:NAME",
        "sentence-transformers:NAME", "onnx:FILE" or "torch:FILE"; by default the method's `features`, if they are one.
    dayfirst : bool or None
        Whether the day is before the month in dates such as 03/04/2024, where no date of the column shows it.
    """

    model_config = STRICT
    drop: Names = []
    id: _Name = "auto"
    categorical: Names = []
    ordinal: dict[_Name, list[_Name]] = {}
    decimal: Literal["auto", ".", ","] = "auto"
    encoding: _Name = "utf-8"
    header: bool = True
    sheet: Names = []
    na_values: NaValues = []
    dayfirst: bool | None = None
    encode: _Name | None = None

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


class _Source(BaseModel):
    """What data there are.

    Attributes
    ----------
    source : str
        A data set's name or path.
    label : str
        The column or array of labels; "auto" takes one of a usual name, "none" says that there are no labels.
    scaling : {"auto", "standard", "none"}
        How numbers are scaled: "standard" standardises each column; "auto" gives columns of the same unit one
        scale, and limits values far from all others.
    """

    source: str = "digits"
    label: str = "auto"
    scaling: Literal["auto", "standard", "none"] = "auto"


class DataSection(ColumnOptions, _Source):
    """Section ``[data]``: the data set, its label column, and how values are prepared.

    Attributes
    ----------
    lacking : {"drop", "impute"}
        What happens to columns that are absent or empty at a client.
    imputation : {"neighbours", "median"}
        What empty cells take: the mean of similar rows of the same client, or the median or most frequent value.
    indicator : bool
        Whether empty cells get a column of their own.
    min_members : int
        Minimum number of one client's samples in a category for the category's name to leave the client.
    seed : int or None
        Seed of the partition of samples and of the choice of absent clients; by default the run's. Runs with the
        same one have the same clients.
    """

    lacking: Literal["drop", "impute"] = "drop"
    imputation: Literal["neighbours", "median"] = "neighbours"
    indicator: bool = False
    min_members: Annotated[int, Ge(5)] = 5
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
    clients: list[_Name] = []
    keys: dict[_Name, _Name] = {}
    sites: PositiveInt | None = None
    newcomers: NonNegativeInt = 0
    quorum: Annotated[float, Interval(gt=0, le=1)] = 1.0
    late: Literal["refuse", "count"] = "refuse"
    timeout: Annotated[float, Gt(0)] = 3600.0
    patience: Annotated[float, Gt(0)] = 600.0
    min_clients: PositiveInt = 2
    secure_sums: bool = False
    forgotten: list[NonNegativeInt | _Name] = []
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
    name: _Name = "cpu"
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
    name: _Name | None = None
    project: _Name | None = None
    uri: _Name | None = None
    folder: _Name | None = None
    artifacts: bool = True

    def check_installed(self) -> None:
        """Raise FedkinError if one of the tools is not installed."""
        for name in self.to:
            require(f"Tracking to '{name}'", name, "tracking")
