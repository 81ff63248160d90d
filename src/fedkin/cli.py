"""The command ``fedkin``. Nothing heavy is imported before a command needs it.

Bad input, a full disk and the like end with one sentence on stderr and exit code 2; Ctrl-C ends with 130.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from fedkin.config import Config

app = typer.Typer(
    name="fedkin",
    help="Find who is kin in a federation, without moving the data.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

federation = typer.Typer(help="Make what a real federation needs; Flower runs it.", no_args_is_help=True)
app.add_typer(federation, name="federation")

Folder = Annotated[Path, typer.Argument(help="Folder of a run.", show_default=False)]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, of this process or as given; ends in `SystemExit`."""
    try:
        app(arguments, prog_name="fedkin")
    except (OSError, ValueError) as error:
        from fedkin.core.errors import FedkinError

        if isinstance(error, OSError):
            place = f" ({error.filename})" if error.filename else ""
            _stop(f"{error.strerror or error}{place}.", 2)
        if isinstance(error, FedkinError):
            _stop(str(error), 2)
        raise


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="A method's name or a .toml file.", show_default=False)],
    data: Annotated[
        str | None, typer.Option(help="Data set: a name from `fedkin list`, a hub name, a file or a folder.")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="How clients get data: a name from `fedkin list`.")] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    engine: Annotated[str | None, typer.Option(help="What reaches the clients: local, or Flower's simulation.")] = None,
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
    from fedkin.config import load_config

    config = load_config(experiment, overrides)
    folder = out or _new_folder(config)
    with _resumable(folder):
        from fedkin.run import execute
        from fedkin.terminal import print_outcome, show_progress

        with show_progress() as progress:
            outcome = execute(config, folder, progress)
        print_outcome(outcome)


@app.command()
def resume(folder: Folder) -> None:
    """Go on with a run that was stopped, from its last step."""
    with _resumable(folder):
        from fedkin.run import resume as go_on
        from fedkin.terminal import print_outcome, show_progress

        with show_progress() as progress:
            outcome = go_on(folder, progress)
        print_outcome(outcome)


@app.command()
def report(folder: Folder) -> None:
    """Write a run's report.html again."""
    from fedkin.run import report as write_again

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
    anew: Annotated[
        bool, typer.Option("--new", help="Start a new tracked run, even where a tool knows the run.")
    ] = False,
) -> None:
    """Send the records of runs to tools that track them, as far as they do not have them yet."""
    try:
        from fedkin.track import track as told

        for folder in folders:
            print(f"Told of {folder}: {told(folder, to or [], settings or [], anew)} steps")
    except KeyboardInterrupt:
        _stop("Interrupted; the same command sends what is missing.", 130)


