"""A site's ``policy.toml``, beside its own file, and what it would refuse of an experiment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fedkin.core import Client, Payload, Task
from fedkin.core.errors import FedkinError, RefusalError, listing
from fedkin.core.files import read_tables
from fedkin.core.method import validation_sentence
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation
from fedkin.engines.policy import SUMS, Policy, refusal_by
from fedkin.engines.site import Site
from fedkin.experiment.config import Config
from fedkin.experiment.registry import target_of
from fedkin.secure_aggregation.sums import secure

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
    if config.federation.secure_sums:
        secure(fed, config.method)
    try:
        prepare(fed, config.data.table.of(config.method))
        config.method.step(fed, config.method.init(fed))
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
