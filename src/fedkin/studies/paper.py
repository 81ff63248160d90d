"""Runs in a paper: the methods paragraph, and tables with means and deviations over seeds."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkin import __version__
from fedkin.core import FedkinError
from fedkin.core.method import display_name
from fedkin.core.runner import RecordLine
from fedkin.experiment.config import Config, flat
from fedkin.experiment.disclosure import disclosure_of_run
from fedkin.experiment.run_folder import RECORDS, is_finished, load_found, read_labels, read_lines, run_config
from fedkin.report.measures import measures, scaled
from fedkin.report.numbers import join_words, pluralize, shown
from fedkin.studies.citations import cite, in_text, papers_of

_SCALED = {
    "standard": "Columns were scaled to mean 0 and variance 1 by sums over all clients.",
    "common": "Columns, of one unit, were centred and scaled together by sums over all clients.",
    "unit": "Values lay in [0, 1] and were not scaled.",
    "none": "Values were not scaled.",
}
"""What a paragraph says of each mode of preparation."""
_ELSEWHERE = ("seed", "data.seed", "device.", "evaluation.")
"""Beginnings of keys that make no other setting of a table: seeds, and where and how a run is computed and judged."""


@dataclass(frozen=True)
class _Runs:
    """Finished runs that differ in nothing but their seeds: folders, last records and seeds in the order given."""

    config: Config
    folders: list[Path]
    lines: list[RecordLine]
    seeds: list[int]

    def mean(self, name: str) -> str:
        """Return the mean of a number of the last records, with its standard deviation over seeds; a dash of none."""
        measure = measures(*self.lines).get(name)
        return "–" if measure is None else _mean([scaled(line, name, measure) for line in self.lines], measure.unit)


def _mean(values: Sequence[float | None], unit: Any) -> str:
    finite = [value for value in values if value is not None]
    figures = [float(np.mean(finite))] if finite else []
    figures += [float(np.std(finite, ddof=1))] if len(finite) > 1 else []
    return " ± ".join(shown(figure, unit) for figure in figures) or "–"


def _grouped(folders: Sequence[Path]) -> list[_Runs]:
    """Read finished runs, and put those together that differ in their seeds alone."""
    groups: dict[str, _Runs] = {}
    for folder in folders:
        config = run_config(folder)
        if not is_finished(folder):
            raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")
        runs = groups.setdefault(repr(_settings(config)), _Runs(config, [], [], []))
        if config.seed in runs.seeds:
            raise FedkinError(f"{folder} is the same experiment with the same seed as another run.")
        runs.folders.append(folder)
        runs.lines.append(read_lines(folder / RECORDS)[-1])
        runs.seeds.append(config.seed)
    return list(groups.values())


def _settings(config: Config) -> dict[str, Any]:
    """Return all settings but those of `_ELSEWHERE`, of a scenario those that differ from its defaults."""
    usual = dict(flat({"simulation": config.defaults["simulation"]}))
    return {
        key: value
        for key, value in flat(config.tables)
        if not key.startswith(_ELSEWHERE) and (key not in usual or usual[key] != value)
    }


def table(folders: Sequence[Path], is_latex: bool = False) -> str:
    """Return a table of finished runs, a row per method and setting: means ± standard deviations over seeds.

    It is Markdown, or LaTeX with booktabs. Settings are those in which runs of the same keys differ. Raises FedkinError
    if a run has not finished, or two are the same experiment with the same seed.
    """
    groups = _grouped(folders)
    settings = [_settings(runs.config) for runs in groups]
    named = measures(*(line for runs in groups for line in runs.lines))
    rows = []
    for runs, each in zip(groups, settings, strict=True):
        # An option of a method is compared among runs of the method, for others may not have it.
        alike = [compared for compared in settings if compared["method.name"] == each["method.name"]]
        differences = [
            f"{key.split('.')[-1]} = {value}"
            for key, value in each.items()
            if key != "method.name"
            and any(compared.get(key) != value for compared in (alike if key.startswith("method.") else settings))
        ]
        traffic = [(line["sent"] + line["received"]) / 1e6 for line in runs.lines]
        rows.append({
            "method": runs.config.method_name, "settings": ", ".join(differences), "seeds": str(len(runs.seeds)),
            **{measure.title: runs.mean(name) for name, measure in named.items() if measure.headline},
            "MB sent and received": _mean(traffic, "share"),
        })  # fmt: skip
    frame = pd.DataFrame(rows)
    if is_latex:
        return str(frame.to_latex(index=False, escape=True)).rstrip()
    lines = [frame.columns, ["---"] * len(frame.columns), *frame.to_numpy()]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def methods_paragraph(folders: Sequence[Path]) -> str:
    """Return a methods paragraph on finished runs of one experiment with several seeds, and its BibTeX entries.

    What the folders do not say is in brackets, to be filled in. Versions are those installed here. Raises FedkinError
    if a run has not finished, or runs differ in more than their seeds.
    """
    groups = _grouped(folders)
    if len(groups) > 1:
        raise FedkinError("These runs differ in more than their seeds; `fedkin table` compares several experiments.")
    (runs,) = groups
    config, saved = runs.config, load_found(runs.folders[0])
    name, traits = config.method_name, type(config.method).traits
    forms_clusters = traits.clusters is not None and not (traits.baseline and traits.finds_k)
    papers = "; ".join(in_text(entry) for entry in papers_of(name))
    title = display_name(type(config.method)) + (f" ({papers})" if papers else "")
    sent = dict.fromkeys(each.what for each in disclosure_of_run(runs.folders[0]).messages)
    leaving = "samples left the clients" if config.method.sends_samples() else "no sample left a client"
    leaving = "synthetic samples left the clients" if traits.copies_data else leaving
    changed = [
        f"{key} = {value}"
        for section in ("method", "federation")
        for key, value in config.tables[section].items()
        if key not in ("name", "away") and value != config.defaults[section].get(key)
    ]
    packages = ("torch", "numpy", "scikit-learn", "pandas")
    return " ".join([
        _data(runs),
        _SCALED[saved.preparation.encoding.mode],
        f"{str(traits.clusters).capitalize()} were clustered" if forms_clusters else "Models were trained",
        f"by {title} as implemented in fedkin {__version__}, with default settings"
        f"{f' except {join_words(changed)}' if changed else ''}.",
        f"What clients sent: {'; '.join(sent)}. {leaving.capitalize()}.",
        _results(runs, forms_clusters),
        f"Software: Python {platform.python_version()}, "
        f"{join_words([f'{package} {version(package)}' for package in packages])}.",
    ]) + f"\n\n{cite(name)}"  # fmt: skip


def _data(runs: _Runs) -> str:
    """Say how many clients and samples there were, as far as the folder has it."""
    config, folder, saved = runs.config, runs.folders[0], load_found(runs.folders[0])
    labels, profile, encoding = read_labels(folder), saved.profile, saved.preparation.table
    sizes = [len(each) for client, each in labels.items() if client]
    clients, rows = len(sizes) or len(saved.clients) or len(labels.get("", ())), sum(sizes)
    rows = rows or (0 if profile is None else profile.rows)
    scenario = config.simulation.scenario
    dealt = "" if scenario == "files" else f", dealt to simulated clients by '{scenario}'"
    columns = "" if encoding is None else f" with {pluralize(len(encoding.schema.columns), 'column')}"
    return (
        f"{pluralize(clients, 'client') if clients else '[number] clients'} held "
        f"{pluralize(rows, 'sample') if rows else '[number] samples'} "
        f"({Path(config.data.source).name}{dealt}){columns}."
    )


def _results(runs: _Runs, forms_clusters: bool) -> str:
    """Say how the number of clusters came about, the seeds, and the headline measures."""
    counts = list(dict.fromkeys(str(load_found(folder).result["n_clusters"]) for folder in runs.folders))
    is_given = isinstance(runs.config.tables["method"].get("n_clusters"), int)
    number = f"{join_words(counts)} clusters were {'given' if is_given else 'found'}"
    number = number if forms_clusters else "No clusters were formed"
    texts = [
        f"{measure.in_sentence} {runs.mean(name)}"
        for name, measure in measures(*runs.lines).items()
        if measure.headline and name != "clusters" and any(name in line["metrics"] for line in runs.lines)
    ]
    spread = "; values are means ± standard deviations over seeds" if texts and len(runs.seeds) > 1 else ""
    seeds = f"seed{'s' if len(runs.seeds) > 1 else ''} {join_words([str(seed) for seed in runs.seeds])}"
    return f"{number} ({seeds})." + (f" Results: {join_words(texts)}{spread}." if texts else "")
