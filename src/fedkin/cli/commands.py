"""Commands that make runs, one or many, those on finished runs, those for a real federation, and the list of names."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedkin.cli.app import (
    COUNT,
    DATA,
    METHOD,
    NETWORKS,
    PATH,
    RUN,
    SAMPLES,
    SCENARIO,
    Group,
    Name,
    app,
    argument,
    as_json,
    computing_on,
    device,
    flag,
    interruptible,
    option,
    out,
    quiet,
    results,
    run_folder,
    settings,
    show,
)
from fedkin.core.errors import FILE, at_door, toml_text, unknown_name
from fedkin.data.names import locate
from fedkin.experiment import registry
from fedkin.experiment.terminal_tables import table_text

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
@argument("sources", "The data set, as --data takes it.", "[DATA]", nargs=-1, type=DATA)
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
def run(experiment: str, sources: tuple[str, ...], **options: Any) -> None:
    """Run an experiment and write its results to a folder."""
    data, scenario = _only((*sources, *filter(None, [options["data"]]))), options["scenario"] or ""
    if data is not None and scenario != "files" and ":" not in scenario and not experiment.endswith(".toml"):
        locate(data)  # a scenario of one's own may call its data as it likes
    _run(experiment, options | {"data": data})


@app.command()
@argument("data", "A folder with a file per client, or what run takes.", "DATA", nargs=-1, required=True, type=SAMPLES)
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
    options["data"] = _only(options["data"])
    is_dealt = options["clients"] is not None and not Path(options["data"]).is_dir()
    if is_dealt and not any(each.startswith("simulation.") for each in options["settings"]):
        options["scenario"] = "iid"  # the method's default scenario has a client for each class
    _run("kin-graph", options)


def _only(sources: tuple[Any, ...]) -> Any:
    if len(sources) > 1:
        raise click.UsageError("Data are one file or folder; put the files of several clients into a folder.")
    return next(iter(sources), None)


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
    from fedkin.data.names import READ, ending_of, stem_of

    source = Path(config.data.source)
    data = re.sub(r"[^A-Za-z0-9._]+", "-", stem_of(source) if ending_of(source) in READ else source.name).strip("-.")
    first = Path("runs") / f"{registry.file_name(config.method_name)}-{data or 'data'}-seed{config.seed}"
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
        locate(what)
    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    for name in (each for each in names if each != "all"):
        registry.target_of("method", name)
    from fedkin.engines.local import keep_freed_memory
    from fedkin.experiment.terminal import show_progress
    from fedkin.studies.compare import compared, question_of

    keep_freed_memory()
    question = question_of(what, methods=names, **options)
    with interruptible("a comparison begins anew"), show_progress(quiet) as progress:
        comparison = compared(question, out or Path("comparisons") / question.name, seeds, budget, progress)
    if as_json:
        print(comparison.to_json(), end="")
    elif not quiet:
        print(comparison.text())


@app.command()
@argument("names", "Such as fedcref/table-6, papers, all, or a .toml file; without, a list.", "ENTRY...", nargs=-1)
@option("--scale", "quick, paper for the paper's size, or one of an entry's own.", metavar="NAME", default="quick")
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


# Finished runs.


def _new_rows(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how new rows are read, and of packages that a run's classes may come from."""
    for add in (
        option(
            "--package packages", "Package besides fedkin that may hold a method, model or features. May be repeated.",
            "NAME", multiple=True,
        ),
        option("--sheet", "Sheet of a workbook that has several, such as .xlsx; by default as in the run.", "NAME"),
        option("--encoding", "Encoding of CSV that is not UTF-8, such as cp1252; by default as in the run.", "NAME"),
        option(
            "--decimal", "What stands before the decimals of numbers in CSV; by default as in the run.",
            type=click.Choice([".", ","]),
        ),
    ):  # fmt: skip
        command = add(command)
    return command


