"""Commands on finished runs, and those that prepare a real federation."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click

from fedkin.cli.app import app, show
from fedkin.cli.help_pages import (
    COUNT,
    METHOD,
    NETWORKS,
    PATH,
    RUN,
    RUN_OR_METHOD,
    SAMPLES,
    Group,
    argument,
    as_json,
    computing_on,
    device,
    flag,
    option,
    out,
    quiet,
    results,
    run_folder,
    run_folders,
    settings,
)
from fedkin.core.errors import FILE, NEW_ROWS, FedkinError, at_door

_PREPARED = 'Prepared {target}. Clients get their clusters when the federation runs {how}, with out = "{out}".'


def _new_rows(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how new rows are read, and of packages that a run's classes may come from."""
    for add in (
        option(
            "--package packages", "Package besides fedkin that a method, model or features may come from. May be "
            "repeated.", "NAME", multiple=True,
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

    with _only_from(packages), at_door(NEW_ROWS), computing_on(device):
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

    with _only_from(packages), at_door(NEW_ROWS):
        print(cluster_of(folder, data, **options))


@app.command()
@run_folder()
@argument(
    "data", "What clients have now, with rows of before or without: a folder with one file each; or `federation`, the "
    "sites' own.", "DATA",
)  # fmt: skip
@results("Folder for the results; by default one beside the run's.")
def update(folder: Path, data: str, out: Path | None, as_json: bool, quiet: bool) -> None:
    """Update a run by next month's rows. Clusters keep their numbers, and changes.html says what changed."""
    beside = (folder.with_name(f"{folder.resolve().name}-update-{count}") for count in itertools.count(1))
    target = out or next(place for place in beside if not place.exists())
    from fedkin.experiment.revision import update as updated

    if show(target, lambda progress: updated(folder, data, target, progress), as_json, quiet) is None:
        print(_PREPARED.format(target=target, out=target.resolve(), how="the experiment"))


@app.command()
@run_folder()
@option("--clusters", "Number of clusters.", type=int)
@option("--resolution", "Resolution instead of a number: the higher, the more clusters.", type=float)
@results("Folder for the results; by default one beside the run's.")
def cut(
    folder: Path, clusters: int | None, resolution: float | None, out: Path | None, as_json: bool, quiet: bool
) -> None:
    """Cut a run's clusters again. They become coarser or finer, and clients are asked for nothing."""
    what = f"resolution-{resolution:g}" if clusters is None and resolution is not None else f"{clusters}-clusters"
    target = out or folder.with_name(f"{folder.resolve().name}-{what}")
    from fedkin.experiment.revision import cut as cut_again

    if show(target, lambda progress: cut_again(folder, target, clusters, resolution, progress), as_json, quiet):
        return
    key = f"n_clusters = {clusters}" if resolution is None else f"resolution = {resolution}"
    how = f"the experiment with {key} in its [method]"
    print(_PREPARED.format(target=target, out=target.resolve(), how=how))


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
    """Name the clusters of a run. Without names to give, list the clusters, and names that might suit."""
    from fedkin.experiment.numbering import cluster_list, list_text, name_clusters

    if pairs:
        name_clusters(folder, pairs)
    print(json.dumps(cluster_list(folder), ensure_ascii=False) if as_json else list_text(folder))


@app.command()
@run_folders
@option("--target", "Count until a number is reached, such as personal_accuracy=0.95.", "METRIC=NUMBER")
@as_json
def costs(folders: tuple[Path, ...], target: str | None, as_json: bool) -> None:
    """Show what runs cost: bytes and seconds, by phase."""
    from fedkin.studies.costs import costs_of, target_in

    goal = None if target is None else target_in(target)
    if target is not None and goal is None:
        raise FedkinError(f"--target '{target}' is not NAME=NUMBER, such as personal_accuracy=0.95.")
    by_run = {str(folder): costs_of(folder, goal) for folder in folders}
    if as_json:
        trees = {run: "null" if costs is None else costs.to_json(orient="index") for run, costs in by_run.items()}
        print(f"{{{', '.join(f'{json.dumps(run)}: {tree}' for run, tree in trees.items())}}}")
        return
    for run, costs in by_run.items():
        print(f"{run}\n{f'{target} not reached' if costs is None else costs.to_string(na_rep='–')}\n")


@app.command()
@run_folder(name="before")
@argument("after", "Folder of another one, on some of the same samples or clients.", "RUN", type=RUN)
@out("File to write a page to; by default none.")
@as_json
def diff(before: Path, after: Path, out: Path | None, as_json: bool) -> None:
    """Compare the clusters of two runs. Says which match, how many moved where, and which columns differ."""
    from fedkin.report.page import write_page
    from fedkin.studies.two_runs import diff as difference_of

    difference = difference_of(before, after)
    if out is not None:
        write_page(out, difference.page())
    print(json.dumps(difference.tree(), ensure_ascii=False) if as_json else difference)


@app.command()
@run_folders
def methods(folders: tuple[Path, ...]) -> None:
    """Write a run's methods paragraph for a paper. Further runs are the same with other seeds."""
    from fedkin.studies.paper import methods_paragraph

    print(methods_paragraph(folders))


@app.command()
@run_folders
@flag("--latex", "Write LaTeX instead of Markdown.")
def table(folders: tuple[Path, ...], latex: bool) -> None:
    """Write a table of runs for a paper. A row has mean ± deviation over the seeds of a method and setting."""
    from fedkin.studies.paper import table as table_of

    print(table_of(folders, latex))


@app.command()
@argument("method", "A method's name, for its paper, too.", "[METHOD]", required=False, type=METHOD)
def cite(method: str | None) -> None:
    """Print BibTeX entries of fedkin, and of a method's paper."""
    from fedkin.studies.citations import cite as entries

    print(entries(method))


@app.command()
@run_folder("Folder of a finished run of `embedding`.")
@out("Folder for the results; by default, the run's.")
@device("the encoder computes")
def attack(folder: Path, out: Path | None, device: str) -> None:
    """Measure what an `embedding` run's messages give away. That is samples, and membership."""
    from fedkin.studies.attack import attack as attacked

    with computing_on(device):
        print(attacked(folder, out))


@app.command()
@argument("what", "Folder of a run, a method's name or a .toml file.", "RUN-or-EXPERIMENT", type=RUN_OR_METHOD)
@out("File to write the page to; by default disclosure.html, in the run's folder if it is one.")
@settings("Any key of an experiment, such as federation.secure_sums=true.")
@as_json
@quiet
def disclosure(what: str, out: Path | None, settings: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Say what leaves a client, message by message. For a board; an experiment is tried on a few rows."""
    from fedkin.experiment.disclosure import PAGE, disclosure_of_run, rehearsed
    from fedkin.report.page import write_page

    folder = Path(what)
    if folder.is_dir() and settings:
        raise FedkinError(f"{folder} is a run, whose settings are as they were; --set is for an experiment.")
    leaving = disclosure_of_run(folder) if folder.is_dir() else rehearsed(what, settings)
    place = out or (folder if folder.is_dir() else Path()) / PAGE
    write_page(place, leaving.page())
    if as_json:
        print(leaving.to_json(), end="")
    elif not quiet:
        print("\n".join([*leaving.sentences(), f"Page to print: {place}"]))


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
@option("--experiment", "Also show what the site's policy would refuse of this experiment.", "FILE", type=PATH)
def check(path: Path, experiment: Path | None) -> None:
    """Check a site's file, policy and data. Nothing is sent, and nothing but embeddings is written."""
    _needs_flower()
    from fedkin.deploy.site_app import checked
    from fedkin.experiment.config import load_config

    with at_door(FILE):
        print("\n".join(checked(path, load_config(str(experiment)) if experiment else None)))


def _needs_flower() -> None:
    from fedkin.engines.flower_engine import check_flower

    check_flower()
