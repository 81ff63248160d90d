"""Names of options and commands in other programs, for error messages that suggest fedkin's own."""

from __future__ import annotations

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
    "fit": "`fedkin run METHOD` finds the clusters",
    "cluster": "`fedkin run METHOD` finds the clusters",
    "continue": "`fedkin resume RUN` does it",
    "sweep": "`fedkin compare` and `fedkin benchmark` do many runs",
    "study": "`fedkin reproduce STUDY.toml` does many runs",
    "doctor": "`fedkin --version` and `fedkin list` show what is installed",
    "info": "`fedkin --version` and `fedkin list` show what is installed",
    "init": "`fedkin federation init` prepares a real federation",
}
"""What does the work of a command of another program, as the end of a sentence."""

_KEYS = {
    "model": "method.module", "net": "method.module", "network": "method.module", "lr": "method.learning_rate",
    "epochs": "method.local_epochs", "k": "method.n_clusters", "device": "engine.device", "workers": "engine.workers",
    "label": "data.label", "target": "data.label", "alpha": "scenario.alpha",
}  # fmt: skip
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
    assert error.ctx is not None
    if "settings" not in {each.name for each in error.ctx.command.params}:
        return None
    name = error.option_name.lstrip("-").replace("-", "_")
    return _KEYS.get(name) or _key_that_ends(name)


def _key_that_ends(name: str) -> str | None:
    from fedkin.core.options import options_of
    from fedkin.experiment import registry
    from fedkin.experiment.sections import DataSection, EngineSection

    for section, fields in (("engine", EngineSection.model_fields), ("data", DataSection.model_fields)):
        if name in fields:
            return f"{section}.{name}"
    kinds: tuple[registry.Kind, ...] = ("method", "scenario")
    for kind in kinds:
        listed = registry.METHODS if kind == "method" else registry.SCENARIOS
        for known in listed:
            if any(option.name == name for option in options_of(registry.resolve(kind, known))):
                return f"{kind}.{name}"
    return None