@app.command()
@run_folder()
@argument("data", "New samples: anything --data takes, or a folder with one file per client.", "DATA", type=SAMPLES)
@option("--label", "Column of labels to leave out.", "COLUMN")
@option("--client", "Client of the run whose model predicts, by name or number.", "NAME")
@option("--cluster", "Cluster whose model predicts, for a new client; see `fedkin assign`.", type=int)
@out("File to write; by default, standard output.")
@_new_rows
@flag("--memberships", "Add to what part each sample belongs to each cluster.")
@flag("--explain", "Add the next best cluster, and the columns that put a sample into its own instead.")
@device(NETWORKS)
def predict(folder: Path, data: str, out: Path | None, device: str, packages: tuple[str, ...], **options: Any) -> None:
    """Predict the cluster or the class of new samples, as CSV. A class needs a client or a cluster."""
    from fedkin.core.files import write_atomically
    from fedkin.experiment.prediction import predict as predicted

    with _only_from(packages), at_door(FILE), computing_on(device):
        text = predicted(folder, data, **options)
    if out:
        write_atomically(out, text)
    else:
        sys.stdout.write(text)


@app.command()
@run_folder()
@argument("data", "The client's samples: anything --data takes.", "DATA", type=SAMPLES)
@option("--label", "Column of labels, if it has neither the run's nor a usual name.", "COLUMN")
@_new_rows
def assign(folder: Path, data: str, packages: tuple[str, ...], **options: Any) -> None:
    """Assign a client unseen in training to a cluster. Its samples are labelled where the method needs it."""
    from fedkin.experiment.prediction import assign as cluster_of

    with _only_from(packages), at_door(FILE):
        print(cluster_of(folder, data, **options))


@app.command()
@run_folder()
@option("--clusters", "Number of clusters.", type=int, required=True)
@results("Folder for the results; by default one beside the run's.")
def cut(folder: Path, clusters: int, out: Path | None, as_json: bool, quiet: bool) -> None:
    """Cut a run's clusters again. They become coarser or finer, and clients are asked for nothing."""
    target = out or folder.with_name(f"{folder.resolve().name}-{clusters}-clusters")
    from fedkin.experiment.revision import cut as cut_again

    if show(target, lambda progress: cut_again(folder, target, clusters, progress), as_json, quiet):
        return
    print(
        f"Prepared {target}. Clients get their clusters when the federation runs the experiment with n_clusters = "
        f'{clusters} in its [method], with out = "{target.resolve()}".'
    )


@app.command()
@run_folder()
@option(
    "--client clients", "Client to forget, by name or number. May be repeated.", "NAME", multiple=True, required=True
)
@flag("--retrain", "Run again without it, even where the method can leave it out exactly.")
@results("Folder for the run without it; by default one beside the run's.")
def forget(folder: Path, clients: tuple[str, ...], retrain: bool, out: Path | None, as_json: bool, quiet: bool) -> None:
    """Leave a client out of a run. What was done, and what it does not cover, is in forgotten.json."""
    from fedkin.experiment.revision import FORGOTTEN
    from fedkin.experiment.revision import forget as forgotten
    from fedkin.experiment.run_folder import LEDGER

    called = re.sub(r"[^\w.@+]+", "-", "-".join(clients)).strip("-.")[:50]
    target = out or folder.with_name(f"{folder.resolve().name}-without-{called}")
    outcome = show(target, lambda progress: forgotten(folder, clients, target, retrain, progress), as_json, quiet)
    if outcome is None or quiet or as_json:
        return
    print(f"Certificate: {outcome.folder / FORGOTTEN}")
    if (outcome.folder / LEDGER).is_file():
        print(
            f"Sites get their new clusters when the federation runs {outcome.folder / 'config.toml'}, copied to its "
            f'experiment.toml, with out = "{outcome.folder.resolve()}".'
        )


