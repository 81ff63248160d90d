"""Flower client app of a site: its file, its policy beside it, and the results it keeps."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from flwr.app import Context
from flwr.clientapp import ClientApp
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedkin.core import Payload
from fedkin.core.device import device_named
from fedkin.core.errors import FedkinError, listing
from fedkin.core.files import read_tables, write_atomically
from fedkin.core.method import validation_sentence
from fedkin.data.checks import check_cells
from fedkin.data.columns import id_texts
from fedkin.data.inputs import note_on_texts
from fedkin.data.names import HUB, expanded
from fedkin.data.options import MIN_MEMBERS, NO_OPTIONS
from fedkin.data.population import Population
from fedkin.data.preparation import restore_preparation
from fedkin.data.sources import load
from fedkin.engines.flower_engine.messages import client_app as answering
from fedkin.engines.site import Policy, Request, Site
from fedkin.experiment.config import ColumnOptions, encoder_named
from fedkin.privacy.budget import Account
from fedkin.report.numbers import pluralize
from fedkin.secure_aggregation.client_tasks import public_keys

POLICY = "policy.toml"
"""The site's policy, beside its file."""
M = TypeVar("M", bound=BaseModel)


def read_file(path: Path, model: type[M]) -> M:
    """Read a site's file of this model; raise FedkinError if it cannot be read, or a key or value is not allowed."""
    tables = read_tables(path)
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, model.model_fields, f"in {path}") from error


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


def read_site(path: Path) -> Site:
    """Read a site's file, the policy beside it and its data.

    Raises FedkinError if the file or the data cannot be read, or a key, value or rule is not allowed here.
    """
    file, beside = read_file(path, SiteFile), path.with_name(POLICY)
    policy = read_file(beside, Policy) if beside.exists() else Policy()
    epsilon = min(filter(None, (file.epsilon, policy.epsilon)), default=None)
    if policy.epsilon_per_run and not epsilon:
        raise FedkinError(f"{beside}: 'epsilon_per_run' needs 'epsilon', for all runs together.")
    base, folder = path.parent, path.parent / expanded(file.folder)
    try:
        table = file.table
    except FedkinError as error:
        raise FedkinError(f"{path}: {error}") from error
    if file.encode is not None:
        kind, colon, name = file.encode.partition(":")
        is_here = colon and (base / expanded(name.partition("?")[0])).exists()
        spec = f"{kind}:{base / expanded(name)}" if is_here else file.encode
        table = replace(table, encoder=encoder_named(spec, str(folder)))
    device = device_named(file.device, f"'device' in {path}")
    listed = public_keys(file.keys, f"[keys] in {path}")
    data = base / expanded(file.data)
    is_file = data.exists() or (Path(file.data).suffix and not file.data.startswith(HUB))
    read = load(str(data) if is_file else file.data, file.label, options=table)
    return Site(
        file.name,
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
        packages=tuple(dict.fromkeys(["fedkin", *file.packages])),
        device=device,
        min_members=max(file.min_members or 0, policy.min_members or 0),
        account=Account(folder, epsilon, file.delta, policy.epsilon_per_run) if epsilon else None,
        policy=policy,
    )


SITE = "FEDKIN_SITE"
"""Environment variable that names the site's file where a platform starts the SuperNode and its configuration."""


def client_app() -> ClientApp:
    """Return the client app; its SuperNode names the site's file: ``--node-config 'site="ward-a.toml"'``, or `SITE`.

    In the name, parts such as ``{client-name}`` are of the node's configuration, for platforms that start several sites
    on one machine.
    """

    def site_of(context: Context) -> Site:
        path = context.node_config.get("site", os.environ.get(SITE))
        if not isinstance(path, str):
            raise FedkinError(
                "The SuperNode was started without a site's file: --node-config 'site=\"PATH.toml\"', or "
                f"{SITE}=PATH.toml."
            )
        named = re.sub(r"\{([\w-]+)\}", lambda part: str(context.node_config.get(part[1], part[0])), path)
        torch.set_num_threads(read_file(expanded(named), SiteFile).threads)
        return read_site(expanded(named))

    return answering(site_of, keep)


