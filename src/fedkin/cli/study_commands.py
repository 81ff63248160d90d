"""Commands that do many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.app import app, stop


@app.command()
def compare(
    what: Annotated[
        str,
        typer.Argument(
            help="Data, as --data takes them; a scenario from `fedkin list`; or a .toml file.",
            metavar="DATA-or-SCENARIO",
            show_default=False,
        ),
    ],
    methods: Annotated[str, typer.Option(help="Names with commas between them, or all that suit.")] = "all",
    budget: Annotated[str, typer.Option(help="Time for all runs together, such as 90s, 10m or 2h.")] = "10m",
    question: Annotated[str, typer.Option(help="What to cluster: samples, clients or auto.")] = "auto",
    clusters: Annotated[int | None, typer.Option(help="Number of clusters, if it is known.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each method.")] = 3,
    seed: Annotated[int | None, typer.Option(help="Seed of the partition and of the first run; by default 0.")] = None,
    by: Annotated[
        str, typer.Option(help="Ranking of methods: by score, which needs no labels, or by truth.")
    ] = "score",
    data: Annotated[str | None, typer.Option(help="Data set, where a scenario is compared.")] = None,
    scenario: Annotated[str | None, typer.Option(help="How clients get data, where data are compared.")] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; by default one in comparisons/. Existing results are reused.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any key of the experiments, such as method.rounds=10.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run the methods that suit some data, and recommend one. Methods are ranked with or without labels."""
    from fedkin.studies.compare import Options, compared, question_of
    from fedkin.studies.compare.comparison_text import print_comparison

    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    asked = question_of(
        what,
        data=data,
        scenario=scenario,
        clients=clients,
        seed=seed,
        settings=settings or (),
        asked=question,
        methods=names,
    )
    folder = out or Path("comparisons") / asked.name
    try:
        found = compared(asked, Options(names, clusters, seeds, budget, by), folder)
    except KeyboardInterrupt:
        stop("Interrupted; the same command resumes the comparison.", 130)
    if as_json:
        print(found.to_json(), end="")
    else:
        print_comparison(found)


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
    out: Annotated[Path, typer.Option(help="Folder for runs and tables; existing runs are reused.")] = Path(
        "reproductions"
    ),
    only: Annotated[
        list[str] | None, typer.Option(help="A row or a column by its name, again for more; by default, all.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; write the tables of existing runs.")] = False,
) -> None:
    """Reproduce tables of the papers. Figures become tables, too."""
    if scale not in ("quick", "paper"):
        stop(f"--scale is '{scale}'; it should be quick or paper.", 2)
    from fedkin.studies.reproduce import reproduce_terminal

    if not names:
        print(reproduce_terminal.listing(out))
        return
    try:
        reproduce_terminal.reproduced(
            names, "quick" if scale == "quick" else "paper", seeds, jobs, out, show, only or []
        )
    except KeyboardInterrupt:
        stop("Interrupted; the same command resumes where it stopped.", 130)
