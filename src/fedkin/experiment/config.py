"""Configuration of an experiment: read from one TOML file, checked and completed with defaults.

Each section declares its options once, with type, default, range and meaning. ``[method]`` and ``[simulation]`` also
take the fields of the dataclass that their `name` and `scenario` stand for, so a new method needs no code here.
An option that is ``None`` is absent, since TOML has no word for it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from annotated_types import Gt, Interval
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from fedkin.core.client import SampleEncoder
from fedkin.core.errors import FedkinError, refuse, toml_text
from fedkin.core.files import read_tables
from fedkin.core.method import Method, allowed_for_sums, display_name, options_of, validation_sentence
from fedkin.data.names import files_of_clients
from fedkin.data.options import AUTO, COLUMN_KEYS, PREPARING, Name, TableOptions
from fedkin.experiment import registry

if TYPE_CHECKING:
    from fedkin.data.population import Population

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
"""How all sections are read: no other keys, and no number where a text is wanted."""


def encoder_named(spec: str | None, folder: str | None = None) -> SampleEncoder | None:
    """Return the encoder that a spec names, which keeps embeddings in `folder`; raise FedkinError if it is no spec."""
    if spec is None:
        return None
    from fedkin.features.encoders import Encoder
    from fedkin.features.extractors import PREFIXES, ROCKET

    if spec != ROCKET and not spec.startswith(PREFIXES):
        raise FedkinError(f"encode is '{spec}'; allowed: {ROCKET}, {', '.join(f'{prefix}...' for prefix in PREFIXES)}.")
    return Encoder(spec, folder)


def encoding_features(features: Any) -> str | None:
    """Return a method's `features` where they name an encoder of samples that are no numbers yet."""
    from fedkin.features.extractors import EMBEDDED, is_encoder

    return str(features) if is_encoder(features) and features != EMBEDDED else None


class MethodSection(BaseModel):
    """Section ``[method]``: the name of a method, and its options."""

    model_config = STRICT
    name: str = registry.DEFAULT_METHOD


class _Columns(BaseModel):
    """Options for the columns of tables, as an experiment's file and a site's own have them; see `TableOptions`.

    Attributes
    ----------
    encode : str or None
        What turns images, texts and series into numbers where they are read: "rocket" for series, "timm:NAME",
        "sentence-transformers:NAME", "hf:OWNER/NAME", "onnx:FILE" or "torch:FILE"; by default the method's `features`,
        if they are one.
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
    """

    model_config = STRICT
    clients: list[Name] = []
    keys: dict[Name, Name] = {}
    sites: PositiveInt | None = None
    timeout: Annotated[float, Gt(0)] = 3600.0
    patience: Annotated[float, Gt(0)] = 600.0
    min_clients: PositiveInt = 2
    secure_sums: bool = False
    forgotten: list[NonNegativeInt | Name] = []

    @property
    def listed(self) -> dict[str, str]:
        """Return the public key of every listed client by name, without comment; empty where none is listed."""
        return {name: " ".join(self.keys.get(name, "").split()[:2]) for name in self.clients or self.keys}

    def check(self) -> None:
        """Raise FedkinError if the lists do not agree with each other or `sites`, or a key is none or is shared."""
        if twice := [name for name in self.clients if self.clients.count(name) > 1]:
            raise FedkinError(f"'federation.clients' lists '{twice[0]}' twice.")
        if unknown := [name for name in self.keys if name not in self.listed]:
            raise FedkinError(
                f"'federation.keys' has a key of '{unknown[0]}', which 'federation.clients' does not list."
            )
        if self.keys:
            from fedkin.secure_aggregation.client_tasks import public_keys

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
    workers : int or "auto"
        Number of clients that compute in parallel; "auto" is one per core, on a GPU at most four; with small networks,
        which more make no faster, one.
    chunk : int or "auto"
        Number of clients whose models train as one stack; on the local engine only.
    """

    model_config = STRICT
    name: Name = "cpu"
    workers: PositiveInt | Literal["auto"] = "auto"
    chunk: PositiveInt | Literal["auto"] = "auto"


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
    map : {"tsne", "pca", "none"}
        How the report projects samples to the plane: by t-SNE, by principal components, or not at all.
    target : str or None
        A metric of the records that the run should reach, such as ``personal_accuracy``.
    reach : float or None
        Value at which the target is reached.
    stop : bool
        Whether the run ends when the target is reached.
    like : str or None
        Folder of a finished run on some of the same rows or columns, whose clusters keep their numbers and names where
        samples are clustered.
    """

    model_config = STRICT
    every: PositiveInt = 1
    map: Literal["tsne", "pca", "none"] = "tsne"
    target: str | None = None
    reach: FiniteFloat | None = None
    stop: bool = False
    like: Name | None = None