@app.command()
def pretrain(
    data: Annotated[
        str, typer.Argument(help="Data other than the clients': anything --data takes.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="File for the encoder; training goes on where it stopped.")],
    model: Annotated[str, typer.Option(help="An autoencoder from `fedkin list`.")] = "auto",
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 20,
    samples: Annotated[int | None, typer.Option(help="At most so many samples, drawn at random.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of labels to leave out.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Train an encoder for the method `embedding` on other data than the clients'."""
    try:
        from fedkin.pretrain import pretrain as trained
        from fedkin.terminal import show_progress

        with show_progress() as progress:
            progress.phase(f"Reading {data}")

            def told(epoch: int, epochs: int, error: float) -> None:
                progress.phase(f"Epoch {epoch} of {epochs} done, mean squared error {error:.4f}")

            made = trained(data, out, label=label, name=model, epochs=epochs, samples=samples, seed=seed, told=told)
    except KeyboardInterrupt:
        if out.exists():
            _stop(f"Interrupted; the same command goes on from the last epoch in {out}.", 130)
        _stop("Interrupted before anything was written.", 130)
    print(f"Encoder: {out}, mean squared error {made.about['error']:.4f} after {made.about['epochs']} epochs")


@app.command()
def costs(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="Count until a number is reached, such as personal_accuracy=0.95.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Tell what runs cost, by phase: bytes, and seconds; and as multiples of the first run's."""
    from fedkin import costs as accounts

    wanted = accounts.parsed_target(target) if target is not None else None
    found = accounts.costs_of(folders, wanted)
    print(accounts.as_json(found, wanted) if as_json else accounts.as_text(found, wanted))


@app.command()
def attack(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; by default, the run's.")] = None,
) -> None:
    """Tell what the messages of a run of 'embedding' give away: samples, and who was a member."""
    from fedkin.attack import attack as attacked

    print(attacked(folder, out))


@app.command()
def predict(
    folder: Folder,
    data: Annotated[str, typer.Argument(help="New samples: anything --data takes.", show_default=False)],
    label: Annotated[str | None, typer.Option(help="Column of labels to leave out.")] = None,
    client: Annotated[int | None, typer.Option(help="Whose samples, where a method groups clients.")] = None,
    group: Annotated[int | None, typer.Option(help="The group of a new client instead, see `fedkin assign`.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; by default, standard output.")] = None,
) -> None:
    """Tell the group, or the class by a client's model, of new samples, as CSV."""
    from fedkin.core.files import write_atomically
    from fedkin.outputs import predict as predicted

    text = predicted(folder, data, label, client, group)
    if out:
        write_atomically(out, text)
    else:
        sys.stdout.write(text)


@app.command()
def assign(
    folder: Folder,
    data: Annotated[str, typer.Argument(help="The client's samples: anything --data takes.", show_default=False)],
    label: Annotated[str | None, typer.Option(help="Column of labels, where the usual names do not tell.")] = None,
) -> None:
    """Tell the group of a client that a run has never seen, by its samples, labelled where the method needs it."""
    from fedkin.outputs import assign as group_of

    print(group_of(folder, data, label))


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENTRY]...",
            help="Entries such as fedcref/table-6, papers, all, or a .toml file; without any, all are listed.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="quick, or paper: the paper's own size.")] = "quick",
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, instead of the entry's.", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time; by default one per core.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs and tables; what is there is not run again.")] = Path(
        "reproductions"
    ),
    only: Annotated[
        list[str] | None, typer.Option(help="A row or a column by its name, again for more; by default, all.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; write the tables of what is there.")] = False,
) -> None:
    """Run tables and figures of the papers, and set ours beside what they print."""
    if scale not in ("quick", "paper"):
        _stop(f"--scale is '{scale}'; it should be quick or paper.", 2)
    from fedkin.reproduce import terminal

    if not names:
        print(terminal.listing(out))
        return
    try:
        terminal.reproduced(names, "quick" if scale == "quick" else "paper", seeds, jobs, out, show, only or [])
    except KeyboardInterrupt:
        _stop("Interrupted; the same command goes on where it stopped.", 130)


@federation.command()
def init(
    folder: Annotated[Path, typer.Argument(help="New folder for the Flower app.", show_default=False)],
    experiment: Annotated[str, typer.Argument(help="A method's name or a .toml file.")] = "kin-graph",
    sites: Annotated[int, typer.Option(help="How many sites there will be.", min=1)] = 3,
    host: Annotated[str, typer.Option(help="Name or address that sites know the server by.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The server's port.", min=1, max=65535)] = 8000,
    insecure: Annotated[bool, typer.Option("--insecure", help="No encryption, and anybody may take part.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any key of the experiment, such as method.n_clusters=4.")
    ] = None,
) -> None:
    """Write a Flower app folder that runs an experiment on real sites, with certificates."""
    _needs_flower()
    from fedkin.federation.folder import init as written

    written(folder, experiment, sites, settings or [], host, port, insecure)
    print(f"Wrote {folder}; {folder / 'README.md'} says how to start.")


@federation.command()
def key(path: Annotated[Path, typer.Argument(help="File for the private key.", show_default=False)]) -> None:
    """Make a site's key; the server registers its public half."""
    _needs_flower()
    from fedkin.federation.certificates import make_key

    print(f"Wrote {path}, which stays here, and {make_key(path)} for the server.")


@app.command("list")
def list_names(
    section: Annotated[
        str | None,
        typer.Argument(help="methods, data, scenarios, models or autoencoders; by default, all.", show_default=False),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show for every scenario who holds what.")] = False,
    data: Annotated[
        str | None, typer.Option(help="Data set for --preview; by default, digits.", show_default=False)
    ] = None,
) -> None:
    """List methods, data, scenarios, models and autoencoders, one line each."""
    from fedkin import registry
    from fedkin.data import catalogue
    from fedkin.models.names import AUTOENCODERS, MODELS

    sections = {
        "methods": {name: entry.summary for name, entry in registry.METHODS.items()},
        "data": catalogue.EMBEDDED,
        "scenarios": {name: entry.summary for name, entry in registry.SCENARIOS.items()},
        "models": MODELS,
        "autoencoders": AUTOENCODERS,
    }
    if section is not None and section not in sections:
        from fedkin.core.errors import unknown_name

        raise unknown_name("section", section, sections)
    shown = [section] if section else list(sections)
    below = _previews(shown, preview, data)
    for title in shown:
        print(title.capitalize())
        for name, summary in sections[title].items():
            print(f"  {name:<17}  {summary}")
            for line in below.get(name, "").splitlines() if title == "scenarios" else ():
                print(f"    {line}".rstrip())
            if title == "scenarios" and preview:
                print()


def _previews(shown: list[str], wanted: bool, data: str | None) -> dict[str, str]:
    """Who holds what, by scenario; nothing unless it is wanted."""
    if not wanted and data is None:
        return {}
    if not wanted or "scenarios" not in shown:
        _stop("--preview is for `fedkin list scenarios`, and --data for --preview.", 2)
    from fedkin import registry
    from fedkin.data.preview import previews

    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    return previews(made, data or "digits")


def _needs_flower() -> None:
    from importlib.util import find_spec

    if find_spec("flwr") is None:
        _stop("A federation needs Flower: pip install 'fedkin[flower]'.", 2)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if (folder / "config.toml").exists():
            _stop(f"Interrupted; go on with `fedkin resume {folder}`.", 130)
        _stop("Interrupted before anything was written.", 130)


def _new_folder(config: Config) -> Path:
    """``runs/<method>-<data>-seed<seed>``, with a counter if it is taken."""
    data = re.sub(r"[^A-Za-z0-9._]+", "-", Path(config.data.source).name).strip("-.") or "data"
    first = Path("runs") / f"{config.method_name}-{data}-seed{config.seed}"
    folder, count = first, 1
    while folder.exists():
        count += 1
        folder = first.with_name(f"{first.name}-{count}")
    return folder


def _stop(sentence: str, code: int) -> NoReturn:
    print(f"fedkin: {sentence}", file=sys.stderr)
    raise SystemExit(code)
