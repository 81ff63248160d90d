"""Configuration of an experiment: read from one TOML file, checked and completed with defaults.

``[method]`` and ``[scenario]`` take the fields of the dataclass that their `name` stands for, so a new method needs no
code here. ``"none"`` stands for Python's ``None``, which TOML lacks, wherever a field allows it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w
from pydantic import BaseModel, Field, NonNegativeInt, ValidationError, create_model

from fedkin.core.doors import current_door, flag
from fedkin.core.errors import FedkinError, listing, refuse
from fedkin.core.files import read_tables
from fedkin.core.method import Method, allowed_for_sums, display_name
from fedkin.data.names import expanded
from fedkin.experiment import registry
from fedkin.experiment.option_models import (
    FROM_DATA,
    built,
    check_owners,
    model_of,
    plain_tables,
    sentence_of,
    with_none,
)
from fedkin.experiment.sections import (
    STRICT,
    DataSection,
    EngineSection,
    EvaluationSection,
    FederationSection,
    TargetSection,
    TrackingSection,
)

if TYPE_CHECKING:
    from fedkin.data.encoding import PreparingOptions
    from fedkin.data.population import Population

_SECTIONS: dict[str, Any] = {
    "engine": EngineSection, "federation": FederationSection, "evaluation": EvaluationSection,
    "target": TargetSection, "tracking": TrackingSection,
}  # fmt: skip
"""Sections that follow those of data, scenario and method."""
_NAMES = {("method", "name"), ("scenario", "name")}
"""Options that a written configuration names first, whatever the default is."""


@dataclass(frozen=True)
class Config:
    """Configuration of an experiment, checked, with all defaults filled in.

    Attributes
    ----------
    seed : int
        Seed of the run, 0 or more.
    data, engine, federation, evaluation, target, tracking
        Their sections.
    scenario, method
        Instances of the dataclasses that ``scenario.name`` and ``method.name`` stand for.
    tables : dict
        The whole configuration as plain values, defaults included.
    defaults : dict
        The defaults of every section, as plain values.
    """

    seed: int
    data: DataSection
    scenario: Any
    method: Method[Any]
    engine: EngineSection
    federation: FederationSection
    evaluation: EvaluationSection
    target: TargetSection
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
        from fedkin.data.names import folders_of_images
        from fedkin.data.scenarios.already_split import ClientFiles

        everybody: Population = self.scenario.build(self.data_seed)
        folders = [] if isinstance(self.scenario, ClientFiles) else folders_of_images(self.data.source)
        if folders:
            note = (
                f"Folders {listing([repr(name) for name in folders], 5)} of '{self.data.source}' are read as classes, "
                "and their images are dealt out over clients; if each is a client, give --scenario files."
            )
            everybody = replace(everybody, notes=(*everybody.notes, note))
        return everybody.forgetting(self.engine.forgotten).without(self.engine.absent, self.data_seed)

    def to_toml(self) -> str:
        """Write the configuration as TOML text, from which the same configuration can be read.

        In every section what differs from the defaults comes first. An option that is ``None`` by default and here is
        left out.
        """
        sections = (_section_text(name, self.tables[name], self.defaults[name]) for name in self.defaults)
        return "\n".join([f"seed = {self.seed}\n", *sections])


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
    return _resolve(tables, places)


def config_of(tables: dict[str, Any]) -> Config:
    """Build a configuration from plain values, as `Config.tables` holds them."""
    return _resolve(tables, {})


def checked_method(made: type[Any], values: dict[str, Any]) -> Any:
    """Build a method from hyper-parameters given in Python, with the checks of a configuration file.

    `values` are the fields of the dataclass `made` by name; those that only Python can give, such as functions, are not
    checked. Raises FedkinError if a value's type or range is not allowed.
    """
    model = model_of(made, display_name(made))
    known = {name: value for name, value in values.items() if name in model.model_fields}
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in known.items()}
    try:
        checked = model.model_validate_json(json.dumps(plain, default=str))
    except ValidationError as error:
        raise sentence_of(error, model, values, dict.fromkeys(values, f"in {display_name(made)}"), depth=1) from error
    others = {name: value for name, value in values.items() if name not in plain}
    return built(made, checked, **others)


def preparing_for(method: Method[Any], options: PreparingOptions) -> PreparingOptions:
    """Return the options by which a method's samples are prepared: for an encoder they are not scaled by default."""
    if method.encodes_samples() and options.scaling == "auto":
        options = replace(options, scaling="none")
    return options.of(private=method.guards_samples())


