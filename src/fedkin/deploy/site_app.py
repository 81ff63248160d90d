"""Flower client app of a site, which does tasks on the data named in the site's own file."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from flwr.app import Context
from flwr.clientapp import ClientApp
from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedkin.core import Payload
from fedkin.core.device import device_named
from fedkin.core.errors import FedkinError, listing
from fedkin.core.files import read_tables, write_atomically
from fedkin.core.method import validation_sentence
from fedkin.data.checks import check_cells
from fedkin.data.names import HUB, expanded
from fedkin.data.options import MIN_MEMBERS, NO_OPTIONS
from fedkin.data.population import Population
from fedkin.data.preparation import restore_preparation
from fedkin.data.samples import note_on_texts
from fedkin.data.sources import load
from fedkin.data.tables import frame_to_dataset
from fedkin.deploy.app_folder import own_packages
from fedkin.deploy.site_policy import POLICY, policy_lines, read_policy
from fedkin.engines.flower_engine.messages import SiteDataError
from fedkin.engines.flower_engine.messages import client_app as answering
from fedkin.engines.site import Request, Site
from fedkin.experiment.config import ColumnOptions, Config, encoder_named, load_config
from fedkin.privacy.budget import Account
from fedkin.privacy.gaussian import gaussian_mu
from fedkin.report.numbers import pluralize
from fedkin.secure_aggregation.client_tasks import public_keys

if TYPE_CHECKING:
    from pandas import DataFrame

# TOML file of a site: its name, its data and its private folder.


KEY = "site.key"
"""The site's private key, beside its file, as ``start-site.sh`` makes it and starts the SuperNode with it."""


class SiteFile(ColumnOptions):
    """Content of a site's file; relative paths in it start at the file's own folder.

    `data` is a file, or anything else that `fedkin.data.sources.load` takes, and `folder` the private
    folder. `label` is the column of labels, if it has no usual name; "none" to use no labels. Each task has so many
    `threads` of torch, and may come from `packages` besides fedkin. `epsilon`, with `delta`, is the privacy budget,
    if there is one. `min_members` are samples below which nothing is reported, where the server asks for less.
    Of these two, ``policy.toml`` beside the file may ask for more, and the stricter holds.
    `keys` are public keys of the sites that it shares a secure sum with, by name.
    """

    model_config = ConfigDict(strict=True, extra="forbid")
    name: str = Field(min_length=1)
    data: str = Field(min_length=1)
    folder: str = Field(min_length=1)
    label: str | None = None
    threads: PositiveInt = 1
    device: str = Field(default="cpu", min_length=1)
    packages: list[str] = Field(default=[])
    epsilon: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    min_members: int | None = Field(default=None, ge=MIN_MEMBERS)
    keys: dict[str, str] = Field(default={})

    def site(self, path: Path, frame: DataFrame | None = None) -> Site:
        """Read the site's data, unless a platform has, to `frame`, and build the site whose file this is.

        Raises FedkinError if an option for tables, a key or a rule of the policy is not allowed, the device does not
        exist here, or the data cannot be read.
        """
        base = path.parent
        policy = read_policy(path.with_name(POLICY))
        epsilon = min(filter(None, (self.epsilon, policy.epsilon)), default=None)
        if policy.epsilon_per_run and not epsilon:
            raise FedkinError(f"{path.with_name(POLICY)}: 'epsilon_per_run' needs 'epsilon', for all runs together.")
        epsilons = {"epsilon": epsilon, "epsilon_per_run": policy.epsilon_per_run}
        budgets = {rule: gaussian_mu(value, self.delta) for rule, value in epsilons.items() if value}
        try:
            table = self.table
        except FedkinError as error:
            raise FedkinError(f"{path}: {error}") from error
        if self.encode is not None:
            kind, colon, name = self.encode.partition(":")
            is_here = colon and (base / expanded(name.partition("?")[0])).exists()
            spec = f"{kind}:{base / expanded(name)}" if is_here else self.encode
            table = replace(table, encoder=encoder_named(spec, str(base / expanded(self.folder))))
        device = device_named(self.device, f"'device' in {path}")
        listed = public_keys(self.keys, f"[keys] in {path}")
        folder = base / expanded(self.folder)
        if frame is None:
            data = base / expanded(self.data)
            is_file = data.exists() or (Path(self.data).suffix and not self.data.startswith(HUB))
            read = load(str(data) if is_file else self.data, self.label, options=table)
        else:
            read = frame_to_dataset(frame, self.name, f"The table of '{self.name}'", self.label, options=table)
        return Site(
            self.name,
            folder,
            read.x,
            read.y,
            read.classes,
            read.features,
            samples=read.samples,
            prepare=restore_preparation,
            table=read.table,
            reading=table,
            key=base / KEY if (base / KEY).exists() else None,
            listed=listed,
            packages=tuple(dict.fromkeys(["fedkin", *self.packages])),
            device=device,
            min_members=max(self.min_members or 0, policy.min_members or 0),
            reserve=Account(folder, epsilon, self.delta, min(budgets.values())).reserve if epsilon else None,
            policy=policy.rules(budgets),
        )


