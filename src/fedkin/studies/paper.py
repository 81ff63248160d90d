"""Runs in a paper: the methods paragraph, and tables with means and deviations over seeds."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedkin import __version__
from fedkin.core import FedkinError
from fedkin.core.method import display_name
from fedkin.core.runner import RecordLine
from fedkin.experiment.config import Config, flat
from fedkin.experiment.outputs import SavedResult, load_description, load_found, read_labels
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    LEDGER,
    RECORDS,
    is_finished,
    is_update,
    load_checkpoint,
    read_lines,
    run_config,
)
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
_ELSEWHERE = ("seed", "data.seed", "tracking.", "device.", "evaluation.")
"""Beginnings of keys that make no other setting of a table: seeds, and where and how a run is computed and judged."""


@dataclass(frozen=True)
class _Runs:
    """Finished runs that differ in nothing but their seeds: folders, last records and seeds in the order given."""

    config: Config
    folders: list[Path]
    lines: list[RecordLine]
    seeds: list[int]

    def values(self, name: str) -> list[float]:
        """Return a number of the last records, in the unit of its measure, of the runs that have it."""
        measure = measures(*self.lines).get(name)
        values = [] if measure is None else [scaled(line, name, measure) for line in self.lines]
        return [value for value in values if value is not None]


def _grouped(folders: Sequence[Path]) -> list[_Runs]:
    """Read finished runs, and put those together that differ in their seeds alone."""
    groups: dict[str, _Runs] = {}
    for folder in folders:
        config = run_config(folder)
        if not is_finished(folder):
            raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")
        runs = groups.setdefault(repr(_settings(config)), _Runs(config, [], [], []))
        if config.seed in runs.seeds:
            twin = runs.folders[runs.seeds.index(config.seed)]
            raise FedkinError(f"{twin} and {folder} are the same experiment with the same seed, {config.seed}.")
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


def _mean(values: Sequence[float], unit: Any) -> str:
    """Return a mean, with the standard deviation (of a sample) where there are several values; a dash of none."""
    if not values:
        return "–"
    mean = shown(float(np.mean(values)), unit)
    return mean if len(values) < 2 else f"{mean} ± {shown(float(np.std(values, ddof=1)), unit)}"


def table(folders: Sequence[Path], form: Literal["markdown", "latex"] = "markdown") -> str:
    """Return a table of finished runs, a row per method and setting: means ± standard deviations over seeds.

    Settings are those in which runs of the same keys differ. Raises FedkinError if a run has not finished, or two are
    the same experiment with the same seed.
    """
    groups = _grouped(folders)
    settings = [_settings(runs.config) for runs in groups]
    named = measures(*(line for runs in groups for line in runs.lines))
    columns = [name for name, measure in named.items() if measure.headline]
    rows = [["method", "settings", "seeds", *(named[name].title for name in columns), "MB sent and received"]]
    for runs, each in zip(groups, settings, strict=True):
        # An option of a method is compared among runs of the method, for others may not have it.
        alike = [other for other in settings if other["method.name"] == each["method.name"]]
        differences = [
            f"{key.split('.')[-1]} = {value}"
            for key, value in each.items()
            if key != "method.name"
            and any(other.get(key) != value for other in (alike if key.startswith("method.") else settings))
        ]
        cells = [_mean(runs.values(name), named[name].unit) for name in columns]
        traffic = [round((line["sent"] + line["received"]) / 1e6, 3) for line in runs.lines]
        rows.append(
            [runs.config.method_name, ", ".join(differences), str(len(runs.seeds)), *cells, _mean(traffic, "share")]
        )
    frame = pd.DataFrame(rows[1:], columns=rows[0])
    if not frame["settings"].any():
        del frame["settings"]
    if form == "latex":  # with booktabs
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
        raise FedkinError(
            f"{groups[0].folders[0]} and {groups[1].folders[0]} differ in more than their seeds; a paragraph is on one "
            "experiment, and `fedkin table` compares several."
        )
    (runs,) = groups
    config, saved = runs.config, load_found(runs.folders[0])
    updates = is_update(load_checkpoint(runs.folders[0] / CHECKPOINT))
    since = f"They were added to those of {Path(str(config.evaluation.like)).name}, and prepared alike."
    name, traits = config.method_name, type(config.method).traits
    papers = "; ".join(in_text(entry) for entry in papers_of(name))
    title = display_name(type(config.method)) + (f" ({papers})" if papers else "")
    done = f"{str(traits.clusters).capitalize()} were clustered" if _forms_clusters(config) else "Models were trained"
    left = "samples left the clients" if config.method.sends_samples() else "no sample left a client"
    left = "synthetic samples left the clients" if traits.copies_data else left
    sentences = [
        _data(runs, saved),
        since if updates else "",
        _SCALED[saved.preparation.encoding.mode],
        f"{done} by {title} as implemented in fedkin {__version__}, with {_differing(config, updates)}.",
        f"A client sent {traits.sends}; {left}." if traits.sends else f"{left.capitalize()}.",
        _results(runs),
        f"Software: Python {platform.python_version()}, "
        + join_words([f"{label} {version(package)}" for label, package in _PACKAGES.items()]) + ".",
    ]  # fmt: skip
    return f"{' '.join(filter(None, sentences))}\n\n{cite(name)}"


_PACKAGES = {"PyTorch": "torch", "NumPy": "numpy", "scikit-learn": "scikit-learn", "pandas": "pandas"}


def _data(runs: _Runs, saved: SavedResult) -> str:
    """Say how many clients and samples there were; only simulations of clients' clusters need their data for it."""
    config, folder, encoding = runs.config, runs.folders[0], saved.preparation.table
    labels, profile = read_labels(folder), load_description(folder)[0]
    sizes, is_real = [len(each) for client, each in labels.items() if client], (folder / LEDGER).is_file()
    if not sizes and not is_real:
        try:
            sizes = [len(client) for client in config.population().clients]
        except (FedkinError, OSError):  # the data have moved
            sizes = []
    clients = len(sizes) or len(saved.clients) or len(labels.get("", ()))
    rows = sum(sizes) or (0 if profile is None else profile.rows)
    spread = f", {min(sizes):,} to {max(sizes):,} each" if sizes and min(sizes) < max(sizes) else ""
    source, scenario = Path(config.data.source).name, config.simulation.scenario
    dealt = "" if scenario == "files" else f", dealt to simulated clients by '{scenario}'"
    columns = "" if encoding is None else f" with {pluralize(len(encoding.schema.columns), 'column')}"
    return (
        f"{pluralize(clients, 'client')} held {pluralize(rows, 'sample') if rows else '[number] samples'}{spread} "
        f"({'[which data]' if is_real else source + dealt}){columns}."
    )


