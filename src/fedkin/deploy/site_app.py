"""Flower client app of a site: its file, its policy beside it and what that would refuse, and the results it keeps."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch
from flwr.app import Context
from flwr.clientapp import ClientApp
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedkin.core import Client, Payload, Task
from fedkin.core.device import device_named
from fedkin.core.errors import FedkinError, RefusalError, listing
from fedkin.core.files import read_tables, write_atomically
from fedkin.core.method import validation_sentence
from fedkin.data.checks import check_cells
from fedkin.data.inputs import note_on_texts
from fedkin.data.names import HUB, expanded
from fedkin.data.options import MIN_MEMBERS, NO_OPTIONS
from fedkin.data.population import Population
from fedkin.data.preparation import restore_preparation
from fedkin.data.schema import id_texts
from fedkin.data.sources import load
from fedkin.engines.flower_engine.messages import client_app as answering
from fedkin.engines.local import LocalFederation
from fedkin.engines.site import SUMS, Policy, Request, Site, refusal_by
from fedkin.experiment.config import ColumnOptions, Config, encoder_named
from fedkin.experiment.registry import target_of
from fedkin.privacy.budget import Account
from fedkin.report.numbers import pluralize
from fedkin.secure_aggregation.client_tasks import public_keys

# A site's policy, and what it would refuse of an experiment.


POLICY = "policy.toml"
M = TypeVar("M", bound=BaseModel)
_COMMON = ("fedkin.data.", SUMS)
"""What any method may ask for: to prepare the data, describe clusters, and add up in secret."""


class PolicyFile(Policy):
    """Content of a site's policy: `methods` are the only ones allowed, by name or as ``package.module:Class``."""

    methods: list[str] | None = None

    def check_allowed(self, task: Task) -> None:
        super().check_allowed(task)
        if self.methods is None or task.name.startswith(_COMMON):
            return
        targets = [target_of("method", name).partition(":")[0] for name in self.methods]
        if not any(task.name.rpartition(".")[0] in modules_of(module) for module in targets):
            raise refusal_by("methods")


@cache
def modules_of(method: str) -> frozenset[str]:
    """Return the modules that a method's tasks may be in: its own, and those of its package that they import from.

    No method of fedkin's imports another, so that these do not hold the tasks of another.
    """
    package = "fedkin.methods" if method.startswith("fedkin.") else method.partition(".")[0]
    modules, pending = set[str](), [method]
    while pending:
        if (module := pending.pop()) in modules:
            continue
        modules.add(module)
        for value in vars(import_module(module)).values():
            name = value.name.rpartition(".")[0] if isinstance(value, Task) else getattr(value, "__module__", None)
            name = value.__name__ if isinstance(value, ModuleType) else name
            # Packages are left out: their names import all that is in them.
            is_inside = isinstance(name, str) and f"{name}.".startswith(f"{package}.")
            if isinstance(name, str) and is_inside and not hasattr(sys.modules.get(name), "__path__"):
                pending.append(name)
    return frozenset(modules)


def read_file(path: Path, model: type[M]) -> M:
    """Read a site's file of this model; raise FedkinError if it cannot be read, or a key or value is not allowed."""
    tables = read_tables(path)
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, model.model_fields, f"in {path}") from error


def policy_beside(site_file: Path) -> PolicyFile:
    """Return the policy beside a site's file, without rules if there is none; raise FedkinError as `read_file`."""
    path = site_file.with_name(POLICY)
    policy = read_file(path, PolicyFile) if path.exists() else PolicyFile()
    for name in policy.methods or ():
        target_of("method", name)
    return policy


class _Rehearsal(LocalFederation):
    """Federation of copies of one site, in which nothing is refused and all that its policy would refuse is noted."""

    def __init__(self, site: Site, count: int, seed: int) -> None:
        clients = [
            Client(i, site.x, site.y, dict(site.begins_with), table=site.table, min_members=site.min_members,
                   extremes=site.policy.extremes, samples=site.samples)
            for i in range(count)
        ]  # fmt: skip
        super().__init__(clients, seed)
        self.site, self.refusals = site, dict[str, str]()

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        policy, account = self.site.policy, self.site.account

        def note(check: Callable[[Any], None], value: Any) -> None:
            try:
                check(value)
            except RefusalError as error:
                self.refusals.setdefault(str(error), task.name)

        def reserve(mu: float) -> bool:
            for rule, most in account.limits.items() if account else ():
                if not mu <= most:
                    self.refusals.setdefault(str(refusal_by(rule)), task.name)
            return True

        for copy in self.clients.values():
            copy.reserve = reserve
        note(policy.check_allowed, task)
        note(policy.check_extremes, task)
        if account and not task.accounted:
            self.refusals.setdefault("The site's privacy budget refuses this: epsilon.", task.name)
        for client, reply in super().deliver(task, payloads):
            if not isinstance(reply, str):
                note(policy.check_reply, reply)
            yield client, reply


def refused(site: Site, config: Config) -> list[str]:
    """Return what a site's policy would refuse of an experiment, by rule, with the first task of each.

    Its preparation and first step are rehearsed, with copies of this site in place of all others; nothing is sent.
    Raises FedkinError if the experiment does not run on this site's data.
    """
    try:
        site.policy.check_day()
    except RefusalError as error:
        return [str(error)]
    fed = _Rehearsal(site, max(3, config.federation.sites or len(config.federation.listed)), config.seed)
    from fedkin.experiment.disclosure import rehearse  # every message starts a process, which needs it not

    try:
        rehearse(config, fed, steps=1)
    except FedkinError as error:
        raise FedkinError(f"The experiment cannot be rehearsed on this site's data: {error}") from error
    return [f"{sentence} First in task '{task}'." for sentence, task in fed.refusals.items()]


def policy_lines(site: Site, config: Config | None) -> list[str]:
    """Return the rules of a site's policy, and what they would refuse of an experiment, in words."""
    rules = [f"{name} = {value}" for name, value in site.policy.model_dump(exclude_unset=True, mode="json").items()]
    lines = [f"Its policy: {listing(rules, len(rules))}."] if rules else []
    if config is None:
        return lines
    nothing = f"The site refuses nothing of the preparation and first step of '{config.method_name}'."
    return [*lines, *(refused(site, config) or [nothing])]


# A site's file, and its app.


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
    file, policy = read_file(path, SiteFile), policy_beside(path)
    epsilon = min(filter(None, (file.epsilon, policy.epsilon)), default=None)
    if policy.epsilon_per_run and not epsilon:
        raise FedkinError(f"{path.with_name(POLICY)}: 'epsilon_per_run' needs 'epsilon', for all runs together.")
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
        files = (run_folder.RESULT, run_folder.MODELS) if path.is_file() else ()
        if gone := [file for file in files if (folder / file).is_file()]:
            for file in gone:
                (folder / file).unlink()
            print(
                f"fedkin: The clusters are others than before, so {' and '.join(gone)} in {folder} are removed; copy "
                "them from the server's new results to predict with these.",
                flush=True,
            )
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
    run_folder.write_sums(folder, (*run_folder.RESULTS, run_folder.READING))
    print(f"fedkin: The site's results of run {request.run} are in {folder}.", flush=True)


def checked(path: Path, config: Config | None = None) -> list[str]:
    """Read a site's file and its data; return what they hold, how a table's columns are read, and what looks wrong.

    The rules of its policy come last, with what they would refuse of an experiment, see `refused`. Raises
    FedkinError if the file or the data cannot be read. Nothing but embeddings is written.
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
    parts.append(policy_lines(site, config))
    return [line for number, part in enumerate(filter(None, parts)) for line in ([""] * bool(number) + part)]