@app.command()
@run_folder()
@argument("pairs", "A cluster's number and its name; without a name it has none.", "[CLUSTER=NAME]...", nargs=-1)
@as_json
def name(folder: Path, pairs: tuple[str, ...], as_json: bool) -> None:
    """Name the clusters of a run. Without names to give, list the clusters."""
    from fedkin.experiment.numbering import cluster_list, name_clusters

    if pairs:
        name_clusters(folder, pairs)
    clusters = cluster_list(folder)
    rows = [["cluster", "members", "name"], *(["" if v is None else str(v) for v in c.values()] for c in clusters)]
    print(json.dumps(clusters, ensure_ascii=False) if as_json else table_text(rows, left=(2,)))


@app.command()
@argument("folders", "Folders of runs.", "RUN...", type=RUN, nargs=-1, required=True)
@as_json
def costs(folders: tuple[Path, ...], as_json: bool) -> None:
    """Show what runs cost: bytes and seconds, by phase."""
    from fedkin.studies.costs import costs_of

    by_run = {str(folder): costs for folder in folders if (costs := costs_of(folder)) is not None}
    trees = {run: json.loads(costs.to_json(orient="index")) for run, costs in by_run.items()}
    texts = [f"{run}\n{costs.to_string(na_rep='–')}" for run, costs in by_run.items()]
    print(json.dumps(trees) if as_json else "\n\n".join(texts))


@app.command()
@run_folder("Folder of a finished run of `embedding`.")
@out("Folder for the results; by default, the run's.")
@device("the encoder computes")
def attack(folder: Path, out: Path | None, device: str) -> None:
    """Measure what an `embedding` run's messages give away: samples that can be rebuilt from them."""
    from fedkin.studies.attack import attack as attacked

    with computing_on(device):
        print(attacked(folder, out))


@app.command()
@run_folder()
@out("File to write the page to; by default disclosure.html in the run's folder.")
def disclosure(folder: Path, out: Path | None) -> None:
    """Say what left a run's clients, message by message. For a board, to print."""
    from fedkin.experiment.disclosure import PAGE, disclosure_of_run
    from fedkin.report.figures import PageView
    from fedkin.report.page import write_page

    leaving, place = disclosure_of_run(folder), out or folder / PAGE
    write_page(place, PageView(f"What leaves a client of {folder.name}", parts=[leaving]))
    print(*leaving.paragraphs, f"Page to print, with all messages: {place}", sep="\n")


def _only_from(packages: tuple[str, ...]) -> AbstractContextManager[None]:
    """Restrict imports named in a run's folder to fedkin and these packages; a context manager."""
    from fedkin.core.tasks import trusted_packages

    why = "so it is not imported; --package allows another package that you trust"
    return trusted_packages(["fedkin", *packages], why)


# A real federation.


@app.group(cls=Group, no_args_is_help=True)
def federation() -> None:
    """Prepare a real federation; Flower runs it."""


@federation.command()
@argument("folder", "New folder for the Flower app.", type=PATH)
@argument("experiment", "A method's name or a .toml file.", "[METHOD-or-FILE]", default="kin-graph", type=METHOD)
@option("--sites", "Number of sites; by default federation.clients, else 3.", "INTEGER", type=COUNT)
@option("--host", "Name or address that sites know the server by.", default="127.0.0.1")
@option("--port", "The server's port.", "INTEGER", type=click.IntRange(1, 65535), default=8000)
@flag("--insecure", "No encryption, no check of who takes part.")
@settings("Any key of the experiment, such as method.n_clusters=4.")
def init(folder: Path, experiment: str, settings: tuple[str, ...], **network: Any) -> None:
    """Write a folder that runs an experiment on real sites. It is a Flower app, with certificates."""
    _needs_flower()
    from fedkin.deploy.app_folder import init as written

    written(folder, experiment, settings=list(settings), **network)
    print(f"Wrote {folder}; {folder / 'README.md'} says how to start.")


@federation.command()
@argument("path", "File for the private key.", "FILE", type=PATH)
def key(path: Path) -> None:
    """Make a site's key; the server registers its public half."""
    _needs_flower()
    from fedkin.deploy.app_folder import make_key

    print(f"Wrote {path}, which stays here, and {make_key(path)} for the server.")