FROM_DATA = ("data", "label", "table")
"""Fields of a scenario that the section ``[data]`` gives, ``data`` as ``source``."""
SECTIONS: dict[str, type[BaseModel]] = {
    "method": MethodSection, "data": DataSection, "federation": FederationSection, "device": DeviceSection,
    "simulation": SimulationSection, "evaluation": EvaluationSection,
}  # fmt: skip
"""All sections, in the order in which they are written."""


@dataclass(frozen=True)
class Config:
    """Configuration of an experiment, checked, with all defaults filled in.

    `method` and `scenario` are instances of the dataclasses that ``method.name`` and ``simulation.scenario`` stand for,
    and `table` says how columns are read, with the encoder that ``data.encode`` or else the method's `features` name.
    `tables` is the whole configuration as plain values.
    """

    seed: int
    method: Method[Any]
    scenario: Any
    data: DataSection
    federation: FederationSection
    device: DeviceSection
    simulation: SimulationSection
    evaluation: EvaluationSection
    table: TableOptions
    tables: dict[str, Any]

    @property
    def method_name(self) -> str:
        return str(self.tables["method"]["name"])

    @property
    def data_seed(self) -> int:
        """The seed of the data partition, which is ``data.seed`` or the seed of the run."""
        return self.seed if self.data.seed is None else self.data.seed

    def population(self) -> Population:
        """Build the experiment's clients, some of which may be absent or forgotten.

        Raises FedkinError if the data are refused, or a client that is to be forgotten does not exist.
        """
        clients: Population = self.scenario.build(self.data_seed)
        return clients.forgetting(self.federation.forgotten).without(self.simulation.absent, self.data_seed)

    def to_toml(self) -> str:
        """Write the configuration as TOML text, from which the same can be read; what is ``None`` is left out."""
        return tomli_w.dumps(self.tables)


SETTINGS = "in the settings"
"""Where options were given that are in no file: on the command line or in Python."""


def load_config(experiment: str | Path, overrides: Sequence[str] = (), place: str | None = None) -> Config:
    """Read an experiment's configuration from a TOML file, or build the default one of a method.

    `experiment` is a path that ends in ``.toml``, or the name of a method. `overrides` are ``"section.key=value"``,
    applied in order; values are TOML, and bare words are strings. `place` is where they were given, for errors. Raises
    FedkinError if the file cannot be read, or a name, key, type or value is not allowed.
    """
    place = place or SETTINGS
    is_file = str(experiment).endswith(".toml")
    tables = read_tables(Path(experiment)) if is_file else {"method": {"name": str(experiment)}}
    inside = [f"{name}.{key}" for name, table in tables.items() if isinstance(table, dict) for key in table]
    places = dict.fromkeys([*tables, *inside], f"in {experiment}" if is_file else place)
    for override in overrides:
        places[apply_setting(tables, override)] = place
    return config_of(tables, places)


def apply_setting(tables: dict[str, Any], override: str) -> str:
    """Set one ``section.key=value`` in `tables`, unchecked, and return its path; raise FedkinError for other forms."""
    path, equals, text = override.partition("=")
    *parents, key = path.strip().split(".")
    if not equals or not key or not all(parents):
        raise FedkinError(f"A setting is section.key=value, such as method.local_epochs=30, not '{override}'.")
    try:  # bare words are texts, since a shell takes the quotation marks
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for parent in parents:
        tables = tables.setdefault(parent, {})
        if not isinstance(tables, dict):
            raise FedkinError(f"'{parent}' is not a section, so {override} cannot be applied.")
    tables[key] = value
    return path.strip()


