"""Page of a benchmark: the best methods of each scenario, and ranks over all scenarios."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.report import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes
from fedkin.studies.benchmark.cell_results import CellResult, scores
from fedkin.studies.benchmark.cells import Conditions, about
from fedkin.studies.benchmark.ranks import Ranking, best_of, ranked
from fedkin.studies.compare.candidates import Family

MEASURES: dict[Family, str] = {
    "clients": "mean accuracy of each client's model on its own tests",
    "samples": "ARI of samples' clusters and their classes",
}
_NONE = "–"


def page_of(
    family: Family, conditions: Conditions, scenarios: Sequence[str], results: Sequence[CellResult]
) -> PageView:
    """Build the page of a benchmark."""
    known = [result for result in results if result.scenario in scenarios]
    table = scores(known, family)
    ranking = ranked(table)
    failures = failures_of(known)
    parts = [
        PagePart("scenarios", "Scenario by scenario", tables=[_score_table(family, scenarios, known)],
                 notes=where_to_take(scenarios, known, family)),
        PagePart("ranks", "Over all scenarios", tables=[_rank_table(ranking)], notes=[rank_sentence(ranking)]),
        PagePart("costs", "Cost and number of clusters", tables=[_cost_table(known)]),
    ]  # fmt: skip
    if failures:
        parts.append(PagePart("failures", "Without a result", notes=failures))
    shared = "{rounds} rounds of `{module}`; everything else" if family == "clients" else "Everything"
    return PageView(
        title=f"Benchmark of methods that cluster {family}",
        lead=f"On `{conditions.data}`, by {MEASURES[family]}. {shared.format(**conditions.settings)} is a "
        "method's default, none is tuned. Methods that cannot find the number of clusters are given it.",
        summary=[
            ("Methods", str(len({one.method for one in known})), "with a result or a reason"),
            ("Scenarios", str(len({one.scenario for one in known})), "of " + str(len(scenarios))),
            ("Runs", str(len(known)), "finished or given up"),
        ],
        parts=parts,
        settings=vars(conditions) | {"settings": dict(conditions.settings)},
    )


def where_to_take(scenarios: Sequence[str], results: Sequence[CellResult], family: Family) -> list[str]:
    """Return a sentence per scenario: the best method, and those within two standard errors of it."""
    table, found = scores(results, family), []
    for scenario in scenarios:
        best = best_of(table, scenario)
        if best:
            rest = f"; within the noise of it: {', '.join(f'`{name}`' for name in best[1:])}" if best[1:] else ""
            found.append(f"{scenario} ({about(family, scenario)}): `{best[0]}`{rest}.")
    return found


def rank_sentence(ranking: Ranking) -> str:
    """Describe the ranks of the methods in a sentence."""
    if ranking.difference is None:
        return "Ranks need at least two methods with results of at least two scenarios."
    alike = ", ".join(f"`{name}`" for name in ranking.as_good)
    friedman = "" if ranking.p is None else f" Friedman's test that all are alike: p = {ranking.p:.2g}."
    return (
        f"Mean ranks over {len(ranking.scenarios)} scenarios; nearer than the critical difference of "
        f"{ranking.difference:.2f} (Nemenyi, 5 %) they do not differ significantly. As good as the best: {alike}."
        f"{friedman}"
    )


def as_text(family: Family, scenarios: Sequence[str], results: Sequence[CellResult]) -> str:
    """Write the scores and ranks for a terminal."""
    table = scores(results, family)
    ranking = ranked(table)
    methods = _in_order(ranking, results)
    rows = [["method", *scenarios, "rank"]]
    for method in methods:
        rank = ranking.ranks.get(method)
        cells = [_mean(table.get((scenario, method), [])) for scenario in scenarios]
        rows.append([method, *cells, _NONE if rank is None else f"{rank:.2f}"])
    lines = [table_text(rows), sentence_text(rank_sentence(ranking).replace("`", ""))]
    if failures := failures_of(results):
        lines += ["Without a result; with a longer --limit, what took too long is tried again:"]
        lines += [f"  {failure.replace('`', '')}" for failure in failures]
    return "\n".join(lines)


def failures_of(results: Sequence[CellResult]) -> list[str]:
    """Return, in order, which methods have no result in which scenarios, and why; each reason once per scenario."""
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in results:
        if one.failed:
            methods[one.scenario, one.failed].add(f"`{one.method}`")
    return sorted(f"{', '.join(sorted(names))}, {scenario}: {why}" for (scenario, why), names in methods.items())


def _in_order(ranking: Ranking, results: Sequence[CellResult]) -> list[str]:
    """Sort the methods by rank, those without a rank last."""
    return list(dict.fromkeys([*ranking.ranks, *(result.method for result in results)]))


def _score_table(family: Family, scenarios: Sequence[str], results: Sequence[CellResult]) -> ResultTable:
    table = scores(results, family)
    rows = []
    for method in _in_order(ranked(table), results):
        cells = []
        for scenario in scenarios:
            values = table.get((scenario, method), [])
            best = method in best_of(table, scenario)
            spread = f"± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
            cells.append(TableCell(_mean(values), beside=spread, verdict="best" if best else ""))
        rows.append((method, cells))
    measure = f"{MEASURES[family][0].upper()}{MEASURES[family][1:]}"
    caption = f"{measure}: mean and standard deviation over seeds. Marked: the best, and those within the noise of it."
    return ResultTable("Scores", caption, "Method", list(scenarios), rows)


def _rank_table(ranking: Ranking) -> ResultTable:
    rows = [
        (name, [TableCell(f"{rank:.2f}", verdict="best" if name in ranking.as_good else "")])
        for name, rank in ranking.ranks.items()
    ]
    return ResultTable("Mean ranks", "1 is the best; marked: not significantly worse.", "Method", ["Mean rank"], rows)


def _cost_table(results: Sequence[CellResult]) -> ResultTable:
    rows = []
    for method in dict.fromkeys(result.method for result in results):
        own = [result for result in results if result.method == method and not result.failed]
        if not own:
            continue
        found = sorted({result.found for result in own if result.found is not None})
        span = _NONE if not found else str(found[0]) if len(found) == 1 else f"{found[0]}–{found[-1]}"
        cells = [
            TableCell(span, beside="given" if own[0].given else "found"),
            TableCell(format_bytes(int(np.mean([result.bytes for result in own])))),
            TableCell(f"{np.mean([result.seconds for result in own]):.1f}"),
            TableCell(f"{np.mean([result.rounds for result in own]):.0f}"),
            TableCell(format_bytes(memory) if (memory := max(result.memory for result in own)) else _NONE),
        ]
        rows.append((method, cells))
    caption = (
        "Means over all runs, each on one thread; numbers of clusters from the fewest to the most, and memory the most "
        "of a run's process, Python and PyTorch included."
    )
    return ResultTable("Costs", caption, "Method", ["Clusters", "Moved", "Seconds", "Steps", "Memory"], rows)


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f}" if values else _NONE