def apply_setting(tables: dict[str, Any], override: str) -> str:
    """Set one ``section.key=value`` in `tables`, unchecked, and return its path.

    Raises FedkinError if `override` has another form, or a part of the path is not a section.
    """
    path, equals, text = override.partition("=")
    *parents, key = path.strip().split(".")
    if not equals or not key or not all(parents):
        raise FedkinError(f"{flag('set')} takes section.key=value, such as method.local_epochs=30, not '{override}'.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if "\\" in text and _is_toml(text.replace("\\", "\\\\")):
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


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return False
    return True


def _resolve(tables: dict[str, Any], places: dict[str, str]) -> Config:
    method: Any = _named(tables, "method", registry.DEFAULT_METHOD, places)
    if _is_folder(tables):  # which takes seconds to look into
        _checked(_experiment(None, "", method), {**tables, "scenario": {}}, None, places)
    default = "files" if _has_files_of_clients(tables) or _has_column_of_clients(tables) else method.traits.scenario
    scenario: Any = _named(tables, "scenario", default, places)
    _check_clients(tables, scenario, default, method, places)
    checked = _checked(_experiment(scenario, default, method), tables, default, places)
    if checked.target.stop and None in (checked.target.metric, checked.target.reach):
        raise FedkinError("'target.stop' needs 'target.metric' and 'target.reach', which say when to stop.")
    if checked.tracking.uri is not None and "mlflow" not in checked.tracking.to:
        raise FedkinError("'tracking.uri' is where MLflow tracks runs, and 'tracking.to' does not name 'mlflow'.")
    if checked.engine.device not in ("cpu", "auto") and not method.traits.has_device:
        raise FedkinError(
            f"'engine.device' is '{checked.engine.device}', and method '{checked.method.name}' computes on the "
            "processor only; leave it out."
        )
    if checked.engine.secure_sums:
        _check_sums(method, checked)
    checked.federation.check(checked.engine.sites)
    _check_pace(method, checked)
    scenario = registry.resolve("scenario", _name(tables, "scenario", default))
    return Config(
        scenario=built(scenario, checked.scenario, **_from_data(scenario, checked.data)),
        method=built(registry.resolve("method", _name(tables, "method", registry.DEFAULT_METHOD)), checked.method),
        tables=plain_tables(checked.model_dump(mode="json")),
        defaults={
            name: {key: value for key, value in _defaults(getattr(checked, name)).items() if (name, key) not in _NAMES}
            for name in ("data", "scenario", "method", *_SECTIONS)
        },
        **{name: getattr(checked, name) for name in ("seed", "data", *_SECTIONS)},
    )


def _defaults(section: BaseModel) -> dict[str, Any]:
    """Return the defaults of a section's options that have one, as plain values."""
    defaults: dict[str, Any] = plain_tables(type(section).model_construct().model_dump(mode="json", warnings=False))
    return defaults


def _section_text(name: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Write a section as TOML, what differs from the defaults first."""
    differing = {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}
    usual = {key: value for key, value in values.items() if key not in differing and value not in ("none", {})}
    tables = {key: differing.pop(key) for key, value in list(differing.items()) if isinstance(value, dict) and value}
    tables |= {key: usual.pop(key) for key, value in list(usual.items()) if isinstance(value, dict)}
    text = f"[{name}]\n{tomli_w.dumps(differing)}"
    if usual:
        text += f"# as by default\n{tomli_w.dumps(usual)}"
    return text + (f"\n{tomli_w.dumps({name: tables})}" if tables else "")


def _checked(model: type[BaseModel], tables: dict[str, Any], default: str | None, places: dict[str, str]) -> Any:
    """Return an instance of `model` of all `tables`; `default` is the scenario where they name none, if it is known."""
    try:
        return model.model_validate_json(json.dumps(with_none(tables, model), default=str))
    except ValidationError as error:
        if default is not None:
            check_owners("scenario", default, tables, places)
        check_owners("method", registry.DEFAULT_METHOD, tables, places)
        raise sentence_of(error, model, tables, places) from error


@functools.cache
def _experiment(scenario: type[Any] | None, default: str, method: type[Any]) -> type[BaseModel]:
    """Build the pydantic model of an experiment; cached, as building it takes longer than all checks."""
    fields: dict[str, Any] = {
        "seed": (NonNegativeInt, 0),
        "data": (DataSection, DataSection()),
        "scenario": (
            (dict[str, Any], {})
            if scenario is None
            else (model_of(scenario, default), Field(default_factory=dict, validate_default=True))
        ),
        "method": (model_of(method, registry.DEFAULT_METHOD), Field(default_factory=dict, validate_default=True)),
    }
    fields |= {name: (section, section()) for name, section in _SECTIONS.items()}
    return create_model("Experiment", __config__=STRICT, **fields)


def _check_pace(method: type[Any], checked: Any) -> None:
    """Check that late joining and early closing of rounds are only set where the method supports them."""
    engine = checked.engine
    given = [name for name, used in (("newcomers", engine.newcomers > 0), ("quorum", engine.quorum < 1)) if used]
    if not given:
        return
    if checked.data.source != "federation":
        raise FedkinError(f"'engine.{given[0]}' is for a real federation, which `fedkin federation init` prepares.")
    if method.traits.clusters != "clients":
        raise FedkinError(
            f"'engine.{given[0]}' is for methods that cluster clients; '{checked.method.name}' needs all its clients "
            "from the start."
        )
    if engine.secure_sums:
        raise FedkinError(f"'engine.{given[0]}' does not go with 'engine.secure_sums', whose masks all clients share.")


def _check_sums(method: type[Any], checked: Any) -> None:
    """Check that ``engine.secure_sums`` is only set for methods which need nothing but sums over clients."""
    if method.traits.sums_suffice is None:
        raise FedkinError(
            f"'engine.secure_sums' is true, but method '{checked.method.name}' needs more than sums over clients; "
            f"these do not: {', '.join(registry.methods_of_sums())}."
        )
    wanted = {f"method.{name}": allowed for name, allowed in allowed_for_sums(method).items()}
    values = {path: getattr(checked.method, path.removeprefix("method.")) for path in wanted}
    refuse(
        f"'{path}' is {registry.as_setting(value)}, which takes more than sums over clients; with "
        f"'engine.secure_sums' it should be {' or '.join(registry.as_setting(one) for one in allowed)}."
        for path, allowed in ({"data.scaling": ("standard", "none")} | wanted).items()
        if (value := ({"data.scaling": checked.data.scaling} | values)[path]) not in allowed
    )


def check_section(tables: dict[str, Any], section: str, place: str) -> None:
    """Raise FedkinError if the value under `section` is no table of settings, written at `place`, as "in a.toml"."""
    if not isinstance(table := tables.get(section, {}), dict):
        raise FedkinError(f"'{section}' is {table!r} {place}; it should be a section, [{section}].")


def _named(tables: dict[str, Any], section: registry.Kind, default: str, places: dict[str, str]) -> type[Any]:
    check_section(tables, section, places.get(section, current_door().place))
    return registry.declared(section, _name(tables, section, default))


def _name(tables: dict[str, Any], section: registry.Kind, default: str) -> str:
    return str(tables.get(section, {}).get("name", default))


def _check_clients(
    tables: dict[str, Any], scenario: type[Any], default: str, method: type[Any], places: dict[str, str]
) -> None:
    """Check that a number of clients is only given for scenarios that take one."""
    given, fields = tables.get("scenario", {}), [field.name for field in dataclasses.fields(scenario)]
    if "clients" not in given or "clients" in fields:
        return
    name = given.get("name", default)
    usual = "" if "name" in given else f", the default {'of these data' if default == 'files' else 'of the method'},"
    instead = "".join(f", set 'scenario.{field}'" for field in fields if field.startswith("clients_"))
    first = "label-skew" if method.traits.clusters == "samples" else "label-clusters"
    other = "" if name == "files" else f", or choose a scenario that takes one, such as --scenario {first} or iid"
    raise FedkinError(
        f"'scenario.clients' is {given['clients']!r} {places.get('scenario.clients', current_door().place)}, but "
        f"scenario '{name}'{usual} takes no number of clients ({registry.summary_of('scenario', name)}); leave it "
        f"out{instead}{other}."
    )


def _is_folder(tables: dict[str, Any]) -> bool:
    data = tables.get("data", {})
    source = data.get("source") if isinstance(data, dict) else None
    return isinstance(source, str) and expanded(source).is_dir()


def _has_files_of_clients(tables: dict[str, Any]) -> bool:
    if not _is_folder(tables):
        return False
    from fedkin.data.names import files_of_clients

    return bool(files_of_clients(tables["data"]["source"]))


def _has_column_of_clients(tables: dict[str, Any]) -> bool:
    scenario = tables.get("scenario", {})
    return isinstance(scenario, dict) and "column" in scenario


def _from_data(scenario: type[Any], data: DataSection) -> dict[str, Any]:
    """Return the fields of a scenario that section ``[data]`` provides, of those that the scenario has."""
    given = dict(zip(FROM_DATA, (data.source, data.labels, data.table), strict=True))
    known = {field.name for field in dataclasses.fields(scenario)}
    return {name: value for name, value in given.items() if name in known}
