"""Commands that run or resume one experiment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedkin.cli import shared_options
from fedkin.cli.app import REFUSED, app, interruptible, resumable, stop
from fedkin.cli.help_pages import DATA, METHOD, SAMPLES
from fedkin.cli.other_programs import setting_of
from fedkin.data.names import EMBEDDED, check_source

if TYPE_CHECKING:
    from fedkin.experiment.config import Config

_SECTION = "Runs"
_OPTIONS = {
    "data.source": "--data", "scenario.name": "--scenario", "method.n_clusters": "--clusters",
    "engine.name": "--engine", "tracking.to": "--track",
}  # fmt: skip
"""Options that are called other than the key that they set."""
_WITH_FILES = (
    "Your own CSV files: put one per client into a folder, with the same columns, and run `fedkin cluster FOLDER`."
)


@app.command(section=_SECTION)
@shared_options.argument(
    "experiment", "A method's name from `fedkin list`, or a .toml file.", metavar="METHOD-or-FILE", type=METHOD
)
@shared_options.argument("given", "The data set, as --data takes it.", metavar="[DATA]", required=False, type=DATA)
@shared_options.data("Data set: a name from `fedkin list`, a file, a folder, or hf:NAME of the Hugging Face hub.")
@shared_options.scenario("How clients get data: a name from `fedkin list`.")
@shared_options.clients
@click.option("--clusters", type=int, help="Number of clusters, as --set method.n_clusters does.")
@click.option("--seed", type=int, help="Seed of everything random.")
@click.option(
    "--engine",
    metavar="NAME",
    type=click.Choice(["local", "flower"]),
    help="Execution backend: local, or flower for Flower's simulation.",
)
@shared_options.tools("--track")
@shared_options.out("Folder for the results; by default a new one in runs/.")
@shared_options.settings("Any key of the experiment, such as method.local_epochs=30.")
@click.option("--dry-run", is_flag=True, help="Check the experiment and its data, print both in full, and run nothing.")
@shared_options.as_json
@shared_options.quiet
def run(
    experiment: str,
    given: str | None,
    data: str | None,
    scenario: str | None,
    clients: int | None,
    clusters: int | None,
    seed: int | None,
    engine: str | None,
    track: tuple[str, ...],
    out: Path | None,
    settings: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run an experiment and write its results to a folder."""
    if given is not None and data is not None:
        stop(f"The data set was given twice, as '{given}' and as '{data}'.", REFUSED)
    if given is not None and (setting := setting_of(given)):
        stop(f"'{given}' is no data set, but a setting; give it as --set {setting}.", REFUSED)
    data = given if data is None else data
    if data is not None and scenario != "files" and ":" not in (scenario or "") and not experiment.endswith(".toml"):
        check_source(data)  # a scenario of one's own may call its data as it likes
    keys = {
        "data.source": data, "scenario.name": scenario, "scenario.clients": clients, "method.n_clusters": clusters,
        "seed": seed, "engine.name": engine, "tracking.to": track or None,
    }  # fmt: skip
    _run(experiment, keys, settings, out, dry_run, as_json, quiet)