@federation.command()
@argument("path", "A site's own file.", "SITE.toml", type=PATH)
def check(path: Path) -> None:
    """Check a site's file, policy and data. Nothing is sent, and nothing but embeddings is written."""
    _needs_flower()
    from fedkin.deploy.site_app import checked

    with at_door(FILE):
        print("\n".join(checked(path)))


def _needs_flower() -> None:
    from fedkin.engines.flower_engine import check_flower

    check_flower()


# Names, and the options of one of them.


def _sections() -> dict[str, Mapping[str, str]]:
    """Return names and their descriptions, by section."""
    from fedkin.data.names import EMBEDDED
    from fedkin.nn import AUTOENCODERS, MODELS

    return {
        "methods": {name: entry.summary for name, entry in registry.METHODS.items()},
        "data": EMBEDDED,
        "scenarios": {name: entry.summary for name, entry in registry.SCENARIOS.items()},
        "models": MODELS,
        "autoencoders": AUTOENCODERS,
    }


def _listed() -> list[str]:
    sections = _sections()
    return [*sections, *(name for names in sections.values() for name in names)]


@app.command("list")
@argument(
    "name", "methods, data, scenarios, models or autoencoders; or a method or a scenario, to list its options. By "
    "default, all names are listed.", required=False, type=Name(_listed),
)  # fmt: skip
def list_names(name: str | None) -> None:
    """List methods, data, scenarios and models. With a method or a scenario, list its options."""
    sections = _sections()
    plain = {**sections["data"], **sections["models"], **sections["autoencoders"]}
    if name is None or name in sections:
        for title, names in (sections if name is None else {name: sections[name]}).items():
            print(f"{title.capitalize()}\n{table_text([(f'  {each}', text) for each, text in names.items()], (0, 1))}")
    elif name in plain:
        print(f"{name}: {plain[name]}")
    elif ":" in name or name in sections["methods"] or name in sections["scenarios"]:
        _print_options(name, "scenario" if name in sections["scenarios"] else "method")
    else:
        raise unknown_name("name", name, _listed())


def _print_options(name: str, kind: registry.Kind) -> None:
    """Print what a method or scenario is, and its options."""
    from fedkin.core.method import options_of
    from fedkin.experiment.config import FROM_DATA, MethodSection, SimulationSection, model_of

    declared: Any = registry.resolve(kind, name)
    model_of(declared, SimulationSection if kind == "scenario" else MethodSection)  # refuses what no file can hold
    print(f"{name}: {registry.summary_of(kind, name)}")
    section = "method" if kind == "method" else "simulation"
    if kind == "method":
        print(_in_words(declared))
        if paper := declared.traits.paper:
            texts = [f"{key} = {toml_text(value)}" for key, value in paper.items()]
            print(f'variant = "paper" stands for {", ".join(texts)}.')
    print(f"\nOptions, set by --set {section}.NAME=VALUE or in [{section}] of an experiment's file:")
    for each in options_of(declared):
        if kind == "method" or each.name not in FROM_DATA:
            head = f"{each.name} = {each.default_text}" if each.default_text else each.name
            print(f"\n  {head}  ({each.allowed()})\n      {each.meaning}".rstrip())


def _in_words(method: type[Any]) -> str:
    """Describe what a method clusters, who gives the number of clusters, and whether samples are moved."""
    traits = method.traits
    what = f"{'a baseline that ' if traits.baseline else ''}clusters {traits.clusters}"
    number = "finds their number" if traits.finds_k else "their number is given"
    if traits.clusters is None or (traits.baseline and traits.finds_k):
        what, number = "a baseline" if traits.baseline else "evaluates nothing", "forms no clusters"
    kind = "synthetic samples" if traits.copies_data else "samples"
    leave = "leave" if traits.moves_data or traits.copies_data else "stay at"
    return f"{what[0].upper()}{what[1:]}; {number}; {kind} {leave} the clients."