def check_section(tables: Mapping[str, Any], section: str, place: str) -> None:
    """Raise FedkinError if the value under `section` is no table of settings, written at `place`, as "in a.toml"."""
    if section in SECTIONS and not isinstance(table := tables.get(section, {}), dict):
        raise FedkinError(f"'{section}' is {table!r} {place}; it should be a section, [{section}].")


def config_of(tables: dict[str, Any], places: Mapping[str, str] | None = None) -> Config:
    """Build a configuration from plain values, as `Config.tables` holds them; `places` say where keys were given."""
    places = places or {}
    for name in tables:
        check_section(tables, name, places.get(name, SETTINGS))
    method_name = str(tables.get("method", {}).get("name", registry.DEFAULT_METHOD))
    method: Any = registry.resolve("method", method_name)
    usual = _usual_scenario(tables, method)
    scenario_name = str(tables.get("simulation", {}).get("scenario", usual))
    scenario: Any = registry.resolve("scenario", scenario_name)
    model = _experiment(method, scenario, usual)
    try:
        # As JSON, for in its strict mode pydantic takes lists for tuples, but of Python's values only tuples.
        filled = {**tables, "method": _with_paper(method, tables.get("method", {}))}
        checked: Any = model.model_validate_json(json.dumps(filled, default=str))
    except ValidationError as error:
        raise _sentence(error, model, tables, places) from error
    _check(method, checked)
    table = checked.data.table
    if table.encoder is None:
        table = replace(table, encoder=encoder_named(encoding_features(getattr(checked.method, "features", None))))
    from_data = dict(zip(FROM_DATA, (checked.data.source, checked.data.labels, table), strict=True))
    return Config(
        seed=checked.seed,
        method=_built(method, checked.method),
        scenario=_built(scenario, checked.simulation, **from_data),
        **{name: getattr(checked, name) for name in SECTIONS if name != "method"},
        table=table,
        tables=checked.model_dump(mode="json", exclude_none=True),
    )


def checked_method(declared: Any, values: dict[str, Any]) -> Any:
    """Build a method, `declared`, from fields given in Python, with the checks of a configuration file.

    Those that only Python can give, such as functions, are not checked. Raises FedkinError if a value is not allowed.
    """
    model = model_of(declared)
    options = {name: value for name, value in values.items() if name in model.model_fields}
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in options.items()}
    if plain.get("variant") == "paper":  # an estimator gives all its options, and cannot tell which it was given
        defaults = {name: field.get_default() for name, field in model.model_fields.items()}
        plain = {name: value for name, value in plain.items() if value != defaults[name]}
    plain = _with_paper(declared, plain)
    try:
        checked = model.model_validate_json(json.dumps(plain, default=str))
    except ValidationError as error:
        raise _sentence(error, model, values, dict.fromkeys(values, f"in {display_name(declared)}"), depth=1) from error
    return _built(declared, checked, **{name: value for name, value in values.items() if name not in options})


@functools.cache
def model_of(declared: Any, section: type[BaseModel] = MethodSection, name: str = "") -> type[BaseModel]:
    """Build the model of a section from the dataclass of a method or scenario, whose fields are options there.

    `name` is a simulation's default scenario. Raises FedkinError if an option's name is taken, or no file has its type.
    """
    whose = f"'{declared.__module__}:{declared.__qualname__}' has an option"
    fields: dict[str, Any] = {}
    try:
        for option in options_of(declared):
            if section is SimulationSection and option.name in FROM_DATA:
                continue
            is_function = any(
                option.name in vars(base) and option.name not in _fields(base) for base in declared.__mro__
            )
            if is_function or option.name in {*section.model_fields, *FROM_DATA} or hasattr(BaseModel, option.name):
                raise FedkinError(f"{whose} called '{option.name}', a name that fedkin uses itself; call it otherwise.")
            default = ... if option.default is dataclasses.MISSING else option.default
            fields[option.name] = (option.kind, Field(default, validate_default=True))
        if section is SimulationSection:
            fields["scenario"] = (str, name)
        model = create_model(declared.__name__, __base__=section, **fields)
        model.model_rebuild()
        return model
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise FedkinError(f"{whose} of a type that a file cannot hold: {reason}.") from error


def flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path of each value in nested tables, such as ``"method.local_epochs"``, and the value."""
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


@functools.cache
def _experiment(method: Any, scenario: Any, usual: str) -> type[BaseModel]:
    """Build the model of an experiment; cached, as building it takes longer than all checks."""
    sections = SECTIONS | {"method": model_of(method), "simulation": model_of(scenario, SimulationSection, usual)}
    default = Field(default_factory=dict, validate_default=True)
    fields: dict[str, Any] = {name: (section, default) for name, section in sections.items()}
    return create_model("Experiment", __config__=STRICT, seed=(NonNegativeInt, 0), **fields)


def _usual_scenario(tables: Mapping[str, Any], method: type[Any]) -> str:
    """Return the scenario of an experiment that names none: files, if there is one per client, or the method's."""
    source = tables.get("data", {}).get("source")
    is_split = isinstance(source, str) and bool(files_of_clients(source))
    return "files" if is_split or "column" in tables.get("simulation", {}) else method.traits.scenario


def _fields(declared: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(declared)} if dataclasses.is_dataclass(declared) else set()


def _built(declared: type[Any], options: BaseModel, **more: Any) -> Any:
    """Build an instance of a dataclass from checked options and `more` fields, as far as it has them."""
    values = {**dict(options), **more}
    return declared(**{name: values[name] for name in values.keys() & _fields(declared)})


def _with_paper(method: type[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return a method's options, and with ``variant = "paper"`` also the paper's where they are not among these."""
    return {**method.traits.paper, **options} if options.get("variant") == "paper" else options


# What is wrong with an experiment, in one sentence.


def _sentence(
    error: ValidationError, model: type[BaseModel], tables: Mapping[str, Any], places: Mapping[str, str], depth: int = 2
) -> FedkinError:
    allowed = list(model.model_fields)
    for name, field in model.model_fields.items():
        if isinstance(section := field.annotation, type) and issubclass(section, BaseModel):
            allowed += [f"{name}.{key}" for key in section.model_fields]
    return validation_sentence(error, tables, allowed, SETTINGS, places, depth)


def _check(method: type[Any], checked: Any) -> None:
    """Check what several options say together; raise FedkinError if they do not fit the method or each other."""
    name, evaluation, federation = checked.method.name, checked.evaluation, checked.federation
    clusters = method.traits.clusters
    if evaluation.stop and None in (evaluation.target, evaluation.reach):
        raise FedkinError("'evaluation.stop' needs 'evaluation.target' and 'evaluation.reach', which say when to stop.")
    if checked.device.name not in ("cpu", "auto") and not method.traits.has_device:
        raise FedkinError(
            f"'device.name' is '{checked.device.name}', and method '{name}' computes on the processor only; leave it "
            "out."
        )
    if evaluation.like is not None and clusters != "samples":
        raise FedkinError(f"'evaluation.like' keeps the numbers of clusters of samples, and '{name}' forms none.")
    federation.check()
    if federation.secure_sums:
        _check_sums(method, checked)


def _check_sums(method: type[Any], checked: Any) -> None:
    """Check that ``federation.secure_sums`` is only set for methods which need nothing but sums over clients."""
    if method.traits.sums_suffice is None:
        raise FedkinError(
            f"'federation.secure_sums' is true, but method '{checked.method.name}' needs more than sums over clients."
        )
    options = {"data.scaling": (checked.data.scaling, ("standard", "none"))} | {
        f"method.{name}": (getattr(checked.method, name), allowed) for name, allowed in allowed_for_sums(method).items()
    }
    refuse(
        f"'{path}' is {toml_text(value)}, which takes more than sums over clients; with 'federation.secure_sums' it "
        f"should be {' or '.join(map(toml_text, allowed))}."
        for path, (value, allowed) in options.items()
        if value not in allowed
    )