@app.command(section=_SECTION)
@shared_options.argument(
    "data", "A folder with one file per client, such as north.csv, or any other data as --data of `run` takes it.",
    metavar="DATA", type=SAMPLES,
)  # fmt: skip
@click.option("--clients", type=int, help="Number of clients that one data set is dealt to at random.")
@click.option("--clusters", type=int, help="Number of clusters; by default it is found.")
@click.option("--seed", type=int, help="Seed of everything random.")
@shared_options.out("Folder for the results; by default a new one in runs/.")
@shared_options.settings("Any key of the experiment, such as data.id=patient.")
@click.option("--dry-run", is_flag=True, help="Check the data, print how they are understood, and run nothing.")
@shared_options.as_json
@shared_options.quiet
def cluster(
    data: str,
    clients: int | None,
    clusters: int | None,
    seed: int | None,
    out: Path | None,
    settings: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Cluster the samples of all clients. It is `fedkin run kin-graph DATA`."""
    keys = {"data.source": data, "scenario.clients": clients, "method.n_clusters": clusters, "seed": seed}
    if clients is not None and not Path(data).is_dir() and not any(one.startswith("scenario.") for one in settings):
        keys["scenario.name"] = "iid"  # the method's default scenario has a client for each class
    _run("kin-graph", keys, settings, out, dry_run, as_json, quiet)
    if data in EMBEDDED and not (dry_run or as_json or quiet):
        print(_WITH_FILES)


def _run(
    experiment: str, keys: Mapping[str, Any], settings: Sequence[str], out: Path | None, dry_run: bool, as_json: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Run an experiment with the values of options by key, ``None`` where one is not given, and those of --set."""
    wanted = {key: json.dumps(value, ensure_ascii=False) for key, value in keys.items() if value is not None}
    _check_said_once(wanted, settings)
    overrides = [*(f"{key}={value}" for key, value in wanted.items()), *settings]
    from fedkin.experiment.config import load_config

    config = load_config(experiment, overrides)
    folder = out or _new_folder(config)
    with resumable(folder):
        from fedkin.engines.local import keep_freed_memory
        from fedkin.experiment.run import check, execute
        from fedkin.experiment.terminal import show_outcome, show_progress

        keep_freed_memory()
        if dry_run:
            with show_progress(quiet) as progress:
                read = check(config, folder, progress)
            print(config.to_toml(), end="")
            if read and not quiet:
                print("\n" + "\n".join(f"# {line}".rstrip() for line in read.splitlines()))
            return
        with show_progress(quiet) as progress:
            if sentence := _on_default_number(config, overrides):
                progress.note(sentence)
            outcome = execute(config, folder, progress)
        show_outcome(outcome, as_json, quiet)


@app.command(section=_SECTION)
@shared_options.folder()
@shared_options.device(
    "Where networks and kin-graph's large searches compute from here on, such as cuda; by default, as before.", None
)
@shared_options.as_json
@shared_options.quiet
def resume(folder: Path, device: str | None, as_json: bool, quiet: bool) -> None:
    """Resume a stopped run from its last checkpoint."""
    with resumable(folder):
        from fedkin.engines.local import keep_freed_memory
        from fedkin.experiment.run import resume as go_on
        from fedkin.experiment.terminal import show_outcome, show_progress

        keep_freed_memory()
        with show_progress(quiet) as progress:
            outcome = go_on(folder, progress, device=device)
        show_outcome(outcome, as_json, quiet)


@app.command(section=_SECTION)
@shared_options.argument("data", "Data other than the clients': anything --data takes.", metavar="DATA", type=SAMPLES)
@shared_options.out("File for the encoder; training resumes from it.", required=True)
@click.option("--model", metavar="NAME", default="auto", help="An autoencoder from `fedkin list`.")
@click.option("--epochs", type=int, default=20, help="Passes over the data.")
@click.option("--samples", type=int, help="Maximum number of samples, drawn at random.")
@click.option("--label", metavar="COLUMN", help="Column of labels to leave out.")
@click.option("--seed", type=int, default=0, help="Seed of everything random.")
@shared_options.device("Where the network computes, such as cuda.")
@shared_options.quiet
def pretrain(data: str, out: Path, model: str, device: str, quiet: bool, **options: Any) -> None:
    """Train an encoder for the method `embedding` on other data."""
    with interruptible(f"the same command resumes from the last epoch in {out}", out):
        from fedkin.experiment.terminal import show_progress
        from fedkin.studies.pretrain import pretrain as trained

        with show_progress(quiet) as progress, shared_options.computing_on(device):
            progress.phase(f"Reading {data}")

            def done(epoch: int, epochs: int, error: float) -> None:
                progress.phase(f"Epoch {epoch} of {epochs} done, mean squared error {error:.4f}")

            made = trained(data, out, name=model, on_epoch=done, **options)
    if not quiet:
        print(f"Encoder: {out}, mean squared error {made.about['error']:.4f} after {made.about['epochs']} epochs")


def _check_said_once(wanted: Mapping[str, str], settings: Sequence[str]) -> None:
    """Check that no option and --set give two values of one key; `wanted` are the options' by key, as TOML."""
    from fedkin.experiment.config import apply_setting

    for setting in settings:
        tables: dict[str, Any] = {}
        path = apply_setting(tables, setting)
        if path in wanted:
            section, _, key = path.rpartition(".")
            given, other = json.loads(wanted[path]), (tables[section] if section else tables)[key]
            if given != other:
                option = _OPTIONS.get(path, f"--{key}")
                stop(f"'{path}' is {given!r} by {option}, and {other!r} by --set; give it once.", REFUSED)


def _on_default_number(config: Config, overrides: Sequence[str]) -> str | None:
    """Return a sentence if nobody named the number of clusters for files of one's own, and the method needs one."""
    from fedkin.data.scenarios.already_split import ClientFiles

    default = getattr(type(config.method), "n_clusters", None)
    named = any(override.partition("=")[0].strip() == "method.n_clusters" for override in overrides)
    is_given = isinstance(default, int) and not config.method.traits.finds_k
    if named or not isinstance(config.scenario, ClientFiles) or not is_given:
        return None
    if config.tables["method"]["n_clusters"] != default:  # as the .toml file has it
        return None
    return (
        f"n_clusters = {default} is the default of {config.method_name}; give the number that you expect, or try "
        "methods that find one (`fedkin compare`)."
    )


def _new_folder(config: Config) -> Path:
    """``runs/<method>-<data>-seed<seed>``, with a counter if it is taken; a file is called without its suffix."""
    from fedkin.core.files import ending_of, stem_of
    from fedkin.data.names import READ
    from fedkin.experiment import registry

    source = Path(config.data.source)
    name = stem_of(source) if ending_of(source) in READ else source.name
    data = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "data"
    first = Path("runs") / f"{registry.file_name(config.method_name)}-{data}-seed{config.seed}"
    folder, count = first, 1
    while folder.exists():
        count += 1
        folder = first.with_name(f"{first.name}-{count}")
    return folder
