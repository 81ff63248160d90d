"""Configuration of an experiment: read from one TOML file, checked and completed with defaults.

``[method]`` and ``[simulation]`` take the fields of the dataclass that their `name` and `scenario` stand for, so a new
method needs no code here. ``"none"`` stands for Python's ``None``, which TOML lacks, wherever a field allows it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

import tomli_w
from pydantic import BaseModel, Field, NonNegativeInt, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from fedkin.core.errors import FedkinError, current_door, flag, listing, nearest, refuse
from fedkin.core.files import read_tables
from fedkin.core.method import Method, allowed_for_sums, display_name
from fedkin.core.options import options_of, validation_sentence
from fedkin.data.names import expanded, files_of_clients, folders_of_samples
from fedkin.experiment import registry
from fedkin.experiment.sections import (
    STRICT,
    DataSection,
    DeviceSection,
    EvaluationSection,
    FederationSection,
    SimulationSection,
    TrackingSection,
    encoder_named,
)

if TYPE_CHECKING:
    from fedkin.data.options import TableOptions
    from fedkin.data.population import Population

FROM_DATA = ("data", "label", "table")
"""Fields of a scenario that the section ``[data]`` gives, ``data`` as ``source``."""


class MethodSection(BaseModel):
    """Section ``[method]``: the name of a method, and its options."""

    model_config = STRICT
    name: str = registry.DEFAULT_METHOD


SECTIONS: dict[str, type[BaseModel]] = {
    "method": MethodSection, "data": DataSection, "federation": FederationSection, "device": DeviceSection,
    "simulation": SimulationSection, "evaluation": EvaluationSection, "tracking": TrackingSection,
}  # fmt: skip
"""All sections, in the order in which they are written; method and simulation have options of what they name, too."""
_FORMER = {"engine": "[device], [federation] and [simulation]", "scenario": "[simulation]", "target": "[evaluation]"}
"""Sections of earlier versions, and where their options are."""
_Named = Mapping[str, tuple[registry.Kind, str]]
"""What a section's name stands for: a method or a scenario, and its name there."""


@dataclass(frozen=True)
class Config:
    """Configuration of an experiment, checked, with all defaults filled in.

    Attributes
    ----------
    seed : int
        Seed of the run, 0 or more.
    method, scenario
        Instances of the dataclasses that ``method.name`` and ``simulation.scenario`` stand for.
    data, federation, device, simulation, evaluation, tracking
        Their sections.
    tables : dict
        The whole configuration as plain values, defaults included.
    defaults : dict
        The defaults of every section, as plain values.
    """

    seed: int
    method: Method[Any]
    scenario: Any
    data: DataSection
    federation: FederationSection
    device: DeviceSection
    simulation: SimulationSection
    evaluation: EvaluationSection
    tracking: TrackingSection
    tables: dict[str, Any]
    defaults: dict[str, dict[str, Any]]

    @property
    def method_name(self) -> str:
        return str(self.tables["method"]["name"])

    @property
    def data_seed(self) -> int:
        """The seed of the data partition, which is ``data.seed`` or the seed of the run."""
        return self.seed if self.data.seed is None else self.data.seed

    def population(self) -> Population:
        """Build the experiment's clients, some of which may be absent or forgotten.

        Raises
        ------
        FedkinError
            If the data are refused, or a client that is to be forgotten does not exist.
        """
        clients: Population = self.scenario.build(self.data_seed)
        folders = [] if self.simulation.scenario == "files" else folders_of_samples(self.data.source)
        if folders:
            note = (
                f"Folders {listing([repr(name) for name in folders], 5)} of '{self.data.source}' are read as classes, "
                "and their samples are dealt out over clients; if each is a client, give --scenario files."
            )
            clients = replace(clients, notes=(*clients.notes, note))
        return clients.forgetting(self.federation.forgotten).without(self.simulation.absent, self.data_seed)

    def to_toml(self) -> str:
        """Write the configuration as TOML text, from which the same configuration can be read.

        In every section what differs from the defaults comes first. An option that is ``None`` by default and here is
        left out.
        """
        return "\n".join([f"seed = {self.seed}\n", *map(self._section, SECTIONS)])

    def _section(self, name: str) -> str:
        values, defaults = self.tables[name], self.defaults[name]
        differing = {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}
        usual = {key: value for key, value in values.items() if key not in differing and value not in ("none", {})}
        tables = {
            key: part.pop(key) for part in (differing, usual) for key, value in [*part.items()] if _is_table(value)
        }
        text = f"[{name}]\n{tomli_w.dumps(differing)}"
        if usual:
            text += f"# as by default\n{tomli_w.dumps(usual)}"
        return text + (f"\n{tomli_w.dumps({name: tables})}" if tables else "")


