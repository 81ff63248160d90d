"""A site's ``policy.toml``, beside its own file, and what it would refuse of an experiment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedkin.core import Client, Payload, Task
from fedkin.core.errors import FedkinError, RefusalError, listing
from fedkin.core.files import read_tables
from fedkin.core.method import validation_sentence
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation
from fedkin.engines.policy import Policy
from fedkin.engines.site import Site
from fedkin.experiment.config import Config, preparing_for
from fedkin.experiment.registry import target_of
from fedkin.secure_aggregation.sums import secure

POLICY = "policy.toml"


class PolicyFile(BaseModel):
    """Content of a site's policy; each rule may be absent.

    `min_members` and `epsilon` are as in the site's file, and the stricter of both holds, as it does with what the
    server asks for; `epsilon_per_run` bounds each run besides. `methods` are the only ones allowed, by name or as
    ``package.module:Class``, and `messages` the only ones answered, by name, in which a star stands for anything.
    With `extremes` false no exact minimum and maximum leave. `max_reply_bytes` is the largest reply. `signed_by` says
    who answers for the policy, which holds until the end of the day `valid_until`, in UTC. Within `hours` such as
    "20-6", by the site's clock, it answers, and not outside.
    """

    model_config = ConfigDict(strict=True, extra="forbid")
    min_members: int | None = Field(default=None, ge=MIN_MEMBERS)
    methods: list[str] | None = None
    messages: list[str] | None = None
    extremes: bool = True
    max_reply_bytes: PositiveInt | None = None
    epsilon: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    epsilon_per_run: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    signed_by: str | None = Field(default=None, min_length=1)
    valid_until: date | None = None
    hours: str | None = Field(default=None, pattern="^([01]?[0-9]|2[0-3])-([01]?[0-9]|2[0-4])$")

    def rules(self, budgets: Mapping[str, float]) -> Policy:
        """Return what is checked before each reply; raise FedkinError if no method has one of the names.

        `budgets` are as in `Policy`.
        """
        allows: dict[str, Callable[[Task], bool]] = {}
        if self.methods is not None:
            targets = [target_of("method", name) for name in self.methods]
            allows["methods"] = lambda task: _is_of(task, targets)
        if (patterns := self.messages) is not None:  # what a secure sum carries is checked, too
            patterns = [*patterns, f"{_SUMS}*"]
            allows["messages"] = lambda task: any(fnmatchcase(task.name, pattern) for pattern in patterns)
        begin, _, end = (self.hours or "").partition("-")
        hours = (int(begin), int(end)) if self.hours else None
        return Policy(allows, self.extremes, self.max_reply_bytes, budgets, self.valid_until, hours)


def read_policy(path: Path) -> PolicyFile:
    """Read a policy, empty if there is no file; raise FedkinError if it cannot be read, or has an unknown rule."""
    if not path.exists():
        return PolicyFile()
    tables = read_tables(path)
    try:
        return PolicyFile.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, PolicyFile.model_fields, f"in {path}") from error


_SUMS = "fedkin.secure_aggregation."
# What any method may ask for: to prepare the data, describe clusters, and add up in secret.
_COMMON = ("fedkin.data.", _SUMS)


def _is_of(task: Task, targets: list[str]) -> bool:
    """Return whether a task is of one of these methods, ``module:Class``, or of what all methods use."""
    module = task.name.rpartition(".")[0]
    return module.startswith(_COMMON) or any(module in modules_of(target.partition(":")[0]) for target in targets)


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


class _Rehearsal(LocalFederation):
    """Federation of copies of one site, in which nothing is refused and all that its policy would refuse is noted."""

    def __init__(self, site: Site, count: int, seed: int, **common: Any) -> None:
        clients = [
            Client(i, site.x, site.y, dict(site.begins_with), table=site.table, min_members=site.min_members,
                   extremes=site.policy.extremes, samples=site.samples)
            for i in range(count)
        ]  # fmt: skip
        super().__init__(clients, seed, **common)
        self.policy, self.has_budget, self.refusals = site.policy, site.reserve is not None, dict[str, str]()

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        def reserve(mu: float) -> bool:
            self._try(self.policy.check_budget, mu, task)
            return True

        for copy in self.clients.values():
            copy.reserve = reserve
        self._try(self.policy.check_allowed, task, task)
        self._try(self.policy.check_extremes, task, task)
        if self.has_budget and not task.accounted:
            self.refusals.setdefault("The site's privacy budget refuses this: epsilon.", task.name)
        for client, reply in super().deliver(task, payloads):
            if not isinstance(reply, str):
                self._try(self.policy.check_reply, reply, task)
            yield client, reply

    def _try(self, check: Any, value: Any, task: Task) -> None:
        try:
            check(value)
        except RefusalError as error:
            self.refusals.setdefault(str(error), task.name)


def refused(site: Site, config: Config) -> list[str]:
    """Return what a site's policy would refuse of an experiment, by rule, with the first task of each.

    Its preparation and first step are rehearsed, with copies of this site in place of all others; nothing is sent.
    Raises FedkinError if the experiment does not run on this site's data.
    """
    count = max(3, config.federation.sites or len(config.federation.listed))
    fed = _Rehearsal(site, count, config.seed)
    try:
        replace(site.policy, hours=None).check_time()  # the run is at another hour
    except RefusalError as error:
        return [str(error)]
    if config.federation.secure_sums:
        secure(fed, config.method)
    prepare(fed, preparing_for(config.method, config.data.table))
    config.method.step(fed, config.method.init(fed))
    return [f"{sentence} First in task '{task}'." for sentence, task in fed.refusals.items()]


def policy_lines(path: Path, site: Site, config: Config | None) -> list[str]:
    """Return the rules of the policy beside a site's file, and what they would refuse of an experiment, in words."""
    policy = read_policy(path.with_name(POLICY))
    rules = [f"{name} = {value}" for name, value in policy.model_dump(exclude_unset=True, mode="json").items()]
    lines = [f"Its policy: {listing(rules, len(rules))}."] if rules else []
    if config is None:
        return lines
    try:
        refusals = refused(site, config)
    except FedkinError as error:
        raise FedkinError(f"The experiment cannot be rehearsed on this site's data: {error}") from error
    what = f"the preparation and first step of '{config.method_name}'"
    return [*lines, *(refusals or [f"The site refuses nothing of {what}."])]