def read_site(path: Path) -> SiteFile:
    """Read a site's file; raise FedkinError if it cannot be read, or a key or value is not allowed."""
    tables = read_tables(path)
    try:
        return SiteFile.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, SiteFile.model_fields, f"in {path}") from error


RESULTS = "results"


SITE = "FEDKIN_SITE"
"""Environment variable that names the site's file where a platform starts the SuperNode and its configuration."""


def client_app(folder: Path | None = None) -> ClientApp:
    """Return the client app; its SuperNode names the site's file: ``--node-config 'site="ward-a.toml"'``, or `SITE`.

    Of an app for Flower Hub, in `folder`, a node of a simulation has a part of built-in data: the run's configuration
    names the ``experiment``, and ``demo-data``, which is partitioned.
    """

    def site(context: Context) -> Site:
        simulated = {"partition-id", "num-partitions"} <= context.node_config.keys()
        if folder is None or "site" in context.node_config or SITE in os.environ or not simulated:
            return site_of(context)
        return _simulated(folder, context)

    return answering(site, keep)


def _simulated(folder: Path, context: Context) -> Site:
    """Build a site of a simulation: its part of the data, and a private folder for this run."""
    from fedkin.experiment.simulated_clients import simulated_site

    partition, count = (int(context.node_config[name]) for name in ("partition-id", "num-partitions"))
    experiment, data = folder / str(context.run_config["experiment"]), str(context.run_config["demo-data"])
    user = str(os.getuid()) if hasattr(os, "getuid") else "own"  # on Windows temporary folders are users' own
    name, private = f"site-{partition:04}", Path(tempfile.gettempdir()) / f"fedkin-{user}-{context.run_id}"
    site = simulated_site(_population(experiment, data, count), partition, name, private / name)
    # The app's own code runs here anyhow.
    return replace(site, packages=("fedkin", *own_packages(load_config(experiment))))


@lru_cache(maxsize=1)
def _population(experiment: Path, data: str, clients: int) -> Population:
    """Build the sites of a simulation, with label skew or, to cluster clients, flipped labels; cached."""
    federated = load_config(experiment)
    scenario = "label-flip" if federated.method.traits.clusters == "clients" else "label-skew"
    partition = [f"simulation.scenario={scenario}", f"simulation.clients={clients}"]
    config = load_config(federated.method_name, [f"data.source={data}", *partition, f"seed={federated.seed}"])
    population: Population = config.scenario.build(config.data_seed)
    return population