def _fields(declared: type[Any]) -> set[str]:
    """Return the names of a dataclass's fields; of any other class none."""
    return {field.name for field in dataclasses.fields(declared)} if dataclasses.is_dataclass(declared) else set()


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and bool(value)


def load_config(experiment: str | Path, overrides: Sequence[str] = (), place: str | None = None) -> Config:
    """Read an experiment's configuration from a TOML file, or build the default one of a method.

    Parameters
    ----------
    experiment : str or Path
        A path that ends in ``.toml``, or the name of a method.
    overrides : sequence of str
        ``"section.key=value"``, applied in order; values are TOML, and bare words are strings.
    place : str, optional
        Where they were given, for errors: "in" and what; by default as the `Door` says.

    Raises
    ------
    FedkinError
        If the file cannot be read, or a name, key, type or value is not allowed.
    """
    place = place or current_door().place
    is_file = str(experiment).endswith(".toml")
    tables = read_tables(Path(experiment)) if is_file else {"method": {"name": str(experiment)}}
    inside = [f"{name}.{key}" for name, table in tables.items() if isinstance(table, dict) for key in table]
    places = dict.fromkeys([*tables, *inside], f"in {experiment}" if is_file else place)
    for override in overrides:
        places[apply_setting(tables, override)] = place
    return config_of(tables, places)


def encoding_features(features: Any) -> str | None:
    """Return a method's `features` where they name an encoder of samples that are no numbers yet."""
    from fedkin.features.encoders import EMBEDDED, is_encoder

    return str(features) if is_encoder(features) and features != EMBEDDED else None


def apply_setting(tables: dict[str, Any], override: str) -> str:
    """Set one ``section.key=value`` in `tables`, unchecked, and return its path.

    Raises FedkinError if `override` has another form, or a part of the path is not a section.
    """
    path, equals, text = override.partition("=")
    *parents, key = path.strip().split(".")
    if not equals or not key or not all(parents):
        raise FedkinError(f"{flag('set')} takes section.key=value, such as method.local_epochs=30, not '{override}'.")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if "\\" in text and '"' in text:
            raise FedkinError(
                f"{flag('set')} {override} cannot be read, for TOML takes a backslash in double quotes for the "
                "beginning of another character; put the text in single quotes, or double the backslash."
            ) from error
        value = text
    table = tables
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise FedkinError(f"'{parent}' is not a section, so {flag('set')} {override} cannot be applied.")
    table[key] = value
    return path.strip()


def check_section(tables: Mapping[str, Any], section: str, place: str) -> None:
    """Raise FedkinError if the value under `section` is no table of settings, written at `place`, as "in a.toml"."""
    if section in tables and section in _FORMER:
        raise FedkinError(f"'{section}' {place} is of an earlier version; its options are in {_FORMER[section]} now.")
    if section in (*SECTIONS, *_FORMER) and not isinstance(table := tables.get(section, {}), dict):
        raise FedkinError(f"'{section}' is {table!r} {place}; it should be a section, [{section}].")


def config_of(tables: dict[str, Any], places: Mapping[str, str] | None = None) -> Config:
    """Build a configuration from plain values, as `Config.tables` holds them; `places` say where keys were given."""
    places = places or {}
    for name in tables:
        check_section(tables, name, places.get(name, current_door().place))
    method_name = str(tables.get("method", {}).get("name", registry.DEFAULT_METHOD))
    method: Any = registry.declared("method", method_name)
    usual = _usual_scenario(tables, method)
    scenario_name = str(tables.get("simulation", {}).get("scenario", usual))
    scenario: Any = registry.declared("scenario", scenario_name)
    model = _experiment(method, scenario, usual)
    try:
        checked: Any = model.model_validate_json(json.dumps(_with_none(tables, model), default=str))
    except ValidationError as error:
        names: _Named = {"method": ("method", method_name), "simulation": ("scenario", scenario_name)}
        raise _owned_elsewhere(error, model, names, places) or _sentence(error, model, tables, places) from error
    _check(method, checked)
    declared = registry.resolve("scenario", scenario_name)
    fields = _fields(declared)
    table = checked.data.table
    if table.encoder is None:
        table = replace(table, encoder=encoder_named(encoding_features(getattr(checked.method, "features", None))))
    from_data = dict(zip(FROM_DATA, (checked.data.source, checked.data.labels, table), strict=True))
    return Config(
        seed=checked.seed,
        method=_built(registry.resolve("method", method_name), checked.method),
        scenario=_built(
            declared, checked.simulation, **{name: from_data[name] for name in FROM_DATA if name in fields}
        ),
        **{name: getattr(checked, name) for name in SECTIONS if name != "method"},
        tables=_plain(checked.model_dump(mode="json")),
        defaults={name: _defaults(getattr(checked, name)) for name in SECTIONS},
    )