def _differing(config: Config, updates: bool) -> str:
    """Describe the settings that differ from the defaults; of one that `updates`, clients that are away count."""
    changed = [
        f"{key} = {value}"
        for section in ("method", "federation")
        for key, value in config.tables[section].items()
        if key not in ("name", *(["away"] if updates else [])) and value != config.defaults[section].get(key)
    ]
    return f"default settings except {join_words(changed)}" if changed else "default settings"


def _forms_clusters(config: Config) -> bool:
    traits = type(config.method).traits
    return traits.clusters is not None and not (traits.baseline and traits.finds_k)


def _results(runs: _Runs) -> str:
    """Say how the number of clusters came about, the seeds, and the headline measures."""
    counts = [int(load_found(folder).result["n_clusters"]) for folder in runs.folders]
    given = isinstance(runs.config.tables["method"].get("n_clusters"), int)
    number = f"The number of clusters, {counts[0]}, was given" if given else (
        f"The method found {join_words([str(count) for count in dict.fromkeys(counts)])} "
        f"cluster{'' if set(counts) == {1} else 's'}"
    )  # fmt: skip
    number = number if _forms_clusters(runs.config) else "No clusters were formed"
    seeds = f"seed{'s' if len(runs.seeds) > 1 else ''} {join_words([str(seed) for seed in runs.seeds])}"
    named = measures(*runs.lines)
    texts = [
        f"{measure.in_sentence} {_mean(runs.values(name), measure.unit)}"
        for name, measure in named.items()
        if measure.headline and name != "clusters" and any(name in line["metrics"] for line in runs.lines)
    ]
    spread = "; values are means ± standard deviations over seeds" if texts and len(runs.seeds) > 1 else ""
    return f"{number} ({seeds})." + (f" Results: {join_words(texts)}{spread}." if texts else "")
