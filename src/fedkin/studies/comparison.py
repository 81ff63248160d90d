"""Result of a comparison: rows of methods, the recommendation with its doubts, and the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd

from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words
from fedkin.studies.pages import duration, page_text
from fedkin.studies.question import Candidate, Question, Role, method_named
from fedkin.studies.ranking import ALIKE, CHANCE, TRUTH, Choice, Score, recommend

JSON, PAGE, WINNER = "comparison.json", "report.html", "recommended.toml"
IN_MEMORY = "clients in memory"
"""What the data of a question are called that no file holds."""
TITLES = {
    "found_again": "Found again", "stability": "Stability", "ari": "ARI", "nmi": "NMI", "pooled_accuracy": "ACC",
}  # fmt: skip
MEANINGS = {
    "found_again": "Each client's samples are split in two at random; what the method predicts for one half from the "
    "other is compared (ARI) with what it finds there itself; 0 is chance, 1 the same clusters. A single cluster "
    "counts 0. A number of clusters that a method finds comes before those given; else the finer of what is as good.",
    "stability": "Mean agreement (ARI) of the clusters of every two seeds, 1 for the same.",
}
ROLES: dict[Role, str] = {
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of comparing methods on the same clients.

    Attributes
    ----------
    question : Question
        What was asked.
    rows : tuple of Score
        A row per method, `fedkin.studies.ranking.Score`, the cheapest first.
    seeds : int
        Runs asked of each method.
    out : Path
        Folder of the comparison.
    finders : tuple of Score
        Those that found the number of clusters themselves.
    notes : tuple of str
        How the data were read, in sentences.
    """

    question: Question
    rows: tuple[Score, ...]
    seeds: int
    out: Path
    finders: tuple[Score, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Comparison(recommended={self.recommended!r}, methods={len(self.rows)}, out={str(self.out)!r})"

    @cached_property
    def choice(self) -> Choice | None:
        """The recommended row, with the facts that decided; ``None`` if there is none."""
        rows = [row for row in self.rows if row.results]
        return recommend(rows, self.question.clusters is not None)

    @property
    def recommended(self) -> str | None:
        """Name of the recommended method; ``None`` if there is none."""
        return self.choice.score.method if self.choice else None

    @property
    def lines(self) -> tuple[Score, ...]:
        """The rows, in order of rank: the recommended one first, those without a finished run last."""
        return tuple(sorted(self.rows, key=lambda row: (not row.results, row.method != self.recommended, -row.value)))

    @property
    def as_good(self) -> tuple[str, ...]:
        """Methods, with their number of clusters if given, that cannot be told from the recommended one."""
        return tuple(score.name for score in self.choice.as_good) if self.choice else ()

    @property
    def undecided(self) -> bool:
        """Whether a method with different clusters is as good as can be told."""
        return bool(self.choice and self.choice.undecided)

    @property
    def better_than_chance(self) -> bool | None:
        """Whether the clusters of the recommended method are found again; ``None`` without one."""
        if self.choice is None:
            return None
        return self.choice.score.value > CHANCE and not self._single

    @property
    def _single(self) -> bool:
        """Whether every method that finds the number of clusters finds one."""
        return bool(self.finders) and all(max(finder.clusters) == 1 for finder in self.finders)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the recommended clusters, in sentences."""
        if self.choice is None:
            return ()
        score, texts = self.choice.score, []
        if self.better_than_chance is False and self._single:
            texts.append("Every method that finds the number of clusters finds one: the data may have none.")
        elif self.better_than_chance is False:
            texts.append(
                f"No better than chance: halves of the samples agree on the clusters to {score.value:.2f} (ARI), and "
                f"pieces of a single cloud are found again to {CHANCE:g}, too. The data may have no clusters."
            )
        if self.undecided:
            different = join_words([score.name for score in self.choice.undecided])
            texts.append(f"Undecided: halves do not tell it from {different}, whose clusters differ; look at both.")
        if len(score.results) < self.seeds:
            texts.append(f"Only {len(score.results)} of {self.seeds} runs finished; give a larger budget.")
        if (stable := score.measures.get("stability", 1.0)) < ALIKE:
            texts.append(f"The clusters depend on the seed: those of two runs agree to ARI {stable:.2f} only.")
        return tuple(texts)

    @property
    def confident(self) -> bool:
        """Whether nothing speaks against the recommendation."""
        return not self.warnings

    @property
    def reason(self) -> str:
        """Reason of the recommendation, as the rest of a sentence that begins with "it"."""
        if self.choice is None:
            return "no method that finished may be recommended, or none found more than one cluster"
        score = self.choice.score
        parts = [f"finds clusters that the other half of the samples finds again (ARI {score.value:.3f})"]
        parts += ["finds the number of clusters itself"] if score.number is None else []
        if "stability" in score.measures:
            parts.append(f"agrees with itself over seeds to ARI {score.measures['stability']:.2f}")
        return join_words([*parts, f"moves {format_bytes(score.bytes)} in {duration(score.seconds)}"])

    @property
    def use(self) -> tuple[str, ...]:
        """Commands that run the recommended method alone, and apply it to new samples.

        Of clients in memory, which no file holds, it is the call in Python.
        """
        if self.choice is None:
            return ()
        if self.question.data == IN_MEMORY:
            options = self.choice.score.settings(self.question.settings)
            name = method_named(options.pop("name")).__name__.removesuffix("Method")
            keywords = ", ".join(f"{key}={value!r}" for key, value in options.items())
            return (f"fedkin.{name}({keywords}).fit(clients)",) if name in import_module("fedkin").__all__ else ()
        run = f"runs/{self.question.name}"
        return f"fedkin run {self.out / WINNER} --out {run}", f"fedkin predict {run} NEW.csv"

    @property
    def measures(self) -> list[str]:
        """Names of the measures that any method has: the score, stability, agreement with the truth."""
        names = ("found_again", "stability", *TRUTH)
        return [name for name in names if any(name in row.measures for row in self.rows)]

    @property
    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row per method.

        Measures are means over runs; ``found_again_std``, ``ari_std`` and so on are their standard deviations, missing
        with a single run.
        """
        return pd.DataFrame(self._values())

    def _values(self) -> list[dict[str, Any]]:
        return [
            {
                "method": line.method,
                "number_given": line.number,
                "recommended": line.method == self.recommended,
                "role": line.role,
                "runs": len(line.results),
                "clusters": mean(line.clusters) if line.clusters else None,
                **{name: line.measures.get(name) for name in self.measures},
                **{f"{name}_std": line.deviations.get(name) for name in self.measures if name != "stability"},
                "megabytes": line.bytes / 1e6 if line.results else None,
                "seconds": line.seconds if line.results else None,
                "remark": line.remark,
            }
            for line in self.lines
        ]

    def to_json(self) -> str:
        """Return the whole comparison as JSON text; its ``lines`` are those of `table`."""
        names = ("recommended", "reason", "use", "confident", "warnings", "undecided", "as_good")
        tree = {name: getattr(self, name) for name in (*names, "better_than_chance", "seeds", "notes")}
        tree |= {"lines": self._values(), "out": str(self.out), "settings": self.question.tables}
        return json.dumps(tree, indent=2, sort_keys=True) + "\n"

    @property
    def lead(self) -> str:
        """The recommendation as a sentence."""
        if self.recommended is None:
            return f"Nothing recommended: {self.reason}."
        doubt = "" if self.confident else ", but without confidence"
        return f"Recommended{doubt}: `{self.recommended}`. It {self.reason}."

    def text(self) -> str:
        """Return what the page says as text for a terminal, without its explanations."""
        return f"{page_text(self.page(), ('doubts', 'methods', 'next'))}\nReport: {self.out / PAGE}"

    def page(self) -> PageView:
        """Build the page."""
        question, doubts, notes = self.question, list(self.warnings), []
        doubts += [f"About as good by the score: {'; '.join(self.as_good)}."] if self.as_good else []
        for line in self.lines:
            notes += [f"{line.method}: {text}." for text in (ROLES.get(line.role, ""), line.remark) if text]
        meanings = [f"{TITLES[name]}: {MEANINGS[name]}" for name in self.measures if name in MEANINGS]
        meanings.append("ARI and what follows it compare with the truth, which has no part in a recommendation.")
        parts = [
            PagePart("doubts", "Before you rely on it", notes=doubts),
            PagePart("methods", "Methods", figures=[self._table()], notes=notes),
            PagePart("measures", "What is measured", notes=meanings),
            PagePart("data", "The data", notes=list(self.notes)),
            PagePart("next", "Next", commands=list(self.use)),
        ]
        return PageView(
            title="Methods that cluster samples",
            lead=f"{self.lead}\nWhich samples belong together? ({question.data}, scenario {question.scenario})",
            parts=[part for part in parts if part.figures or part.notes or part.commands],
            settings={**question.tables, "method": question.settings},
        )

    def _table(self) -> ResultTable:
        """Build the table: methods by measures."""
        rows = []
        for line in self.lines:
            figures = [f"{line.measures[name]:.3f}" if name in line.measures else "–" for name in self.measures]
            if "found_again" in line.deviations:
                figures[0] += f" ± {line.deviations['found_again']:.3f}"
            figures += [format_bytes(line.bytes), duration(line.seconds)] if line.results else ["–", "–"]
            cells = [TableCell(text) for text in [*figures, f"{len(line.results)} of {self.seeds}"]]
            cells[0] = TableCell(figures[0], verdict="best" if line.method == self.recommended else "")
            # The fewest and the most clusters, whether they were given, and whose form of the method it is.
            ends = (min(line.clusters), max(line.clusters)) if line.clusters else ("–",)
            how = "found" if line.number is None else "given"
            form = method_named(line.method).traits.form(Candidate(line.method).settings({}))
            how = "; ".join(filter(None, [how, form])) if line.clusters else ""
            rows.append((line.method, [TableCell("–".join(dict.fromkeys(map(str, ends))), how), *cells]))
        caption = (
            "By how surely clusters are found again; the recommended one first and marked. Figures are means over the "
            "finished runs, bytes and time those of one run; behind ± the standard deviation over splits."
        )
        heads = ["Clusters", *(TITLES[name] for name in self.measures), "Moved", "Time", "Runs"]
        return ResultTable("All methods", caption, "Method", heads, rows)