def keep(site: Site, request: Request, payload: Payload) -> None:
    """Write a site's results to ``results/<run>`` in its folder: clusters of its samples, with a page of its own, and
    its cluster's model.

    `fedkin predict` works with that folder as with a run's, and reads new rows as the site's table was read. Where
    the clusters are others than before, as after `fedkin cut` at the server, the earlier result is removed, which the
    site was given by hand.
    """
    # Only this message needs them, and every message starts a process.
    from fedkin.data.preparation import Preparation, encoding_of
    from fedkin.experiment.outputs import (
        READING,
        id_texts,
        label_file,
        labels_of,
        remove_result,
        write_reading,
        write_result,
    )
    from fedkin.experiment.run_folder import RESULTS as FOUND
    from fedkin.experiment.run_folder import write_sums
    from fedkin.report.numbers import join_words
    from fedkin.report.page import write_page
    from fedkin.report.run_page import page_of_client

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
        if not path.is_file() or path.read_bytes() != labels.encode():
            write_atomically(path, labels)
            client = replace(site.client(request), state=dict(state))
            site.prepare(client)
            encoding = encoding_of(state)
            name = None if encoding is None or site.table is None else encoding.schema.id
            name = name if site.table is not None and name in site.table.names else None
            ids = [] if name is None or site.table is None else id_texts(site.table, name)
            write_page(path.with_suffix(".html"), page_of_client(client, site.name, ids, name or "row"))
    if "result" in payload:
        alone = Population([], None, payload["classes"], site.features, [site.name])
        preparation = Preparation.from_tree(payload["preparation"])
        write_result(folder, payload["method"], payload["result"], preparation, alone)
    if site.table is not None:
        write_reading(folder, site.reading or NO_OPTIONS)
    write_sums(folder, (*FOUND, READING))
    if "result" in payload and (cluster := payload["result"]["cluster"]) >= 0:
        of = pluralize(payload["result"]["n_clusters"], "cluster")
        print(f"fedkin: The site is in cluster {cluster} of {of}.", flush=True)
    print(f"fedkin: The site's results of run {request.run} are in {folder}.", flush=True)


def site_of(context: Context) -> Site:
    """Build the site whose file the node's configuration names, or else the environment variable `SITE`.

    In its value, parts such as ``{client-name}`` are of the configuration, for platforms that start several sites on
    one machine. Raises FedkinError if no file is named, or the file or the data cannot be read.
    """
    path = context.node_config.get("site", os.environ.get(SITE))
    if not isinstance(path, str):
        raise FedkinError(
            f"The SuperNode was started without a site's file: --node-config 'site=\"PATH.toml\"', or {SITE}=PATH.toml."
        )
    place = expanded(re.sub(r"\{([\w-]+)\}", lambda part: str(context.node_config.get(part[1], part[0])), path))
    file = read_site(place)
    torch.set_num_threads(file.threads)
    try:
        site = file.site(place)
    except FedkinError as error:
        raise SiteDataError(str(error), file.name) from error
    return site


def checked(path: Path, config: Config | None = None) -> list[str]:
    """Read a site's file and its data; return what they hold, how a table's columns are read, and what looks wrong.

    The rules of its policy come last, with what they would refuse of an experiment, see `site_policy.refused`. Raises
    FedkinError if the file or the data cannot be read. Nothing but embeddings is written.
    """
    from fedkin.experiment.outcome import columns_text  # every message starts a process, which needs it not

    site = read_site(path).site(path)
    what = pluralize(len(site.features), "column") if site.features else f"shape {tuple(site.x.shape[1:])}"
    classes = "1 class" if len(site.classes) == 1 else f"{len(site.classes):,} classes"
    labels = f"labels of {classes} ({listing(site.classes, 5)})" if site.y is not None else "no labels"
    named = {} if site.table is None else {column.name: column for column in site.table.columns}
    columns = [] if site.table is None else ["\n" + columns_text([site.table], named, site.table.id)]
    first, notes = f"Site '{site.name}' has {pluralize(len(site.x), 'sample')} of {what}, and {labels}.", _notes(site)
    policy = policy_lines(path, site, config)
    policy = ["", *policy] if columns and policy else policy
    return [first, *columns, *([""] if columns and notes else []), *notes, *policy]


def _notes(site: Site) -> list[str]:
    if site.table is None:
        return []
    cells = check_cells({site.name: site.table})
    return [*cells, *note_on_texts([(site.name, site.table)])]
