"""Comparison as text on the terminal."""

from __future__ import annotations

from fedkin.experiment.terminal_tables import print_table, sentence_text
from fedkin.studies.compare.comparison import Comparison
from fedkin.studies.compare.comparison_page import cells, headings
from fedkin.studies.compare.comparison_words import about_as_good, lead


def print_comparison(comparison: Comparison) -> None:
    """Print the table, the recommendation and the next command, with rules on a terminal only."""
    print(sentence_text(comparison.question))
    rows = [(_name(comparison, line.name), *cells(comparison, line), line.remark) for line in comparison.lines]
    columns = ("Method", *headings(comparison), "Remark")
    print_table(rows, columns, left=(0, len(columns) - 1))
    for line in text_lines(comparison):
        print(line)


def text_lines(comparison: Comparison) -> list[str]:
    """Return the lines below the table: recommendation, warnings, and the next command."""
    lines = [_filled(lead(comparison.recommended, comparison.reason, comparison.confident))]
    lines += [_filled(f"Warning: {text}") for text in comparison.warnings]
    if comparison.as_good:
        lines.append(_filled(about_as_good(comparison.as_good)))
    if comparison.truth_gap is not None:
        lines.append(f"By the truth it is {comparison.truth_gap:.3f} (ARI) behind the best that could be recommended.")
    return [*lines, *(f"  {command}" for command in comparison.use[:1]), f"Report: {comparison.out / 'report.html'}"]


def _filled(text: str) -> str:
    return sentence_text(text, elsewhere=118)


def _name(comparison: Comparison, name: str) -> str:
    return f"* {name}" if comparison.recommended and name.split(",")[0] == comparison.recommended else f"  {name}"
