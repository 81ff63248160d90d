"""Result of a comparison or a benchmark: rows of methods, the recommendation with its doubts, and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedkin.core.files import write_atomically
from fedkin.experiment.outputs import as_csv
from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words
from fedkin.studies.pages import duration, page_text
from fedkin.studies.question import Candidate, Family, Question, Role, method_named
from fedkin.studies.ranking import ALIKE, CHANCE, SAME, SCORE, TRUTH, Choice, Ranking, Score, ranked, recommend

if TYPE_CHECKING:
    import pandas as pd

JSON, CSV, PAGE, WINNER = "comparison.json", "comparison.csv", "report.html", "recommended.toml"
IN_MEMORY = "clients in memory"
"""What the data of a question are called that no file holds."""
TITLES = {
    "found_again": "Found again", "accuracy": "Accuracy", "stability": "Stability", "ari": "ARI", "nmi": "NMI",
    "ami": "AMI", "pooled_accuracy": "ACC", "purity": "Purity",
}  # fmt: skip
MEANINGS = {
    "found_again": "Each client's samples are split in two at random; what the method predicts for one half from the "
    "other is compared (ARI) with what it finds there itself; 0 is chance, 1 the same clusters. A single cluster "
    "counts 0. Ranks methods; of what is as good, a number that was found or the finer clusters are taken.",
    "accuracy": "Mean over clients of their cluster's model on their own test samples. Ranks methods.",
    "stability": "Mean agreement (ARI) of the clusters of every two seeds, 1 for the same.",
}
ROLES: dict[Role, str] = {
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
    "baseline": "forms no clusters",
}
SPREADS: dict[Family, str] = {
    "samples": "standard deviation over splits",
    "clients": "standard error over clients; the recommendation compares methods client by client",
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of comparing methods on the same clients, or on the scenarios of a benchmark.

    Attributes
    ----------
    question : Question
        What was asked; of a benchmark, of the first scenario.
    scenarios : dict
        The rows of each scenario, `fedkin.studies.ranking.Score`, by its name; of a comparison under an empty name. One
        row per method, the cheapest first.
    seeds : int
        Runs asked of each method.
    out : Path
        Folder of the comparison.
    finders : tuple of Score
        Those that found the number of clusters themselves.
    guess : float or None
        Mean accuracy of always answering a client's most frequent class, where clients are clustered.
    notes : tuple of str
        How the data were read, in sentences.
    """

    question: Question
    scenarios: dict[str, tuple[Score, ...]]
    seeds: int
    out: Path
    finders: tuple[Score, ...] = ()
    guess: float | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Comparison(recommended={self.recommended!r}, methods={len(self.lines)}, out={str(self.out)!r})"

    @property
    def family(self) -> Family:
        """What is clustered, samples or clients."""
        return self.question.family

    @cached_property
    def choice(self) -> Choice | None:
        """The recommended row, with the facts that decided; ``None`` if there is none, and of a benchmark."""
        return recommend(self.family, [row for row in self.scenarios.get("", ()) if row.results])

    @property
    def recommended(self) -> str | None:
        """Name of the recommended method; ``None`` if there is none."""
        return self.choice.score.method if self.choice else None

    @property
    def lines(self) -> tuple[Score, ...]:
        """The rows, in order of rank: the recommended one first, those without a finished run last."""
        rows = (row for rows in self.scenarios.values() for row in rows)
        if self.question.label:
            return tuple(rows)
        return tuple(sorted(rows, key=lambda row: (not row.results, row.method != self.recommended, -row.value)))

    @property
    def better_than_chance(self) -> bool | None:
        """Whether the clusters of the recommended method are found again; ``None`` of clients."""
        if self.choice is None or self.family == "clients":
            return None
        return self.choice.score.value > CHANCE and not self._single

    @property
    def _single(self) -> bool:
        """Whether every method that finds the number of clusters finds one."""
        return bool(self.finders) and all(max(finder.clusters) == 1 for finder in self.finders)

    @property
    def undecided(self) -> bool:
        """Whether a method with different clusters is as good as can be told."""
        return bool(self.choice and self.choice.undecided)

    @property
    def as_good(self) -> tuple[str, ...]:
        """Methods, with their number of clusters if given, that cannot be told from the recommended one."""
        return tuple(score.candidate.name for score in self.choice.as_good) if self.choice else ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the recommended clusters, in sentences."""
        if self.choice is None:
            return ()
        score, measures, doubts = self.choice.score, self.choice.score.measures, []
        if self.family == "samples" and self._single:
            doubts.append("Every method that finds the number of clusters finds one: the data may have none.")
        elif self.family == "samples" and not self.better_than_chance:
            doubts.append(
                f"No better than chance: halves of the samples agree on the clusters to {score.value:.2f} (ARI), and "
                f"pieces of a single cloud are found again to {CHANCE:g}, too. The data may have no clusters."
            )
        if self.choice.undecided:
            names = join_words([different.candidate.name for different in self.choice.undecided])
            doubts.append(f"Undecided: halves do not tell it from {names}, whose clusters differ; look at both.")
        if self.guess is not None and measures["accuracy"] <= self.guess:
            doubts.append(
                f"The clusters' models are no better than a guess: an accuracy of {measures['accuracy']:.3f}, where "
                f"always answering a client's most frequent class has {self.guess:.3f}. They need more rounds, or "
                "another model."
            )
        if len(score.results) < self.seeds:
            runs = f"{len(score.results)} of {self.seeds} runs"
            doubts.append(f"Only {runs} finished; the same with a larger budget resumes.")
        if measures.get("stability", 1.0) < ALIKE:
            doubts.append(
                f"The clusters depend on the seed: those of two runs agree to ARI {measures['stability']:.2f} only."
            )
        return tuple(doubts)

    @property
    def confident(self) -> bool:
        """Whether nothing speaks against the recommendation."""
        return not self.warnings

    @property
    def reason(self) -> str:
        """Reason of the recommendation, as the rest of a sentence that begins with "it"."""
        if self.choice is None:
            return "no method that finished may be recommended, or none found more than one cluster"
        score, measures, baseline = self.choice.score, self.choice.score.measures, self.choice.baseline
        if self.family == "samples":
            parts = [f"finds clusters that the other half of the samples finds again (ARI {score.value:.3f})"]
            parts += ["finds the number of clusters itself"] if score.number is None else []
        else:
            parts = [f"reaches an accuracy of {score.value:.3f} on clients' own test samples"]
        if baseline is not None:
            level = baseline.measures["accuracy"]
            parts.append(f"is not significantly better than {baseline.method}, which forms no clusters ({level:.3f})")
        if "stability" in measures:
            stable = measures["stability"]
            same = f"finds the same clusters over seeds (ARI {stable:.2f})"
            parts.append(same if stable >= SAME else f"agrees with itself over seeds to ARI {stable:.2f}")
        return join_words([*parts, f"moves {format_bytes(score.bytes or 0)} in {duration(score.seconds or 0)}"])

    @property
    def use(self) -> tuple[str, ...]:
        """Commands that run the recommended method alone, and apply it to new samples or an unseen client.

        Of clients in memory, which no file holds, it is the call in Python.
        """
        if self.choice is None:
            return ()
        if self.question.data == IN_MEMORY:
            options = self.choice.score.candidate.settings(self.question.settings)
            name = method_named(options.pop("name")).__name__.removesuffix("Method")
            keywords = ", ".join(f"{key}={value!r}" for key, value in options.items())
            return (f"fedkin.{name}({keywords}).fit(clients)",) if name in import_module("fedkin").__all__ else ()
        run, apply = f"runs/{self.question.name}", "predict" if self.family == "samples" else "assign"
        return f"fedkin run {self.out / WINNER} --out {run}", f"fedkin {apply} {run} NEW.csv"

    @property
    def measures(self) -> list[str]:
        """Names of the measures that any method has: the score, stability, agreement with the truth."""
        names = (SCORE[self.family], "stability", *TRUTH[self.family])
        return [name for name in names if any(name in line.measures for line in self.lines)]

    @cached_property
    def ranking(self) -> Ranking:
        """Ranks of the methods over the scenarios of a benchmark: of samples by ARI, of clients by accuracy."""
        pairs = [(scenario, row) for scenario, rows in self.scenarios.items() for row in rows]
        measure = "ari" if self.family == "samples" else "accuracy"
        return ranked({(name, row.method): row.measures[measure] for name, row in pairs if measure in row.measures})

    @property
    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row per method and scenario, as ``comparison.csv`` has.

        Measures are means over runs; ``found_again_std``, ``ari_std`` and so on are their standard deviations, missing
        with a single run; ``accuracy_error`` is the standard error over clients.
        """
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict of plain values per method and scenario; ``None`` where something is not known."""
        scenarios = self.scenarios if self.question.label else {"": self.lines}
        return [
            {
                **({"scenario": scenario} if scenario else {}),
                "method": line.method,
                "number_given": line.number,
                "recommended": line.method == self.recommended,
                "role": line.role,
                "runs": len(line.results),
                "clusters": mean(line.clusters) if line.clusters else None,
                **{name: line.measures.get(name) for name in self.measures},
                **({"accuracy_error": line.error} if self.family == "clients" else {}),
                **{f"{name}_std": line.deviations.get(name) for name in self.measures if name != "stability"},
                "megabytes": None if line.bytes is None else line.bytes / 1e6,
                "seconds": line.seconds,
                "remark": line.remark,
            }
            for scenario, lines in scenarios.items()
            for line in lines
        ]

    def to_json(self) -> str:
        """Return the whole comparison as JSON text; its ``lines`` are those of ``comparison.csv``."""
        names = ("family", "recommended", "reason", "use", "confident", "warnings", "undecided", "as_good")
        tree = {name: getattr(self, name) for name in (*names, "better_than_chance", "seeds", "notes")}
        tree |= {"lines": self.rows(), "out": str(self.out), "settings": self.question.tables}
        tree |= {"ranks": self.ranking.ranks} if self.question.label else {}
        return json.dumps(tree, indent=2, sort_keys=True) + "\n"

    def write(self) -> None:
        """Write ``comparison.json`` and ``comparison.csv``; raises FedkinError if a file cannot be written."""
        rows = self.rows()
        write_atomically(self.out / CSV, as_csv([list(rows[0]), *(list(row.values()) for row in rows)]))
        write_atomically(self.out / JSON, self.to_json())

    @property
    def lead(self) -> str:
        """The recommendation as a sentence, or the ranks."""
        if self.question.label:
            return self.ranking.sentence
        if self.recommended is None:
            return f"Nothing recommended: {self.reason}."
        doubt = "" if self.confident else ", but without confidence"
        return f"Recommended{doubt}: `{self.recommended}`. It {self.reason}."

    def text(self) -> str:
        """Return what the page says as text for a terminal, without its explanations."""
        return f"{page_text(self.page(), ('doubts', 'methods', 'next'))}\nReport: {self.out / PAGE}"

    def page(self) -> PageView:
        """Build the page."""
        doubts = list(self.warnings)
        if self.as_good:
            doubts.append(f"About as good by the score: {'; '.join(self.as_good)}.")
        notes: dict[str, None] = {}
        for scenario, lines in self.scenarios.items():
            for line in lines:
                place = f", {scenario}" if scenario else ""
                notes |= {f"{line.method}: {ROLES[line.role]}.": None} if line.role else {}
                notes |= {f"{line.method}{place}: {line.remark}.": None} if line.remark else {}
        meanings = [f"{TITLES[name]}: {MEANINGS[name]}" for name in self.measures if name in MEANINGS]
        meanings.append("ARI and what follows it compare with the truth, which has no part in a recommendation.")
        table = self._scenario_table() if self.question.label else self._measure_table()
        parts = [
            PagePart("doubts", "Before you rely on it", notes=doubts),
            PagePart("methods", "Methods", figures=[table], notes=list(notes)),
            PagePart("measures", "What is measured", notes=meanings),
            PagePart("data", "The data", notes=list(self.notes)),
            PagePart("next", "Next", commands=list(self.use)),
        ]
        opposite = "clients" if self.family == "samples" else "samples"
        description = f"Which {self.family} belong together? ({self.question.data}, scenario {self.question.scenario}; "
        finished = sum(bool(line.results) for line in self.lines)
        return PageView(
            title=f"{'Benchmark of methods' if self.question.label else 'Methods'} that cluster {self.family}",
            lead=self.lead
            if self.question.label
            else f"{self.lead}\n{description}--question {opposite} asks the other.)",
            summary=[("Results", f"{finished} of {len(self.lines)}", "of methods, chosen without the truth")],
            parts=[part for part in parts if part.figures or part.notes or part.commands],
            settings={**self.question.tables, "method": self.question.settings},
        )

    def _measure_table(self) -> ResultTable:
        """Build the table of a comparison: methods by measures."""
        rows = []
        for line in self.lines:
            figures = [_number(line.measures.get(name)) for name in self.measures]
            if line.error is not None and self.measures[0] in line.measures:
                figures[0] += f" ± {line.error:.3f}"
            cells = [TableCell(text) for text in [*figures, *_costs([line]), f"{len(line.results)} of {self.seeds}"]]
            if line.method == self.recommended:
                cells[0] = TableCell(figures[0], verdict="best")
            rows.append((line.method, [_clusters([line]), *cells]))
        caption = (
            f"Ranked by {TITLES[SCORE[self.family]].lower()}; the best first, the recommended one marked. Figures are "
            f"means over the finished runs, bytes and time those of one run; behind ± the {SPREADS[self.family]}."
        )
        heads = ["Clusters", *(TITLES[name] for name in self.measures), "Moved", "Time", "Runs"]
        return ResultTable("All methods", caption, "Method", heads, rows)

    def _scenario_table(self) -> ResultTable:
        """Build the table of a benchmark: methods by scenarios, in order of rank, those without a rank last."""
        measure = "ari" if self.family == "samples" else "accuracy"
        ranking, rows = self.ranking, []
        greatest = {
            name: max((row.measures.get(measure, 0.0) for row in rows_of), default=0.0)
            for name, rows_of in self.scenarios.items()
        }
        for method in dict.fromkeys([*ranking.ranks, *(line.method for line in self.lines)]):
            lines = {name: row for name, rows_of in self.scenarios.items() for row in rows_of if row.method == method}
            cells = []
            for name, row in lines.items():
                value, spread = row.measures.get(measure), row.deviations.get(measure)
                beside = "" if spread is None else f"± {spread:.3f}"
                cells.append(TableCell(_number(value), beside, "best" if value == greatest[name] else ""))
            rank, is_best = ranking.ranks.get(method), bool(ranking.difference) and method in ranking.as_good
            cells.append(TableCell("–" if rank is None else f"{rank:.2f}", verdict="best" if is_best else ""))
            rows.append((method, [*cells, _clusters([*lines.values()]), *map(TableCell, _costs([*lines.values()]))]))
        caption = (
            f"{TITLES[measure]}: mean and standard deviation over seeds, the best of each scenario marked; the mean "
            "rank, marked where it does not differ significantly from the best. No method is tuned, and those that "
            "cannot find the number of clusters are given it. Traffic and computing time are means over scenarios."
        )
        heads = [*self.scenarios, "Mean rank", "Clusters", "Moved", "Time"]
        return ResultTable("Scores", caption, "Method", heads, rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _clusters(lines: Sequence[Score]) -> TableCell:
    """Return the numbers of clusters, from the fewest to the most, and whether they were given."""
    numbers = [number for line in lines for number in line.clusters]
    if not numbers:
        return TableCell("–")
    text = str(numbers[0]) if len(set(numbers)) == 1 else f"{min(numbers)}–{max(numbers)}"
    how = "" if lines[0].role == "baseline" else "found" if lines[0].number is None else "given"
    options = Candidate(lines[0].method).settings({})
    return TableCell(text, "; ".join(filter(None, [how, method_named(lines[0].method).traits.form(options)])))


def _costs(lines: Sequence[Score]) -> list[str]:
    """Return bytes and seconds of one run, means over scenarios."""
    traffic = [line.bytes for line in lines if line.bytes is not None]
    seconds = [line.seconds for line in lines if line.seconds is not None]
    return [format_bytes(mean(traffic)) if traffic else "–", duration(mean(seconds)) if seconds else "–"]
