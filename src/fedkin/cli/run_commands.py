"""Commands that run or resume one experiment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.app import Folder, app, resumable, stop

if TYPE_CHECKING:
    from fedkin.experiment.config import Config


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="A method's name or a .toml file.", show_default=False)],
    data: Annotated[
        str | None,
        typer.Option(help="Data set: a name from `fedkin list`, a file, a folder, or hf:NAME of the Hugging Face hub."),
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="How clients get data: a name from `fedkin list`.")] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    engine: Annotated[str | None, typer.Option(help="Execution backend: local, or Flower's simulation.")] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Tool to send records to: tensorboard, mlflow or wandb; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; by default a new one in runs/.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any key of the experiment, such as method.local_epochs=30.")
    ] = None,
) -> None:
    """Run an experiment and write its results to a folder."""
    overrides = [
        *([f"data.source={json.dumps(data, ensure_ascii=False)}"] if data is not None else []),
        *([f"scenario.name={json.dumps(scenario)}"] if scenario is not None else []),
        *([f"scenario.clients={clients}"] if clients is not None else []),
        *([f"seed={seed}"] if seed is not None else []),
        *([f"engine.name={json.dumps(engine)}"] if engine is not None else []),
        *([f"tracking.to={json.dumps(track)}"] if track else []),
        *(settings or []),
    ]
    from fedkin.experiment.config import load_config

    config = load_config(experiment, overrides)
    folder = out or _new_folder(config)
    with resumable(folder):
        from fedkin.experiment.run import execute
        from fedkin.experiment.terminal import print_outcome, show_progress

        with show_progress() as progress:
            outcome = execute(config, folder, progress)
        print_outcome(outcome)


@app.command()
def resume(folder: Folder) -> None:
    """Resume a stopped run from its last checkpoint."""
    with resumable(folder):
        from fedkin.experiment.run import resume as go_on
        from fedkin.experiment.terminal import print_outcome, show_progress

        with show_progress() as progress:
            outcome = go_on(folder, progress)
        print_outcome(outcome)


@app.command()
def pretrain(
    data: Annotated[
        str, typer.Argument(help="Data other than the clients': anything --data takes.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="File for the encoder; training resumes from it.")],
    model: Annotated[str, typer.Option(help="An autoencoder from `fedkin list`.")] = "auto",
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 20,
    samples: Annotated[int | None, typer.Option(help="Maximum number of samples, drawn at random.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of labels to leave out.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Train an encoder for the method `embedding` on other data."""
    try:
        from fedkin.experiment.terminal import show_progress
        from fedkin.studies.pretrain import pretrain as trained

        with show_progress() as progress:
            progress.phase(f"Reading {data}")

            def done(epoch: int, epochs: int, error: float) -> None:
                progress.phase(f"Epoch {epoch} of {epochs} done, mean squared error {error:.4f}")

            made = trained(data, out, label=label, name=model, epochs=epochs, samples=samples, seed=seed, on_epoch=done)
    except KeyboardInterrupt:
        if out.exists():
            stop(f"Interrupted; the same command resumes from the last epoch in {out}.", 130)
        stop("Interrupted before anything was written.", 130)
    print(f"Encoder: {out}, mean squared error {made.about['error']:.4f} after {made.about['epochs']} epochs")


def _new_folder(config: Config) -> Path:
    """``runs/<method>-<data>-seed<seed>``, with a counter if it is taken."""
    from fedkin.experiment import registry

    data = re.sub(r"[^A-Za-z0-9._]+", "-", Path(config.data.source).name).strip("-.") or "data"
    first = Path("runs") / f"{registry.file_name(config.method_name)}-{data}-seed{config.seed}"
    folder, count = first, 1
    while folder.exists():
        count += 1
        folder = first.with_name(f"{first.name}-{count}")
    return folder
