"""Commands that make runs: one experiment, or many."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedkin.cli.app import app, interruptible, show
from fedkin.cli.help_pages import (
    COUNT,
    DATA,
    METHOD,
    NETWORKS,
    RUN,
    SAMPLES,
    SCENARIO,
    argument,
    as_json,
    computing_on,
    device,
    flag,
    option,
    out,
    quiet,
    run_folder,
    settings,
)
from fedkin.data.names import check_source
from fedkin.experiment.registry import file_name, target_of

if TYPE_CHECKING:
    from fedkin.core.runner import Progress
    from fedkin.experiment.config import Config
    from fedkin.experiment.run import RunOutcome

_KEYS = {
    "data": "data.source", "scenario": "simulation.scenario", "clients": "simulation.clients",
    "clusters": "method.n_clusters", "seed": "seed", "engine": "simulation.engine",
    "like": "evaluation.like",
}  # fmt: skip
"""Keys of an experiment that options set, by the option's name."""
_scenario = option("--scenario", "How clients get data: a name from `fedkin list`.", "NAME", type=SCENARIO)
_seed = option("--seed", "Seed of everything random.", type=int)
_like = option("--like", "Finished run whose clusters keep their numbers and names.", "RUN", type=RUN)
_new_folder_in_runs = out("Folder for the results; by default a new one in runs/.")


@app.command()
@argument("experiment", "A method's name from `fedkin list`, or a .toml file.", "METHOD-or-FILE", type=METHOD)
@argument("positional", "The data set, as --data takes it.", "[DATA]", required=False, type=DATA)
@option("--data", "A name from `fedkin list`, a file, a folder, or hf:NAME of the Hugging Face hub.", "DATA", type=DATA)
@_scenario
@option("--clients", "Number of clients.", type=int)
@option("--clusters", "Number of clusters, as --set method.n_clusters does.", type=int)
@_seed
@option(
    "--engine", "Execution backend: local, or flower for Flower's simulation.", "NAME",
    type=click.Choice(["local", "flower"]),
)  # fmt: skip
@_new_folder_in_runs
@_like
@settings("Any key of the experiment, such as method.local_epochs=30.")
@flag("--dry-run", "Check the experiment and its data, print both in full, and run nothing.")
@as_json
@quiet
def run(experiment: str, positional: str | None, **options: Any) -> None:
    """Run an experiment and write its results to a folder."""
    if positional is not None and options["data"] is not None:
        raise click.UsageError(f"The data set was given twice, as '{positional}' and as '{options['data']}'.")
    data, scenario = positional or options["data"], options["scenario"] or ""
    if data is not None and scenario != "files" and ":" not in scenario and not experiment.endswith(".toml"):
        check_source(data)  # a scenario of one's own may call its data as it likes
    _run(experiment, options | {"data": data})


@app.command()
@argument("data", "A folder with one file per client, or what --data of `run` takes.", "DATA", type=SAMPLES)
@option("--clients", "Number of clients that one data set is dealt to at random.", type=int)
@option("--clusters", "Number of clusters; by default it is found.", type=int)
@_seed
@_new_folder_in_runs
@_like
@settings("Any key of the experiment, such as data.id=patient.")
@flag("--dry-run", "Check the data, print how they are understood, and run nothing.")
@as_json
@quiet
def cluster(**options: Any) -> None:
    """Cluster the samples of all clients. It is `fedkin run kin-graph DATA`."""
    is_dealt = options["clients"] is not None and not Path(options["data"]).is_dir()
    if is_dealt and not any(each.startswith("simulation.") for each in options["settings"]):
        options["scenario"] = "iid"  # the method's default scenario has a client for each class
    _run("kin-graph", options)


def _run(experiment: str, options: Mapping[str, Any]) -> None:
    """Run an experiment with the options of the command line, ``None`` or empty where one is not given."""
    from fedkin.experiment.config import load_config

    values = {key: options.get(name) for name, key in _KEYS.items()}
    values = {key: value for key, value in values.items() if value is not None}
    flags = [f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in values.items()]
    config = load_config(experiment, [*flags, *options["settings"]])
    folder = options["out"] or _new_folder(config)

    def make(progress: Progress) -> RunOutcome | None:
        from fedkin.experiment.outcome import overview
        from fedkin.experiment.run import check, execute

        if not options["dry_run"]:
            return execute(config, folder, progress)
        data = overview(*check(config, folder, progress))
        print(config.to_toml(), end="")
        if not options["quiet"]:
            print("\n" + "\n".join(f"# {line}".rstrip() for line in data.splitlines()))
        return None

    show(folder, make, options["as_json"], options["quiet"])


