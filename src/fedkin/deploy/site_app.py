"""Flower client app of a site, which does tasks on the data named in the site's own file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from flwr.app import Context
from flwr.clientapp import ClientApp

from fedkin.core import FedkinError, Payload
from fedkin.core.errors import listing
from fedkin.core.files import make_private, write_atomically
from fedkin.data.preparing.notes.cell_hints import hints_on_cells
from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.reading.dataset_names import expanded
from fedkin.data.reading.label_columns import note_on_many_classes
from fedkin.deploy.site_file import read_site
from fedkin.engines.flower_engine.node_app import SiteDataError
from fedkin.engines.flower_engine.node_app import client_app as answering
from fedkin.engines.site import Site
from fedkin.engines.site_request import Request
from fedkin.report.numbers import pluralize

RESULTS = "results"
NOTES = "notes.txt"
"""What looks wrong in the site's table, in its private folder."""
_CLASSES = 5
"""Classes that `checked` names."""


def client_app() -> ClientApp:
    """Return the client app; its SuperNode names the site's file: ``--node-config 'site="ward-a.toml"'``."""
    return answering(site_of, keep)


def keep(site: Site, request: Request, payload: Payload) -> None:
    """Write a site's results to ``results/<run>`` in its folder: clusters of its samples, and its cluster's model.

    `fedkin predict` works with that folder as with a run's, and reads new rows as the site's table was read. The site's
    log names columns that the run left out. Where the clusters are others than before, as after `fedkin cut` at the
    server, the earlier result is removed, which the site was given by hand.
    """
    # Only this message needs them, and every message starts a process.
    from fedkin.data.population import Population
    from fedkin.data.preparing.preparation import Preparation, encoding_of
    from fedkin.data.preparing.schema.column_spellings import with_names
    from fedkin.data.preparing.schema.schema_notes import note_on_unused
    from fedkin.experiment.checksums import write_sums
    from fedkin.experiment.label_files import label_file, labels_of
    from fedkin.experiment.measure_titles import join_words
    from fedkin.experiment.outputs import READING, remove_result, write_reading, write_result
    from fedkin.experiment.outputs import RESULTS as FOUND

    folder = site.folder / RESULTS / request.run
    with site.memory(request.run) as memory:
        state = memory.state() or {}
        memory.hold()
    labels = labels_of(site.table, state)
    if labels is not None:
        path = label_file(folder, 0, [site.name])
        if path.is_file() and path.read_bytes() != labels.encode() and (gone := remove_result(folder)):
            print(
                f"fedkin: The clusters are others than before, so {join_words(gone)} in {folder} are removed; copy "
                "them from the server's new results to predict with these.",
                flush=True,
            )
        write_atomically(path, labels)
    if "result" in payload:
        alone = Population([], None, payload["classes"], site.features, [site.name])
        preparation = Preparation.from_tree(payload["preparation"])
        write_result(folder, payload["method"], payload["result"], preparation, alone)
    if site.table is not None:
        write_reading(folder, site.reading)
        if (encoding := encoding_of(state)) is not None:
            wanted = encoding.schema.wanted
            unused = set(with_names(site.table, wanted).names).difference(name for name, _ in wanted)
            for note in note_on_unused(request.run, [name for name in site.table.names if name in unused]):
                print(f"fedkin: {note}", flush=True)
    write_sums(folder, (*FOUND, READING))
    if "result" in payload and (cluster := payload["result"]["cluster"]) >= 0:
        of = pluralize(payload["result"]["n_clusters"], "cluster")
        print(f"fedkin: The site is in cluster {cluster} of {of}.", flush=True)
    print(f"fedkin: The site's results of run {request.run} are in {folder}.", flush=True)


def site_of(context: Context) -> Site:
    """Build the site whose file the node's configuration names.

    Raises FedkinError if no file is named, or the file or the data cannot be read.
    """
    path = context.node_config.get("site")
    if not isinstance(path, str):
        raise FedkinError("The SuperNode was started without a site's file: --node-config 'site=\"PATH.toml\"'.")
    place = expanded(path)
    file = read_site(place)
    torch.set_num_threads(file.threads)
    try:
        site = file.site(place)
    except FedkinError as error:
        raise SiteDataError(str(error), file.name) from error
    if site.table is not None:
        make_private(site.folder)
        _say_once(_notes(site), site.folder / NOTES)
    return site


def checked(path: Path) -> list[str]:
    """Read a site's file and its data; return what they hold, how a table's columns are read, and what looks wrong.

    Raises FedkinError if the file or the data cannot be read. Nothing is written.
    """
    from fedkin.experiment.data_overview import columns_at_a_site  # every message starts a process, which needs it not

    site = read_site(path).site(path)
    what = pluralize(len(site.features), "column") if site.features else f"shape {tuple(site.x.shape[1:])}"
    classes = "1 class" if len(site.classes) == 1 else f"{len(site.classes):,} classes"
    labels = f"labels of {classes} ({listing(site.classes, _CLASSES)})" if site.y is not None else "no labels"
    columns = [] if site.table is None else [f"\n{columns_at_a_site(site.table)}"]
    first, notes = f"Site '{site.name}' has {pluralize(len(site.x), 'sample')} of {what}, and {labels}.", _notes(site)
    return [first, *columns, *([""] if columns and notes else []), *notes]


def _notes(site: Site) -> list[str]:
    if site.table is None:
        return []
    tables = {site.name: site.table}
    return [*note_on_many_classes(site.classes, len(site.x)), *notes_on_cells(tables), *hints_on_cells(tables)]


def _say_once(notes: Sequence[str], path: Path) -> None:
    """Print notes to the site's log unless they are in its private folder already: every message starts a process."""
    text = "".join(f"{note}\n" for note in notes)
    if text != (path.read_text(encoding="utf-8") if path.is_file() else ""):
        write_atomically(path, text)
        for note in notes:
            print(f"fedkin: {note}", flush=True)