def checked_method(declared: Any, values: dict[str, Any]) -> Any:
    """Build a method from hyper-parameters given in Python, with the checks of a configuration file.

    `values` are the fields of the dataclass `declared` by name; those that only Python can give, such as functions, are
    not checked. Raises FedkinError if a value's type or range is not allowed.
    """
    model = model_of(declared)
    options = {name: value for name, value in values.items() if name in model.model_fields}
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in options.items()}
    try:
        checked = model.model_validate_json(json.dumps(plain, default=str))
    except ValidationError as error:
        raise _sentence(error, model, values, dict.fromkeys(values, f"in {display_name(declared)}"), depth=1) from error
    return _built(declared, checked, **{name: value for name, value in values.items() if name not in plain})


def preparing_for(method: Method[Any], options: TableOptions) -> TableOptions:
    """Return the options by which a method's samples are prepared: for an encoder they are not scaled by default."""
    if method.encodes_samples() and options.scaling == "auto":
        options = replace(options, scaling="none")
    return options.of(private=method.guards_samples())


@functools.cache
def model_of(declared: Any, section: type[BaseModel] = MethodSection, name: str = "") -> type[BaseModel]:
    """Build the model of a section from the dataclass of a method or scenario, whose fields are options there.

    `name` is the default of a simulation's scenario. Raises FedkinError if an option is called as one of the section's
    own, or has a type that no file can hold.
    """
    fields: dict[str, Any] = {"scenario": (str, name)} if section is SimulationSection else {}
    whose = f"'{declared.__module__}:{declared.__qualname__}' has an option"
    from_data = FROM_DATA if section is SimulationSection else ()
    for option in options_of(declared):
        if option.name in from_data:
            continue
        is_taken = any(option.name in vars(base) and option.name not in _fields(base) for base in declared.__mro__[1:])
        if (
            is_taken
            or option.name in section.model_fields
            or option.name in FROM_DATA
            or hasattr(BaseModel, option.name)
        ):
            raise FedkinError(f"{whose} called '{option.name}', a name that fedkin uses itself; call it otherwise.")
        default = ... if option.default is dataclasses.MISSING else option.default
        fields[option.name] = (option.kind, Field(default, validate_default=True))
    try:
        return create_model(declared.__name__, __base__=section, **fields)
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
    fields: dict[str, Any] = {
        name: (section, Field(default_factory=dict, validate_default=True)) for name, section in sections.items()
    }
    return create_model("Experiment", __config__=STRICT, seed=(NonNegativeInt, 0), **fields)


def _usual_scenario(tables: Mapping[str, Any], method: type[Any]) -> str:
    """Return the scenario of an experiment that names none: files, if there is one per client, or the method's."""
    source = tables.get("data", {}).get("source")
    is_split = isinstance(source, str) and expanded(source).is_dir() and bool(files_of_clients(source))
    return "files" if is_split or "column" in tables.get("simulation", {}) else method.traits.scenario


def _built(declared: type[Any], options: BaseModel, **more: Any) -> Any:
    """Build an instance of a dataclass from checked options and `more` fields."""
    fields = _fields(declared)
    return declared(**{name: value for name, value in options if name in fields}, **more)