def _new_folder(config: Config) -> Path:
    """``runs/<method>-<data>-seed<seed>``, with a counter if it is taken; a file is called without its suffix."""
    from fedkin.core.files import ending_of, stem_of
    from fedkin.data.names import READ

    source = Path(config.data.source)
    data = re.sub(r"[^A-Za-z0-9._]+", "-", stem_of(source) if ending_of(source) in READ else source.name).strip("-.")
    first = Path("runs") / f"{file_name(config.method_name)}-{data or 'data'}-seed{config.seed}"
    numbered = (first.with_name(f"{first.name}-{count}") for count in itertools.count(2))
    return next(folder for folder in itertools.chain([first], numbered) if not folder.exists())


@app.command()
@run_folder("Folder of a run.")
@device(f"{NETWORKS} from here on; by default as before", None)
@as_json
@quiet
def resume(folder: Path, device: str | None, as_json: bool, quiet: bool) -> None:
    """Resume a stopped run from its last checkpoint."""
    from fedkin.experiment.run import resume as go_on

    show(folder, lambda progress: go_on(folder, progress, device=device), as_json, quiet)


@app.command()
@argument("data", "Data other than the clients': anything --data takes.", "DATA", type=SAMPLES)
@out("File for the encoder; training resumes from it.", required=True)
@option("--model", "An autoencoder from `fedkin list`.", "NAME", default="auto")
@option("--epochs", "Passes over the data.", type=COUNT, default=20)
@option("--samples", "Maximum number of samples, drawn at random.", type=COUNT)
@option("--label", "Column of labels to leave out.", "COLUMN")
@option("--seed", "Seed of everything random.", type=int, default=0)
@device("the network computes")
@quiet
def pretrain(data: str, out: Path, model: str, device: str, quiet: bool, **options: Any) -> None:
    """Train an encoder for the method `embedding` on other data."""
    with interruptible(f"the same command resumes from the last epoch in {out}", out):
        from fedkin.experiment.terminal import show_progress
        from fedkin.studies.pretrain import pretrain as trained

        with show_progress(quiet) as progress, computing_on(device):
            progress.phase(f"Reading {data}")

            def done(epoch: int, epochs: int, error: float) -> None:
                progress.phase(f"Epoch {epoch} of {epochs} done, mean squared error {error:.4f}")

            encoder = trained(data, out, name=model, on_epoch=done, **options)
    if not quiet:
        print(f"Encoder: {out}, mean squared error {encoder.about['error']:.4f} after {encoder.about['epochs']} epochs")


# Many runs.


@app.command()
@argument("what", "Data, as `fedkin run` takes them, or a .toml file.", "DATA")
@option("--methods", "Names with commas between them, or all that suit.", "NAMES", default="all")
@option("--budget", "Time after which no run begins, such as 90s, 10m or 2h.", "TIME", default="10m")
@option("--clusters", "Number of clusters, if it is known.", type=int)
@option("--seeds", "Runs of each method.", type=int, default=3)
@option("--seed", "Seed of the partition and of the first run; by default 0.", type=int)
@_scenario
@out("Folder; by default one in comparisons/. A comparison in it is replaced.")
@settings("Any key of the experiments, such as method.rounds=10.")
@as_json
@quiet
def compare(
    what: str, methods: str, budget: str, seeds: int, out: Path | None, as_json: bool, quiet: bool, **options: Any
) -> None:  # fmt: skip
    """Run methods that cluster samples on some data, and recommend one. They are ranked without labels."""
    if not what.endswith(".toml"):
        check_source(what)
    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    for name in names:
        if name != "all":
            target_of("method", name)
    from fedkin.studies.question import question_of

    question = question_of(what, methods=names, **options)
    from fedkin.data.sources import keep_read
    from fedkin.engines.local import keep_freed_memory
    from fedkin.experiment.terminal import show_progress
    from fedkin.studies.compare import compared

    keep_read()
    keep_freed_memory()
    with interruptible("a comparison begins anew"), show_progress(quiet) as progress:
        comparison = compared(question, out or Path("comparisons") / question.name, seeds, budget, progress)
    if as_json:
        print(comparison.to_json(), end="")
    elif not quiet:
        print(comparison.text())


@app.command()
@argument(
    "names", "Such as fedcref/table-6, papers, all, or a .toml file; by default all are listed.", "ENTRY...", nargs=-1
)
@option("--scale", "quick, or the paper's own size.", type=click.Choice(["quick", "paper"]), default="quick")
@option("--seeds", "Number of seeds, instead of the entry's.", "INTEGER", type=COUNT)
@option("-j --jobs", "Runs at a time; by default one per core.", "INTEGER", type=COUNT)
@out("Folder for runs and tables; existing runs are reused.", default=Path("reproductions"))
@device(f"{NETWORKS}; runs on another device are other runs")
@flag("--show", "Run nothing; write the tables of existing runs.")
@as_json
@quiet
def reproduce(names: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:
    """Reproduce tables of the papers. Figures become tables, too."""
    from fedkin.studies.reproduce.entry import entries_named

    for name in names:
        entries_named(name)
    from fedkin.studies.reproduce import command

    if not names:
        print(command.listing(out))
        return
    with interruptible("the same command resumes where it stopped"):
        command.reproduced(names, out=out, as_json=as_json, **options)
