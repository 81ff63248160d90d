"""Scenario of data that are split already: one file, table or array per client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedkin.core.errors import FedkinError, listing, option, setting
from fedkin.core.method import Fraction
from fedkin.core.seeds import derive_generator
from fedkin.data.checks import check_cells, check_labels
from fedkin.data.dataset import Dataset, check_are_classes, notes_on_outcomes, too_many_labels
from fedkin.data.inputs import load_clients
from fedkin.data.options import NO_OPTIONS, TableOptions
from fedkin.data.population import Population
from fedkin.data.samples import note_on_texts
from fedkin.data.scenarios.partitions import client_of, hold_out
from fedkin.data.sources import clients_in_one


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
        If all clients' rows are in one file, its column with the name of each row's client.
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
        if self.column is None:
            sites = load_clients(self.data, self.label, self.table)
        else:
            sites = clients_in_one(self.data, self.column, self.label, self.table)
        labels, rows = [site.y for site in sites if site.y is not None], sum(map(len, sites))
        labelled = len(labels) == len(sites)
        classes = sites[0].classes if labelled else []
        if labelled and self.label is not None:
            check_are_classes(classes, rows, sites[0].label)
        if self.test_fraction > 0 and not labelled:
            raise FedkinError(
                f"test_fraction is {self.test_fraction}, but not every client has labels to test against."
            )
        clients = [client_of(i, site) for i, site in enumerate(sites)]
        tests = []
        for i, (site, y) in enumerate(zip(sites, labels, strict=True) if labelled else ()):
            clients[i].y = y
            if self.test_fraction > 0:
                rest, out = hold_out(torch.arange(len(site)), self.test_fraction, derive_generator(seed, "test", i))
                clients[i] = clients[i].rows(rest)
                tests.append((site.x[out], y[out]))
        guesses = (*notes_on_outcomes(site.features for site in sites), *_label_notes(sites, self.label, labelled))
        apart, questions = notes_on_sites(sites, labelled and not too_many_labels(len(classes), rows))
        return Population(
            clients,
            [client.y for client in clients if client.y is not None] if labelled else None,
            classes,
            list(dict.fromkeys(name for site in sites for name in site.features)),
            [site.name for site in sites],
            tests,
            notes=(*guesses, *apart, *questions),
            questions=questions,
            guesses=guesses,
        )


def notes_on_sites(sites: Sequence[Dataset], comparable: bool) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return notes on labels that clients do not share, if they are `comparable`, and on what looks wrong."""
    labelled = [(site.name, site.y, site.classes) for site in sites if site.y is not None and comparable]
    spelt, apart = check_labels({name: [classes[i] for i in y.unique().tolist()] for name, y, classes in labelled})
    cells = check_cells({site.name: site.table for site in sites if site.table is not None})
    return apart, (*spelt, *cells, *note_on_texts([(site.name, site.table) for site in sites]))


def _label_notes(sites: Sequence[Dataset], label: str | None, labelled: bool) -> list[str]:
    """Return sentences on columns that were taken for labels though the user has not named them."""
    notes = []
    for name in dict.fromkeys(site.label for site in sites if site.label is not None and label is None):
        holders = listing([site.name for site in sites if site.label == name], 5)
        without = listing([site.name for site in sites if site.y is None], 5)
        use = "" if labelled else f", and not used, for there are none in {without}"
        notes.append(
            f"Column '{name}' is taken for labels of {holders}{use}, so it is no feature; if it is one, name the "
            f"labels with {option('label')}, or {setting('label', 'none')}."
        )
    return notes
