"""Sums over clients that hide what each of them gave; what a method uses when `Federation.secure_sums` is set.

Hiding is a task like any other, `masked`, around the task whose reply is summed, so every engine can carry it out.
What it protects, and what not, is told in docs/privacy.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError
from fedkin.core.federation import Federation
from fedkin.core.masks import KEY, check_installed, context_of, decode, encode, mask, public_key
from fedkin.core.payload import Payload, refusal
from fedkin.core.task import Task, task

LEAST = 3
"""Clients of a sum at least; in a sum of two, each learns what the other gave."""
_ATTEMPTS = 4
_PRIVATE = "sums_key"
"""Where a client's state has its private key, uint8 ``(32,)``."""
_OTHER_KEY = "its key is another"
"""What a site says that has lost its memory; it is asked for its new key the next time."""


@dataclass(frozen=True)
class Term:
    """Something that is summed.

    Attributes
    ----------
    name : str
        Of a tensor or number in the reply.
    shape : tuple of int
        Its shape; ``()`` for a number.
    factor : str or None
        Name of a number in the reply that it is multiplied by, at the client.
    """

    name: str
    shape: tuple[int, ...] = ()
    factor: str | None = None


@dataclass(frozen=True)
class Sum:
    """What some clients gave together.

    Attributes
    ----------
    clients : list of int
        Whose numbers are in it, in order of id.
    totals : dict of str to Tensor
        float64, by name of the term.
    """

    clients: list[int]
    totals: dict[str, Tensor]


def secure(fed: Federation, method: Any) -> None:
    """Have `method` work with sums alone on `fed`; to be called before its `init`.

    Raises
    ------
    FedkinError
        If the method, or one of its settings, needs more, or the package for it is not installed.
    """
    needed = sums_suffice(type(method))
    if needed is None:
        raise FedkinError(f"{type(method).__name__} needs more of a client than its part in a sum.")
    for name, value in needed.items():
        if getattr(method, name) != value:
            raise FedkinError(f"With secure sums, '{name}' must be {value!r}, not {getattr(method, name)!r}.")
    check_installed()
    fed.secure_sums = True


def sums_suffice(method: type[Any]) -> Mapping[str, Any] | None:
    """Settings with which sums over clients are all that a method needs; ``None`` if it always needs more.

    A method says so by a class attribute of this name. A subclass does not inherit it, for it may need more.
    """
    needed: Mapping[str, Any] | None = vars(method).get("sums_suffice")
    return needed


def summed(
    fed: Federation,
    task: Task,
    payloads: Mapping[int, Payload],
    terms: Sequence[Term],
    groups: Mapping[int, int] | None = None,
    attempts: int = _ATTEMPTS,
) -> dict[int, Sum]:
    """Have clients do `task`, and learn the sums of what they would have replied, for each group of them.

    Masks cancel only if all clients of a group reply. Where some do not, the others are asked again, from the start, so
    `task` must leave the clients' states alone. `fed.missing` then says who is in no sum, and why.

    Parameters
    ----------
    fed : Federation
    task : Task
        What clients do.
    payloads : mapping of int to dict
        What each is sent for it.
    terms : sequence of Term
        What is summed of the replies.
    groups : mapping of int to int, optional
        The group of each client; by default all are in group 0.
    attempts : int
        How often a group is asked at most.

    Returns
    -------
    dict of int to Sum
        By group, in order; without groups that came to no sum.

    Raises
    ------
    FedkinError
        If fewer than three clients are asked.
    """
    if len(payloads) < LEAST:
        raise FedkinError(
            f"A secure sum needs {LEAST} clients at least, and {len(payloads)} were to give one: in a sum of two, each "
            "learns what the other gave."
        )
    missing = _ask_keys(fed, payloads)
    waiting: dict[int, list[int]] = {}
    for client in sorted(payloads.keys() - missing.keys()):
        waiting.setdefault(groups[client] if groups else 0, []).append(client)
    found: dict[int, Sum] = {}
    for _ in range(attempts):
        for group in [group for group, clients in waiting.items() if len(clients) < LEAST]:
            missing |= dict.fromkeys(waiting.pop(group), f"fewer than {LEAST} clients to sum over")
        if not waiting:
            break
        sums = _exchange(fed, task, payloads, terms, waiting)
        missing |= fed.missing
        for group, sum_ in sums.items():
            if sum_.clients == waiting[group]:
                found[group] = sum_
                del waiting[group]
            else:
                waiting[group] = sum_.clients
    missing |= {client: "others of its sum were lost" for clients in waiting.values() for client in clients}
    fed.missing = dict(sorted(missing.items()))
    return dict(sorted(found.items()))


def _ask_keys(fed: Federation, clients: Iterable[int]) -> dict[int, str]:
    """Ask those for their keys whose keys are not known; who did not tell, and why."""
    unknown = [client for client in sorted(clients) if client not in fed.keys]
    if not unknown:
        return {}
    for client, reply in fed.stream(send_key, {client: {} for client in unknown}, {"key": (KEY,)}):
        if reply["key"].dtype == torch.uint8:
            fed.keys[client] = reply["key"]
    return {client: fed.missing.get(client, "its key is none") for client in unknown if client not in fed.keys}


