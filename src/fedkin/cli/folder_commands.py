"""Commands on finished runs: reports, costs, records, predictions and assignments."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.app import Folder, app, resumable, stop

Packages = Annotated[
    list[str] | None,
    typer.Option("--package", help="Package besides fedkin that a method, model or features may come from."),
]


@app.command()
def report(folder: Folder) -> None:
    """Write a run's report.html again."""
    from fedkin.experiment.run import report as write_again

    print(f"Report: {write_again(folder)}")


@app.command()
def track(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.", show_default=False)],
    to: Annotated[
        list[str] | None, typer.Option(help="Tool: tensorboard, mlflow or wandb; by default, those of the experiment.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any key of [tracking], such as tracking.project=trials.")
    ] = None,
    anew: Annotated[bool, typer.Option("--new", help="Start a new tracked run, even if a tool knows the run.")] = False,
) -> None:
    """Send the records of runs to tracking tools. Records that a tool already has are left out."""
    try:
        from fedkin.experiment.catch_up import track as catch_up

        for folder in folders:
            print(f"Sent of {folder}: {catch_up(folder, to or [], settings or [], anew)} steps")
    except KeyboardInterrupt:
        stop("Interrupted; the same command sends what is missing.", 130)


@app.command()
def costs(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="Count until a number is reached, such as personal_accuracy=0.95.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show what runs cost: bytes and seconds, by phase. Further runs are also relative to the first."""
    from fedkin.studies import costs as accounts

    wanted = accounts.parsed_target(target) if target is not None else None
    found = accounts.costs_of(folders, wanted)
    print(accounts.as_json(found, wanted) if as_json else accounts.as_text(found, wanted))


@app.command()
def attack(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; by default, the run's.")] = None,
) -> None:
    """Measure what an `embedding` run's messages give away. That is samples, and membership."""
    from fedkin.studies.attack.attack import attack as attacked

    print(attacked(folder, out))


@app.command()
def cut(
    folder: Folder,
    clusters: Annotated[int | None, typer.Option(help="Number of clusters.")] = None,
    resolution: Annotated[
        float | None, typer.Option(help="Resolution instead of a number: the higher, the more clusters.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; by default one beside the run's.")] = None,
) -> None:
    """Cut a run's clusters again. They become coarser or finer, and clients are asked for nothing."""
    from fedkin.experiment.cut import cut as cut_again
    from fedkin.experiment.terminal import print_outcome, show_progress

    what = f"resolution-{resolution:g}" if clusters is None and resolution is not None else f"{clusters}-clusters"
    target = out or folder.with_name(f"{folder.resolve().name}-{what}")
    with resumable(target):
        with show_progress() as progress:
            outcome = cut_again(folder, target, clusters, resolution, progress)
        if outcome is not None:
            print_outcome(outcome)
            return
    key = f"n_clusters = {clusters}" if resolution is None else f"resolution = {resolution}"
    print(
        f"Prepared {target}. Clients get their clusters when the federation runs the experiment with {key} in its "
        f'[method] and with out = "{target}".'
    )


@app.command()
def predict(
    folder: Folder,
    data: Annotated[str, typer.Argument(help="New samples: anything --data takes.", show_default=False)],
    label: Annotated[str | None, typer.Option(help="Column of labels to leave out.")] = None,
    client: Annotated[
        str | None, typer.Option(help="Client whose model predicts, by name or number, if clients are clustered.")
    ] = None,
    cluster: Annotated[
        int | None, typer.Option(help="Cluster whose model predicts, for a new client; see `fedkin assign`.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; by default, standard output.")] = None,
    decimal: Annotated[
        str | None,
        typer.Option(help="What stands before the decimals of numbers in CSV: . or , ; by default as in the run."),
    ] = None,
    packages: Packages = None,
) -> None:
    """Predict the cluster or the class of new samples, as CSV. A class needs a client or a cluster."""
    from fedkin.core.files import write_atomically
    from fedkin.experiment.outputs import predict as predicted

    with _only_from(packages):
        text = predicted(folder, data, label, client, cluster, decimal)
    if out:
        write_atomically(out, text)
    else:
        sys.stdout.write(text)


@app.command()
def assign(
    folder: Folder,
    data: Annotated[str, typer.Argument(help="The client's samples: anything --data takes.", show_default=False)],
    label: Annotated[str | None, typer.Option(help="Column of labels, if it has no usual name.")] = None,
    packages: Packages = None,
) -> None:
    """Assign a client unseen in training to a cluster. Its samples are labelled where the method needs it."""
    from fedkin.experiment.outputs import assign as cluster_of

    with _only_from(packages):
        print(cluster_of(folder, data, label))


def _only_from(packages: list[str] | None) -> AbstractContextManager[None]:
    """Within it, what a run's folder names is imported from fedkin and these packages alone."""
    from fedkin.core.trusted_packages import trusted_packages

    why = "so it is not imported; --package allows another package that you trust"
    return trusted_packages(["fedkin", *(packages or [])], why)
