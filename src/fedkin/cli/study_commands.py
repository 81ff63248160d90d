"""Commands that make many runs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal

import click

from fedkin.cli import shared_options
from fedkin.cli.app import app, interruptible
from fedkin.data.names import check_source
from fedkin.experiment.registry import check_known, is_known

_SECTION = "Many runs"


@app.command(section=_SECTION)
@shared_options.argument(
    "what", "Data, as --data takes them; a scenario from `fedkin list`; or a .toml file.", metavar="DATA-or-SCENARIO"
)
@click.option("--methods", metavar="NAMES", default="all", help="Names with commas between them, or all that suit.")
@click.option("--budget", metavar="TIME", default="10m", help="Time for all runs together, such as 90s, 10m or 2h.")
@click.option(
    "--question", type=click.Choice(["samples", "clients", "auto"]), default="auto", help="What is to be clustered."
)
@click.option("--clusters", type=int, help="Number of clusters, if it is known.")
@click.option("--seeds", type=int, default=3, help="Runs of each method.")
@click.option("--seed", type=int, help="Seed of the partition and of the first run; by default 0.")
@click.option(
    "--by",
    type=click.Choice(["score", "truth"]),
    default="score",
    help="Ranking of methods: by score, which needs no labels, or by truth.",
)
@shared_options.data("Data set, where a scenario is compared.")
@shared_options.scenario("How clients get data, where data are compared.")
@shared_options.clients
@shared_options.out("Folder; by default one in comparisons/. Existing results are reused.")
@shared_options.settings("Any key of the experiments, such as method.rounds=10.")
@shared_options.as_json
@shared_options.quiet
def compare(
    what: str,
    methods: str,
    budget: str,
    question: str,
    clusters: int | None,
    seeds: int,
    seed: int | None,
    by: str,
    data: str | None,
    scenario: str | None,
    clients: int | None,
    out: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the methods that suit some data, and recommend one. Methods are ranked with or without labels."""
    began = time.monotonic()
    if not is_known("scenario", what) and not what.endswith(".toml"):
        check_source(what)
    for name in _names(methods):
        check_known("method", name.partition("+")[0])
    from fedkin.studies.compare import Options, compared
    from fedkin.studies.comparison import bar, no_bar, print_comparison
    from fedkin.studies.question import question_of

    names = _names(methods)
    asked = question_of(
        what, data=data, scenario=scenario, clients=clients, seed=seed, settings=settings, asked=question, methods=names
    )
    folder = out or Path("comparisons") / asked.name
    with interruptible("the same command resumes the comparison"):
        options = Options(names, clusters, seeds, budget, by)
        found = compared(asked, options, folder, no_bar if quiet else bar, began=began)
    if as_json:
        print(found.to_json(), end="")
    elif not quiet:
        print_comparison(found)


@app.command(section=_SECTION)
@shared_options.argument(
    "names",
    "Entries such as fedcref/table-6, papers, all, or a .toml file; without any, all are listed.",
    metavar="[ENTRY]...",
    nargs=-1,
)
@click.option("--scale", type=click.Choice(["quick", "paper"]), default="quick", help="quick, or the paper's own size.")
@click.option("--seeds", metavar="INTEGER", type=click.IntRange(1), help="Number of seeds, instead of the entry's.")
@click.option(
    "-j", "--jobs", metavar="INTEGER", type=click.IntRange(1), help="Runs at a time; by default one per core."
)
@shared_options.out("Folder for runs and tables; existing runs are reused.", default=Path("reproductions"))
@click.option(
    "--only", metavar="NAME", multiple=True, help="A row or a column by its name; by default, all. May be repeated."
)
@shared_options.device(
    "Where networks and kin-graph's large searches compute, such as cuda; runs on another device are other runs."
)
@click.option("--show", is_flag=True, help="Run nothing; write the tables of existing runs.")
@click.option("--markdown", is_flag=True, help="Print tables as Markdown.")
@shared_options.as_json
@shared_options.quiet
def reproduce(names: tuple[str, ...], out: Path, markdown: bool, as_json: bool, **options: Any) -> None:
    """Reproduce tables of the papers. Figures become tables, too."""
    from fedkin.studies.reproduce.entry import chosen

    for name in names:
        chosen(name)
    from fedkin.studies.reproduce import command

    if not names:
        print(command.listing(out))
        return
    form: command.Form = "json" if as_json else "markdown" if markdown else "table"
    with interruptible("the same command resumes where it stopped"):
        command.reproduced(names, out=out, form=form, **options)


@app.command(section=_SECTION)
@shared_options.argument("what", "What methods cluster.", type=click.Choice(["clients", "samples"]))
@click.option("--budget", metavar="TIME", default="2h", help="Time for all runs of this call, such as 10m or 2h.")
@click.option("--limit", metavar="TIME", default="10m", help="Time for one run, after which it is given up.")
@click.option("--data", metavar="DATA", default="digits", help="Labelled data set.")
@click.option(
    "--methods", metavar="NAMES", default="all",
    help="Names with commas between them, or all; NAME+OPTION=VALUE has another value than by default.",
)  # fmt: skip
@click.option("--scenarios", metavar="NAMES", default="all", help="Names with commas between them, or all.")
@click.option("--seeds", type=int, default=3, help="Seeds of each scenario and method.")
@click.option("--rounds", type=int, default=20, help="Rounds of methods that cluster clients.")
@click.option("--module", metavar="NAME", default="perceptron", help="Network of methods that cluster clients.")
@shared_options.out("Folder; by default one in benchmark-runs/. Existing results count.")
@shared_options.as_json
@shared_options.quiet
def benchmark(
    what: Literal["clients", "samples"],
    data: str,
    methods: str,
    scenarios: str,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **sizes: Any,
) -> None:
    """Run all methods on all scenarios, and rank them. The same command resumes where it stopped."""
    for name in _names(methods):
        check_known("method", name.partition("+")[0])
    from fedkin.studies.benchmark import PAGE, BenchmarkOptions, as_text, benchmarked, plain, scenarios_of

    options = BenchmarkOptions(what, data, _names(methods), _names(scenarios), **sizes)
    folder = out or Path("benchmark-runs") / f"{what}-{data.replace('/', '-')}"
    with interruptible("the same command resumes the benchmark"):
        found = benchmarked(options, folder, shows=not quiet)
    if as_json:
        print(json.dumps(plain(found), indent=2))
    elif not quiet:
        print(as_text(what, scenarios_of(what, options.scenarios), found))
        print(f"{len(found)} results; the page: {folder / PAGE}")


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())
