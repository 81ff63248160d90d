"""Commands on finished runs: reports, costs, records, predictions and assignments."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import click

from fedkin.cli import shared_options
from fedkin.cli.app import REFUSED, app, interruptible, resumable, stop, warn
from fedkin.cli.help_pages import SAMPLES

_SECTION = "Finished runs"
_MAX_NAME = 100
"""Bytes of clients' names in that of a folder."""


_decimal = click.option(
    "--decimal",
    type=click.Choice([".", ","]),
    help="What stands before the decimals of numbers in CSV; by default as in the run.",
)
_encoding = click.option(
    "--encoding", metavar="NAME", help="Encoding of CSV that is not UTF-8, such as cp1252; by default as in the run."
)
_sheet = click.option(
    "--sheet", metavar="NAME", help="Sheet of a workbook that has several, such as .xlsx; by default as in the run."
)


@app.command(section=_SECTION)
@shared_options.folder()
@shared_options.quiet
def report(folder: Path, quiet: bool) -> None:
    """Write a run's report.html again."""
    from fedkin.experiment.run import report as write_again

    page = write_again(folder)
    if not quiet:
        print(f"Report: {page}")


@app.command(section=_SECTION)
@shared_options.folder(help="Folder of a finished run.")
@shared_options.argument(
    "data", "New samples: anything --data takes, or a folder with one file per client.", metavar="DATA", type=SAMPLES
)
@click.option("--label", metavar="COLUMN", help="Column of labels to leave out.")
@click.option("--client", metavar="NAME", help="Client of the run whose model predicts, by name or number.")
@click.option("--cluster", type=int, help="Cluster whose model predicts, for a new client; see `fedkin assign`.")
@shared_options.out("File to write; by default, standard output.")
@_decimal
@_encoding
@_sheet
@click.option(
    "--memberships",
    is_flag=True,
    help="Add to what part each sample belongs to each cluster; with kin-graph nearly all wholly to one.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, an object per sample, instead of CSV.")
@shared_options.device("Where networks and kin-graph's large searches compute, such as cuda.")
@shared_options.packages
@click.option("-q", "--quiet", is_flag=True, help="Leave out notes on the data.")
def predict(
    folder: Path, data: str, out: Path | None, device: str, packages: tuple[str, ...], quiet: bool, **options: Any
) -> None:
    """Predict the cluster or the class of new samples, as CSV. A class needs a client or a cluster."""
    from fedkin.core.files import write_atomically
    from fedkin.experiment.prediction import predict as predicted

    with _only_from(packages), _options_of_new_rows(), shared_options.computing_on(device):
        text = predicted(folder, data, **options, warn=None if quiet else warn)
    if out:
        write_atomically(out, text)
    else:
        sys.stdout.write(text)


@contextmanager
def _options_of_new_rows() -> Iterator[None]:
    """Have errors name options as `predict` and `assign` have them, without --set; a context manager."""
    from fedkin.core import FedkinError

    try:
        yield
    except FedkinError as error:
        said = re.sub(r"\bset (decimal|encoding|sheet) = ('[^']*')", r"give --\1 \2", str(error))
        raise FedkinError(said.replace(", or name the columns in categorical", "")) from error


@app.command(section=_SECTION)
@shared_options.folder(help="Folder of a finished run.")
@shared_options.argument("data", "The client's samples: anything --data takes.", metavar="DATA", type=SAMPLES)
@click.option("--label", metavar="COLUMN", help="Column of labels, if it has neither the run's nor a usual name.")
@_decimal
@_encoding
@_sheet
@shared_options.packages
def assign(folder: Path, data: str, packages: tuple[str, ...], **options: Any) -> None:
    """Assign a client unseen in training to a cluster. Its samples are labelled where the method needs it."""
    from fedkin.experiment.prediction import assign as cluster_of

    with _only_from(packages), _options_of_new_rows():
        print(cluster_of(folder, data, **options))


@app.command(section=_SECTION)
@shared_options.folder(help="Folder of a finished run.")
@click.option("--clusters", type=int, help="Number of clusters.")
@click.option("--resolution", type=float, help="Resolution instead of a number: the higher, the more clusters.")
@shared_options.out("Folder for the results; by default one beside the run's.")
@shared_options.as_json
@shared_options.quiet
def cut(
    folder: Path, clusters: int | None, resolution: float | None, out: Path | None, as_json: bool, quiet: bool
) -> None:
    """Cut a run's clusters again. They become coarser or finer, and clients are asked for nothing."""
    from fedkin.experiment.cut import cut as cut_again
    from fedkin.experiment.terminal import show_outcome, show_progress

    what = f"resolution-{resolution:g}" if clusters is None and resolution is not None else f"{clusters}-clusters"
    target = out or folder.with_name(f"{folder.resolve().name}-{what}")
    with resumable(target):
        with show_progress(quiet) as progress:
            outcome = cut_again(folder, target, clusters, resolution, progress)
        if outcome is not None:
            show_outcome(outcome, as_json, quiet)
            return
    key = f"n_clusters = {clusters}" if resolution is None else f"resolution = {resolution}"
    print(
        f"Prepared {target}. Clients get their clusters when the federation runs the experiment with {key} in its "
        f'[method] and with out = "{target.resolve()}".'
    )