def _with_none(tables: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Replace "none" by ``None`` in `tables` where the field allows it."""
    read = dict(tables)
    for name, field in model.model_fields.items():
        kind, value = field.annotation, read.get(name)
        if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, BaseModel):
            read[name] = _with_none(value, kind)
        elif value == "none" and NoneType in get_args(kind):
            read[name] = None
    return read


def _plain(value: Any) -> Any:
    """Replace ``None`` by "none" in `value`, as TOML has no ``None``."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return "none" if value is None else value


def _defaults(section: BaseModel) -> dict[str, Any]:
    """Return the defaults of a section's options that have one; names are written whatever the default is."""
    defaults = _plain(type(section).model_construct().model_dump(mode="json", warnings=False))
    names = {MethodSection: "name", SimulationSection: "scenario"}.items()
    return {
        key: value for key, value in defaults.items() if not any(isinstance(section, k) and key == n for k, n in names)
    }


# What is wrong with an experiment, in one sentence.


def _sentence(
    error: ValidationError, model: type[BaseModel], tables: Mapping[str, Any], places: Mapping[str, str], depth: int = 2
) -> FedkinError:
    allowed = list(model.model_fields)
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            allowed += [f"{name}.{key}" for key in section.model_fields]
    example = f", as in {flag('set')} {{path}}=value"
    return validation_sentence(error, tables, allowed, current_door().place, places, depth, example)


def _owned_elsewhere(
    error: ValidationError,
    model: type[BaseModel],
    names: _Named,
    places: Mapping[str, str],
) -> FedkinError | None:
    """Return the error for an option that other methods or scenarios have, and not the one that was named.

    Misspelt names of its own options are none of these. `names` has kind and name by section.
    """
    unknown = [problem["loc"] for problem in error.errors(include_url=False) if problem["type"] == "extra_forbidden"]
    for section, key in [loc for loc in unknown if len(loc) == 2 and loc[0] in names]:
        kind, name = names[str(section)]
        section_model: Any = model.model_fields[str(section)].annotation
        if nearest(str(key), section_model.model_fields):
            continue
        if owners := [f"'{holder}'" for holder in islice(registry.holders(kind, str(key)), 5)]:
            place = places.get(f"{section}.{key}", places.get(str(section), ""))
            return FedkinError(
                f"'{section}.{key}'{f' {place}' if place else ''} is no option of {kind} '{name}', but of "
                f"{', '.join(owners[:4])}{' and others' if owners[4:] else ''}; `fedkin list {name}` shows its own."
            )
    return None


def _check(method: type[Any], checked: Any) -> None:
    """Check what several options say together; raise FedkinError if they do not fit the method or each other."""
    name, evaluation, federation = checked.method.name, checked.evaluation, checked.federation
    if evaluation.stop and None in (evaluation.target, evaluation.reach):
        raise FedkinError("'evaluation.stop' needs 'evaluation.target' and 'evaluation.reach', which say when to stop.")
    if checked.tracking.uri is not None and "mlflow" not in checked.tracking.to:
        raise FedkinError("'tracking.uri' is where MLflow tracks runs, and 'tracking.to' does not name 'mlflow'.")
    if checked.device.name not in ("cpu", "auto") and not method.traits.has_device:
        raise FedkinError(
            f"'device.name' is '{checked.device.name}', and method '{name}' computes on the processor only; leave it "
            "out."
        )
    federation.check()
    if federation.secure_sums:
        _check_sums(method, checked)
    for key, is_used in (("newcomers", federation.newcomers > 0), ("quorum", federation.quorum < 1)):
        if not is_used:
            continue
        if checked.data.source != "federation":
            raise FedkinError(f"'federation.{key}' is for a real federation, which `fedkin federation init` prepares.")
        if method.traits.clusters != "clients":
            raise FedkinError(
                f"'federation.{key}' is for methods that cluster clients; '{name}' needs all clients from the start."
            )
        if federation.secure_sums:
            raise FedkinError(f"'federation.{key}' does not go with 'federation.secure_sums', whose masks all share.")


def _check_sums(method: type[Any], checked: Any) -> None:
    """Check that ``federation.secure_sums`` is only set for methods which need nothing but sums over clients."""
    if method.traits.sums_suffice is None:
        raise FedkinError(
            f"'federation.secure_sums' is true, but method '{checked.method.name}' needs more than sums over clients; "
            f"these do not: {', '.join(registry.methods_of_sums())}."
        )
    options = {"data.scaling": (checked.data.scaling, ("standard", "none"))} | {
        f"method.{name}": (getattr(checked.method, name), allowed) for name, allowed in allowed_for_sums(method).items()
    }
    refuse(
        f"'{path}' is {registry.as_setting(value)}, which takes more than sums over clients; with "
        f"'federation.secure_sums' it should be {' or '.join(map(registry.as_setting, allowed))}."
        for path, (value, allowed) in options.items()
        if value not in allowed
    )