def keep(site: Site, request: Request, payload: Payload) -> None:
    """Write a site's results to ``results/<run>`` in its folder: clusters of its samples, with a page of its own, and
    its cluster's model.

    `fedkin predict` works with that folder as with a run's, and reads new rows as the site's table was read. Where
    the clusters are others than before, as after `fedkin cut` at the server, the earlier result is removed, which the
    site was given by hand.
    """
    # Only this message needs them, and every message starts a process.
    import tomli_w

    from fedkin.data.preparation import Preparation, encoding_of
    from fedkin.experiment import run_folder
    from fedkin.experiment.numbering import Numbers
    from fedkin.report.page import write_page
    from fedkin.report.run_page import page_of_client

    folder = site.folder / "results" / request.run
    with site.memory(request.run) as memory:
        state = memory.state() or {}
        memory.hold()
    if "numbers" in payload and "clusters" in state:
        state |= Numbers(payload["numbers"], payload["count"]).of_state(state)
    labels, path = run_folder.labels_of(site.table, state), run_folder.label_file(folder, 0, [site.name])
    if labels is not None and not (path.is_file() and path.read_bytes() == labels.encode()):
        if path.is_file():  # of other clusters: what the site was given by hand to predict with is none of theirs
            for file in (run_folder.RESULT, run_folder.MODELS):
                (folder / file).unlink(missing_ok=True)
        write_atomically(path, labels)
        client = replace(site.client(request), state=dict(state))
        site.prepare(client)
        encoding, ids, name = encoding_of(state), list[str](), None
        if site.table is not None and encoding is not None and encoding.schema.id in site.table.names:
            name = encoding.schema.id
            ids = id_texts(site.table, name)
        write_page(path.with_suffix(".html"), page_of_client(client, site.name, ids, name or "row"))
    if "result" in payload:
        alone = Population([], None, payload["classes"], site.features, [site.name])
        preparation = Preparation.from_tree(payload["preparation"])
        run_folder.write_result(folder, payload["method"], payload["result"], preparation, alone)
        if (cluster := payload["result"]["cluster"]) >= 0:
            of = pluralize(payload["result"]["n_clusters"], "cluster")
            print(f"fedkin: The site is in cluster {cluster} of {of}.", flush=True)
    if site.table is not None:
        # `fedkin predict` reads the site's new rows alike.
        how = tomli_w.dumps({"data": (site.reading or NO_OPTIONS).of_files})
        write_atomically(folder / run_folder.READING, how)
    print(f"fedkin: The site's results of run {request.run} are in {folder}.", flush=True)


def checked(path: Path) -> list[str]:
    """Read a site's file and its data; return what they hold, how a table's columns are read, and what looks wrong.

    The rules of its policy come last. Raises FedkinError if the file or the data cannot be read. Nothing but embeddings
    is written.
    """
    from fedkin.experiment.outcome import columns_text  # every message starts a process, which needs it not

    site = read_site(path)
    what = pluralize(len(site.features), "column") if site.features else f"shape {tuple(site.x.shape[1:])}"
    labels = "no labels" if site.y is None else f"labels ({listing(site.classes, 5)})"
    parts = [[f"Site '{site.name}' has {pluralize(len(site.x), 'sample')} of {what}, and {labels}."]]
    if site.table is not None:
        columns = columns_text([site.table], {column.name: column for column in site.table.columns}, site.table.id)
        notes = [*check_cells({site.name: site.table}), *note_on_texts([site.table])]
        parts += [[columns], notes]
    rules = [f"{name} = {value}" for name, value in site.policy.model_dump(exclude_unset=True, mode="json").items()]
    parts.append([f"Its policy: {listing(rules)}."] if rules else [])
    return [line for number, part in enumerate(filter(None, parts)) for line in ([""] * bool(number) + part)]
