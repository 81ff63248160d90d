"""Names of options and commands in other programs, for error messages that suggest fedkin's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

COMMANDS = {
    "version": "`fedkin --version` shows it",
    "methods": "`fedkin list methods` shows them",
    "ls": "`fedkin list` shows methods, data, scenarios and models",
    "show": "`fedkin report RUN` writes a run's page again",
    "open": "`fedkin report RUN` writes a run's page again",
    "plot": "`fedkin report RUN` writes a run's page again",
    "summary": "`fedkin report RUN` writes a run's page again",
    "config": "a run's complete config.toml is in its folder",
    "check": "`fedkin run ... --dry-run` checks an experiment, and runs nothing",
    "validate": "`fedkin run ... --dry-run` checks an experiment, and runs nothing",
    "export": "a run's folder has labels, models and records as files",
    "labels": "a run's folder has the clusters of its samples in labels/",
    "train": "`fedkin run METHOD` trains, too",
    "fit": "`fedkin cluster DATA` finds the clusters",
    "continue": "`fedkin resume RUN` does it",
    "sweep": "`fedkin compare` and `fedkin benchmark` do many runs",
    "study": "`fedkin reproduce STUDY.toml` does many runs",
    "doctor": "`fedkin --version` and `fedkin list` show what is installed",
    "info": "`fedkin --version` and `fedkin list` show what is installed",
    "init": "`fedkin federation init` prepares a real federation",
}
"""What does the work of a command of another program, as the end of a sentence."""

SENTENCES = {
    "by": "A table is divided among clients by a file for each, in one folder.",
    "seeds": "A run has one --seed; `fedkin compare` and `fedkin reproduce STUDY.toml` take several.",
    "n-clusters": "--clusters says how many.",
    "verbose": "Progress is shown anyway; --quiet leaves it out.",
    "v": "Progress is shown anyway; --quiet leaves it out.",
    "overwrite": "A folder with another run is never overwritten; give a new one.",
    "force": "A folder with another run is never overwritten; give a new one.",
    "install-completion": 'eval "$(fedkin completion bash)" completes commands.',
    "format": "--json prints results for programs.",
    "output": "--out says where results go.",
}
SENTENCES |= dict.fromkeys(
    ("client-column", "group", "groups", "group-by", "groupby", "client-col", "column"), SENTENCES["by"]
)
"""What is said of an option of another program."""


def key_of(error: click.NoSuchOption) -> str | None:
    """Return the experiment's key that a non-existent option probably means; ``None`` if none is known."""
    return _key_that_ends(_name(error)) if _takes_keys(error) else None


def key_of_method(error: click.NoSuchOption, words: Sequence[str]) -> str | None:
    """Return the key of a non-existent option that a method named among the `words` of the command line has."""
    from fedkin.core import FedkinError
    from fedkin.core.options import options_of
    from fedkin.experiment import registry

    for word in [part for each in words for part in each.split(",")] if _takes_keys(error) else ():
        with suppress(FedkinError):
            if registry.is_known("method", word) and any(
                option.name == _name(error) for option in options_of(registry.declared("method", word))
            ):
                return f"method.{_name(error)}"
    return None


def setting_of(given: str) -> str | None:
    """Return the setting, as --set takes it, that was given in the place of data; ``None`` if it is none."""
    name, equals, value = given.partition("=")
    key = name if "." in name else _key_that_ends(name.replace("-", "_"))
    return f"{key}={value}" if equals and key and not Path(given).exists() else None


def _takes_keys(error: click.NoSuchOption) -> bool:
    return error.ctx is not None and "settings" in {each.name for each in error.ctx.command.params}


def _name(error: click.NoSuchOption) -> str:
    return error.option_name.lstrip("-").replace("-", "_")


def _key_that_ends(word: str) -> str | None:
    """Return the experiment's key whose last part is a word, or what another library's word means here."""
    from fedkin.core.aliases import ALIASES
    from fedkin.core.options import options_of
    from fedkin.experiment import registry
    from fedkin.experiment.sections import DataSection, EngineSection

    for name in (*ALIASES.get(word, ()), word):
        for section, fields in (("engine", EngineSection.model_fields), ("data", DataSection.model_fields)):
            if name in fields:
                return f"{section}.{name}"
        kinds: tuple[registry.Kind, ...] = ("method", "scenario")
        for kind in kinds:
            listed = registry.METHODS if kind == "method" else registry.SCENARIOS
            if any(option.name == name for each in listed for option in options_of(registry.declared(kind, each))):
                return f"{kind}.{name}"
    return None
