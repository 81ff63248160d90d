"""The sections of an experiment that are the same whatever the method and the scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt

from fedkin.core.errors import FedkinError
from fedkin.data.preparing.prepare import PreparingOptions
from fedkin.data.reading.table_options import TableOptions
from fedkin.secure.signatures import public_keys

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""How all sections are read: no other keys, and no number where a text is wanted."""

_Name = Annotated[str, Field(min_length=1)]


class DataSection(BaseModel):
    """Section ``[data]``: what is read, which column is the hidden label, and how values are prepared.

    Of tables, columns in `drop` are left out, `id` names rows, `categorical` columns hold names even where they look
    like numbers, and `ordinal` ones have levels, from the lowest; `decimal` is the decimal separator of numbers. For
    `scaling`, `lacking`, `indicator` and `min_members` see `fedkin.data.preparing.prepare.PreparingOptions`. `seed`
    decides how samples are partitioned and which clients are absent; by default it is the run's. Runs with the same
    `seed` have the same clients, whatever seed the run has.
    """

    model_config = STRICT
    source: str = "digits"
    label: str | None = None
    scaling: Literal["auto", "standard", "none"] = "auto"
    drop: list[_Name] = []
    id: _Name = "auto"
    categorical: list[_Name] = []
    ordinal: dict[_Name, list[_Name]] = {}
    decimal: Literal[".", ","] = "."
    lacking: Literal["drop", "impute"] = "drop"
    indicator: bool = False
    min_members: Annotated[int, Field(ge=5)] = 5
    seed: NonNegativeInt | None = None

    @property
    def table(self) -> TableOptions:
        """How the columns of tables are read."""
        return TableOptions(self.drop, self.id, self.categorical, self.ordinal, self.decimal)

    @property
    def preparing(self) -> PreparingOptions:
        """How the clients' data are prepared."""
        return PreparingOptions(self.scaling, self.id, self.lacking, self.indicator, self.min_members)


class EngineSection(BaseModel):
    """Section ``[engine]``: how clients are reached; see `fedkin.engines.local` and `fedkin.engines.flower.grid`.

    Networks compute on `device`: "cpu", what torch calls a GPU, such as "cuda", or "auto", a GPU if there is one; a
    real site's own file says which. A fraction `absent` of clients never takes part. On Flower, a client that has not
    replied after `timeout` seconds is missing; a real federation begins when `sites` of them are connected, for which
    it waits at most `patience` seconds. Where a step needs a reply of every client, a client without a usable one is
    left out of the run, as long as at least `min_clients` others have replied. Only the local engine uses `chunk`,
    `drop_rate` and `failures`. With `secure_sums`, the server learns sums over clients only, see `fedkin.secure.sums`.
    """

    model_config = STRICT
    name: Literal["local", "flower"] = "local"
    device: _Name = "cpu"
    workers: PositiveInt | Literal["auto"] = "auto"
    chunk: PositiveInt | Literal["auto"] = "auto"
    drop_rate: Annotated[float, Field(ge=0, lt=1)] = 0.0
    absent: Annotated[float, Field(ge=0, lt=1)] = 0.0
    failures: list[tuple[PositiveInt, NonNegativeInt]] = []
    secure_sums: bool = False
    timeout: Annotated[float, Field(gt=0)] = 3600.0
    patience: Annotated[float, Field(gt=0)] = 600.0
    sites: PositiveInt | None = None
    min_clients: PositiveInt = 2


class FederationSection(BaseModel):
    """Section ``[federation]``: the clients that a real federation takes; everybody else is refused.

    `clients` are their names; without any, whoever comes is taken, until `engine.sites` are there. `keys` are public
    keys by name, the lines of the clients' ``site.key.pub``: a client is taken only with its own. Without `clients`,
    those that have keys are the clients.
    """

    model_config = STRICT
    clients: list[_Name] = []
    keys: dict[_Name, _Name] = {}

    @property
    def listed(self) -> dict[str, str]:
        """Every client that is listed, with its key without the comment; empty where no key is listed."""
        return {name: " ".join(self.keys.get(name, "").split()[:2]) for name in self.clients or self.keys}

    def check(self, sites: int | None) -> None:
        """Refuse lists that contradict themselves or the number of sites.

        Raises
        ------
        FedkinError
            If a client is listed twice, a key is of nobody, of two, or no public key, or `sites` are more than listed.
        """
        if twice := [name for name in self.clients if self.clients.count(name) > 1]:
            raise FedkinError(f"'federation.clients' lists '{twice[0]}' twice.")
        if unknown := [name for name in self.keys if name not in self.listed]:
            raise FedkinError(
                f"'federation.keys' has a key of '{unknown[0]}', which 'federation.clients' does not list."
            )
        if self.keys:
            public_keys(self.keys, "'federation.keys'")
        if self.listed and sites is not None and sites > len(self.listed):
            raise FedkinError(f"'engine.sites' is {sites}, but [federation] lists {len(self.listed)} clients.")


class EvaluationSection(BaseModel):
    """Section ``[evaluation]``: models are tested after each `every` steps, clusters are scored after each step.

    `map` is how the report projects samples to the plane.
    """

    model_config = STRICT
    every: PositiveInt = 1
    map: Literal["tsne", "pca", "none"] = "tsne"


class TargetSection(BaseModel):
    """Section ``[target]``: a metric of the records, such as ``personal_accuracy``, that should be at least `reach`.

    With `stop`, the run ends when it is reached.
    """

    model_config = STRICT
    metric: str | None = None
    reach: FiniteFloat | None = None
    stop: bool = False


class TrackingSection(BaseModel):
    """Section ``[tracking]``: tools that records are sent `to`, see `fedkin.experiment.tracking`.

    `name` is the tracked run's, by default that of the run's folder. `project` is MLflow's experiment and W&B's
    project, `uri` MLflow's server or database, `folder` where TensorBoard and W&B write. With `artifacts`, the report
    and the result are uploaded too.
    """

    model_config = STRICT
    to: list[Literal["tensorboard", "mlflow", "wandb"]] = []
    name: _Name | None = None
    project: _Name | None = None
    uri: _Name | None = None
    folder: _Name | None = None
    artifacts: bool = True
