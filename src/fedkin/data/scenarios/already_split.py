"""Scenario of data that are split already: one file, table or array per client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fedkin.core.doors import option, setting
from fedkin.core.errors import FedkinError, listing
from fedkin.core.method import Fraction
from fedkin.core.seeds import derive_generator
from fedkin.data.checks import check_cells, check_labels
from fedkin.data.dataset import Dataset, check_are_classes, note_on_many_classes, notes_on_outcomes, too_many_labels
from fedkin.data.inputs import load_clients
from fedkin.data.names import ignored_in
from fedkin.data.options import NO_OPTIONS, TableOptions
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import client_of, hold_out
from fedkin.data.sources import clients_in_one

_LISTED = 5
"""Files and clients that a sentence names."""


@dataclass(frozen=True)
class ClientFiles:
    """Data that are split already: one file, table or array per client, used as they are.

    Attributes
    ----------
    data : str, Path, sequence or mapping
        A folder with one file per client, or the file, DataFrame or array of each client, in order or by the client's
        name; see `fedkin.data.inputs.load_clients`.
    label : str or None
        The column or array of labels of every client, or "none" if there are no labels. If all have labels, they are
        the clients' and the truth.
    test_fraction : float
        Fraction of every client's samples that is held out for tests, in [0, 1]; needs labels if it is above 0.
    table : TableOptions
        Options for reading the tables' columns.
    column : str or None
        Where all clients' rows are in one file, its column with the name of each row's client.
    """

    data: str | Path | Sequence[Any] | Mapping[str, Any]
    label: str | None = None
    test_fraction: Fraction = 0.0
    table: TableOptions = NO_OPTIONS
    column: str | None = None

    def build(self, seed: int = 0) -> Population:
        """Build the clients, in order of file name or as listed; only the held-out samples are drawn at random.

        Raises FedkinError if there is no client, or any client's data cannot be used, with a line for each problem; if
        arrays differ in shape, or tests are wanted of data without labels.
        """
        sites = (
            load_clients(self.data, self.label, self.table)
            if self.column is None
            else clients_in_one(self.data, self.column, self.label, self.table)
        )
        labelled, rows = all(site.y is not None for site in sites), sum(map(len, sites))
        if labelled and self.label is not None:
            check_are_classes(sites[0].classes, rows, sites[0].label)
        if self.test_fraction > 0 and not labelled:
            raise FedkinError(
                f"test_fraction is {self.test_fraction}, but not every client has labels to test against."
            )
        tables = {site.name: site.table for site in sites if site.table is not None}
        spelt, apart = check_labels(_classes_at(sites, labelled))
        questions = (*spelt, *check_cells(tables, _labels_at(sites)))
        guesses = [*notes_on_outcomes(site.features for site in sites), *_label_notes(sites, self.label, labelled)]
        clients, tests = [], []
        for i, site in enumerate(sites):
            samples = torch.arange(len(site))
            kept, out = hold_out(samples, self.test_fraction, derive_generator(seed, "test", i))
            client = client_of(i, site, kept if len(out) else None)
            clients.append(replace(client, y=site.y[kept] if labelled and site.y is not None else None))
            if self.test_fraction > 0 and site.y is not None:
                tests.append((site.x[out], site.y[out]))
        return Population(
            clients,
            [client.y for client in clients if client.y is not None] if labelled else None,
            sites[0].classes if labelled else [],
            list(dict.fromkeys(name for site in sites for name in site.features)),
            [site.name for site in sites],
            tests,
            notes=(
                *_ignored(self.data),
                *guesses,
                *(note_on_many_classes(sites[0].classes, rows) if labelled else []),
                *apart,
                *questions,
            ),
            questions=questions,
            guesses=tuple(guesses),
        )


def _ignored(data: object) -> list[str]:
    """Return a sentence on files in an unsupported format, and on subfolders, that could hold a client's data."""
    if not (found := ignored_in(data)):
        return []
    what = "It is" if len(found) == 1 else "They are"
    return [
        f"{listing(found, _LISTED)} in '{data}' {'is' if len(found) == 1 else 'are'} not read. {what} no client's "
        "unless saved as .csv or .parquet beside the others."
    ]


def _label_notes(sites: Sequence[Dataset], label: str | None, labelled: bool) -> list[str]:
    """Return sentences on columns that were taken for labels though the user has not named them."""
    if label is not None:
        return []
    columns: dict[str, list[str]] = {}
    for site in sites:
        if site.label is not None:
            columns.setdefault(site.label, []).append(site.name)
    if labelled:
        return [
            f"Column '{name}' is taken for labels{_of_some(own, sites)}, so it is no feature; if it is one, name the "
            f"labels with {option('label')}, or {option('label', 'none')}."
            for name, own in columns.items()
        ]
    without = listing([site.name for site in sites if site.y is None], _LISTED)
    return [
        f"Column '{name}'{_of_some(own, sites)} is called like labels, but none are in {without}, so it is left "
        f"out and nothing is compared with labels; if it is a feature, {setting('label', 'none')}; to use it, leave "
        "out the clients without."
        for name, own in columns.items()
    ]


def _classes_at(sites: Sequence[Dataset], labelled: bool) -> dict[str, list[str]]:
    """Return the classes that each client has, by its name; none without labels, or where most are different."""
    own = {site.name: [site.classes[at] for at in site.y.unique()] for site in sites if site.y is not None}
    many = too_many_labels(len(sites[0].classes), sum(map(len, sites)))
    return own if labelled and not many else {}


def _labels_at(sites: Sequence[Dataset]) -> dict[str, list[str]]:
    """Return the label of each row of the clients with labels, by name."""
    return {site.name: [site.classes[at] for at in site.y.tolist()] for site in sites if site.y is not None}


def _of_some(own: Sequence[str], sites: Sequence[Dataset]) -> str:
    return "" if len(own) == len(sites) else f" of {listing(own, _LISTED)}"