@app.command(section=_SECTION)
@shared_options.folder(help="Folder of a finished run.")
@click.option(
    "--client",
    "clients",
    metavar="NAME",
    multiple=True,
    required=True,
    help="Client to forget, by name or number. May be repeated.",
)
@click.option("--retrain", is_flag=True, help="Run again without it, even where the method can leave it out exactly.")
@click.option("--in-place", is_flag=True, help="Replace the run; by default it stays as it is.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and what it costs, and do nothing.")
@shared_options.out("Folder for the run without it; by default one beside the run's.")
@shared_options.as_json
@shared_options.quiet
def forget(
    folder: Path, clients: tuple[str, ...], retrain: bool, in_place: bool, dry_run: bool, out: Path | None,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Leave a client out of a run. What was done, and what it does not cover, is in forgotten.json."""
    if in_place and out is not None:
        stop("--in-place and --out were both given; the run is replaced, or another one is written.", REFUSED)
    from fedkin.experiment.forgetting import forget as forgotten
    from fedkin.experiment.forgetting_plan import plan_forgetting
    from fedkin.experiment.run_folder import LEDGER
    from fedkin.experiment.terminal import show_outcome, show_progress
    from fedkin.experiment.terminal_tables import sentence_text

    plan = plan_forgetting(folder, clients, retrain)
    if dry_run:
        print(sentence_text(plan.sentence()))
        return
    if not quiet:
        print(plan.sentence(), file=sys.stderr)
    target = None if in_place else out or _beside(folder, plan.clients, plan.names)
    with resumable(target or folder):
        with show_progress(quiet) as progress:
            outcome = forgotten(plan, target, progress)
        show_outcome(outcome, as_json, quiet)
    if (outcome.folder / LEDGER).is_file() and not quiet and not as_json:
        print(
            f"Sites get their new clusters when the federation runs {outcome.folder / 'config.toml'}, copied to its "
            f'experiment.toml, with out = "{outcome.folder.resolve()}".'
        )


def _beside(folder: Path, clients: Sequence[int], names: Sequence[str]) -> Path:
    """Return the folder of a run without some clients, ``<run>-without-<names>``; many are called by position."""
    from fedkin.data.population import client_name

    called = "-".join(re.sub(r"[^\w.@+]+", "-", client_name(at, names)).strip("-.") or str(at) for at in clients)
    called = called if len(called.encode(errors="replace")) <= _MAX_NAME else "-".join(map(str, clients))
    return folder.with_name(f"{folder.resolve().name}-without-{called}")


@app.command(section=_SECTION)
@shared_options.folders
@click.option(
    "--target", metavar="METRIC=NUMBER", help="Count until a number is reached, such as personal_accuracy=0.95."
)
@shared_options.as_json
def costs(folders: tuple[Path, ...], target: str | None, as_json: bool) -> None:
    """Show what runs cost: bytes and seconds, by phase. Further runs are also relative to the first."""
    from fedkin.studies import costs as accounts

    wanted = accounts.parsed_target(target) if target is not None else None
    found = accounts.costs_of(folders, wanted)
    print(accounts.as_json(found, wanted) if as_json else accounts.as_text(found, wanted))


@app.command(section=_SECTION)
@shared_options.folder(help="Folder of a finished run of `embedding`.")
@shared_options.out("Folder for the results; by default, the run's.")
@shared_options.device("Where the encoder computes, such as cuda.")
@shared_options.as_json
@shared_options.quiet
def attack(folder: Path, out: Path | None, device: str, as_json: bool, quiet: bool) -> None:
    """Measure what an `embedding` run's messages give away. That is samples, and membership."""
    from fedkin.studies.attack.attack import JSON
    from fedkin.studies.attack.attack import attack as attacked

    with shared_options.computing_on(device):
        text = attacked(folder, out)
    if as_json:
        print(((out or folder) / JSON).read_text(encoding="utf-8"), end="")
    elif not quiet:
        print(text)


@app.command(section=_SECTION)
@shared_options.folders
@shared_options.tools("--to", default="; by default, those of the experiment")
@shared_options.settings("Any key of [tracking], such as tracking.project=trials.")
@click.option("--new", "anew", is_flag=True, help="Start a new tracked run, even if a tool knows the run.")
@shared_options.quiet
def track(folders: tuple[Path, ...], to: tuple[str, ...], settings: tuple[str, ...], anew: bool, quiet: bool) -> None:
    """Send the records of runs to tracking tools. Records that a tool already has are left out."""
    with interruptible("the same command sends what is missing"):
        from fedkin.experiment.tracking.late_tracking import track as catch_up

        for folder in folders:
            sent = catch_up(folder, list(to), list(settings), anew)
            if not quiet:
                print(f"Sent of {folder}: {sent} steps")


def _only_from(packages: tuple[str, ...]) -> AbstractContextManager[None]:
    """Restrict imports named in a run's folder to fedkin and these packages; a context manager."""
    from fedkin.core.tasks import trusted_packages

    why = "so it is not imported; --package allows another package that you trust"
    return trusted_packages(["fedkin", *packages], why)