def _exchange(
    fed: Federation,
    task: Task,
    payloads: Mapping[int, Payload],
    terms: Sequence[Term],
    groups: Mapping[int, Sequence[int]],
) -> dict[int, Sum]:
    """Ask all clients of `groups` once; sums of what came, to be believed where everybody answered."""
    length = sum(prod(term.shape) for term in terms)
    totals = {group: np.zeros(length, np.uint64) for group in groups}
    answered: dict[int, list[int]] = {group: [] for group in groups}
    group_of = {client: group for group, clients in groups.items() for client in clients}
    useless = {}
    for client, reply in fed.stream(masked, _requests(fed, task, payloads, terms, groups)):
        reason = _uselessness(reply, length)
        if reason is None:
            totals[group_of[client]] += reply["masked"].numpy().view(np.uint64)
            answered[group_of[client]].append(client)
        else:
            useless[client] = reason
            if reason == _OTHER_KEY:
                del fed.keys[client]
    fed.missing = dict(sorted((fed.missing | useless).items()))
    sums = {group: decode(torch.from_numpy(total.view(np.int64))) for group, total in totals.items()}
    return {group: Sum(answered[group], _cut(sums[group], terms)) for group in groups}


def _requests(
    fed: Federation,
    task: Task,
    payloads: Mapping[int, Payload],
    terms: Sequence[Term],
    groups: Mapping[int, Sequence[int]],
) -> dict[int, Payload]:
    """Payloads of `masked`; clients that share group and payload share it."""
    requests: dict[int, Payload] = {}
    for clients in groups.values():
        common: Payload = {
            "task": task.name,
            "terms": [asdict(term) for term in terms],
            "ids": list(clients),
            "keys": torch.stack([fed.keys[client] for client in clients]),
            # Not from the seed: a run that is resumed may repeat an exchange, and its masks must be others.
            "tag": torch.tensor(list(os.urandom(16)), dtype=torch.uint8),
        }
        shared: dict[int, Payload] = {}
        for client in clients:
            payload = payloads[client]
            requests[client] = shared.setdefault(id(payload), common | {"payload": payload})
    return requests


def _uselessness(reply: Payload, length: int) -> str | None:
    """Why a reply of `masked` cannot be used; ``None`` if it can."""
    if "refused" in reply:
        return str(reply["refused"])
    reason = refusal(reply, {"masked": (length,)})
    if reason is None and reply["masked"].dtype != torch.int64:
        return "'masked' is not of whole numbers"
    return reason


def _cut(values: Tensor, terms: Sequence[Term]) -> dict[str, Tensor]:
    """Numbers ``(length,)`` as the terms that they are."""
    parts = values.split([prod(term.shape) for term in terms])
    return {term.name: part.view(term.shape) for term, part in zip(terms, parts, strict=True)}


@task
def send_key(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """The public key, uint8 ``(32,)``; the private one is made when it is first asked for, and stays."""
    replies: list[Payload] = []
    for client in clients:
        if _PRIVATE not in client.state:
            client.state[_PRIVATE] = torch.tensor(list(client.secret(KEY)), dtype=torch.uint8)
        replies.append({"key": torch.tensor(list(public_key(_private(client))), dtype=torch.uint8)})
    return replies


@task
def masked(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Do the task that came, and send what is to be summed of its reply as ``masked``, int64; or why not."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        keys = {int(i): bytes(key.tolist()) for i, key in zip(payload["ids"], payload["keys"], strict=True)}
        reason = _objection(client, keys)
        if reason is None:
            [reply] = _inner(payload["task"]).run([client], [payload["payload"]])
            try:
                replies.append({"masked": _hidden(client, reply, payload, keys)})
                continue
            except ValueError as error:
                reason = str(error)
        replies.append({"refused": reason})
    return replies


def _objection(client: Client, keys: Mapping[int, bytes]) -> str | None:
    """Why a client takes no part in a sum with these; ``None`` if it does."""
    if len(keys) < LEAST:
        return f"fewer than {LEAST} clients to sum over"
    if _PRIVATE not in client.state or keys.get(client.id) != public_key(_private(client)):
        return _OTHER_KEY
    return None


def _hidden(client: Client, reply: Payload, payload: Payload, keys: Mapping[int, bytes]) -> Tensor:
    """What the client gives to the sum, behind its mask: int64 ``(length,)``.

    Raises
    ------
    ValueError
        If a number of the reply is not fit for it, or a key is none.
    """
    values = torch.cat([_values(reply, Term(**term)) for term in payload["terms"]])
    whole = encode(values, len(keys)).numpy().view(np.uint64)
    context = context_of(bytes(payload["tag"].tolist()), keys)
    cover = mask(client.id, _private(client), keys, context, len(values)).numpy().view(np.uint64)
    return torch.from_numpy((whole + cover).view(np.int64))


def _values(reply: Payload, term: Term) -> Tensor:
    """What one term is in a reply, float64 ``(length,)``."""
    value = torch.as_tensor(reply[term.name], dtype=torch.float64)
    if value.shape != torch.Size(term.shape):
        raise ValueError(f"'{term.name}' has shape {tuple(value.shape)} where {tuple(term.shape)} was expected")
    if term.factor is not None:
        value = value * float(reply[term.factor])
    if not bool(value.isfinite().all()):
        raise ValueError(f"'{term.name}' is not finite")
    return value.flatten()


def _inner(name: str) -> Task:
    """The task called `name`; those of fedkin itself are imported, others the site must know already."""
    module = name.rpartition(".")[0]
    if module.partition(".")[0] == __name__.partition(".")[0]:
        import_module(module)
    return Task.named(name)


def _private(client: Client) -> bytes:
    return bytes(client.state[_PRIVATE].tolist())
