"""Secure sums over clients, for methods to use when `Federation.secure_sums` is set.

Hiding is a task like any other, `masked`, around the task whose reply is summed, so every engine can carry it out.
docs/privacy.md says what it protects and what not.

For methods that only need sums, `ClientSums` masks them where clients are elsewhere and at least three take part. Then
what each of them adds is hidden, whether or not the run asks for secure sums. Otherwise replies are just added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, listing
from fedkin.core.federation import Federation
from fedkin.core.method import allowed_for_sums, display_name
from fedkin.core.payload import Payload
from fedkin.core.tasks import Task
from fedkin.secure_aggregation.client_checks import MIN_CLIENTS
from fedkin.secure_aggregation.masks import KEY, content, decode, encode, is_key
from fedkin.secure_aggregation.share_tasks import send_key
from fedkin.secure_aggregation.sum_rounds import SIGNED, distribute, hear, uncover
from fedkin.secure_aggregation.sum_tasks import Term, values_of

_ATTEMPTS = 4
_MAX_ATTEMPTS = 20
"""Attempts at a sum that the run cannot continue without."""
_OTHERS_LOST = "others of its sum were lost"
_TOO_FEW = f"fewer than {MIN_CLIENTS} clients to sum over"

MAX_GROUP = 64
"""Maximum number of clients in one of `ClientSums`: each pair of them needs masks; in one process 64 take 1 s a sum."""
_TIMES = 3
"""How often `ClientSums` asks for a sum."""


@dataclass(frozen=True)
class Sum:
    """Result of a secure sum over clients, in order of id: totals, float64, by name of the term."""

    clients: list[int]
    totals: dict[str, Tensor]


def secure(fed: Federation, method: Any) -> None:
    """Restrict `method` to secure sums over clients on `fed`; call it before its `init`.

    Raises
    ------
    FedkinError
        If the method, or one of its settings, needs more.
    """
    if method.sums_suffice is None:
        raise FedkinError(f"{display_name(type(method))} needs more than sums over clients.")
    for name, allowed in allowed_for_sums(type(method)).items():
        if (given := getattr(method, name)) not in allowed:
            raise FedkinError(f"With secure sums, '{name}' must be {' or '.join(map(repr, allowed))}, not {given!r}.")
    fed.secure_sums = True


def check_enough(clients: int) -> None:
    """Refuse secure sums over fewer than three clients; those that drop out later do not count.

    Of two clients, each would learn what the other gave. Raises FedkinError if there are fewer than three.
    """
    if clients < MIN_CLIENTS:
        raise FedkinError(
            f"A secure sum needs at least {MIN_CLIENTS} clients, but only {clients} would take part: in a sum "
            "of two, each learns what the other gave."
        )


def summed(
    fed: Federation,
    task: Task,
    payloads: Mapping[int, Payload],
    terms: Sequence[Term],
    clusters: Mapping[int, int] | None = None,
    attempts: int = _ATTEMPTS,
    complete: bool = False,
) -> dict[int, Sum]:
    """Run `task` at clients, and return the secure sums of their replies for each cluster of clients.

    A sum takes three exchanges: clients distribute shares of their keys, do the task, and reveal the shares that take
    the masks off. It survives up to a third of its clients who drop out at any moment. If more do, the others are asked
    again, from the start, so `task` must leave the clients' states alone. `fed.missing` then says who is in no sum, and
    why. Who is found to lie is left out of the run, if enough others remain.

    Parameters
    ----------
    fed : Federation
    task : Task
        Task that clients run.
    payloads : mapping of int to dict
        Payload for each client, the same for all clients of a cluster: otherwise masks do not cancel.
    terms : sequence of Term
        Terms of the replies that are summed.
    clusters : mapping of int to int, optional
        The cluster of each client; by default all are in cluster 0.
    attempts : int
        Maximum number of attempts at the sum of a cluster.
    complete : bool
        Whether a sum must be over all of its clients. The difference of two sums of the same numbers is what those
        gave who are in one of them, so that it must not be asked for once more to have the others in it, too.

    Returns
    -------
    dict of int to Sum
        By cluster, in order; without clusters that came to no sum.
    """
    missing = _ask_keys(fed, payloads)
    if complete and missing:
        fed.missing = dict(sorted(missing.items()))
        return {}
    waiting: dict[int, list[int]] = {}
    for client in sorted(payloads.keys() - missing.keys()):
        waiting.setdefault(clusters[client] if clusters else 0, []).append(client)
    found: dict[int, Sum] = {}
    convicted: dict[int, str] = {}
    for _ in range(attempts):
        for cluster in [cluster for cluster, clients in waiting.items() if len(clients) < MIN_CLIENTS]:
            missing |= dict.fromkeys(waiting.pop(cluster), _TOO_FEW)
        if not waiting:
            break
        rounds = distribute(fed, waiting)
        hear(fed, task, payloads, terms, rounds, complete)
        totals = uncover(fed, rounds, complete)
        for cluster, one in rounds.items():
            missing |= one.lost
            convicted |= one.convicted
            waiting[cluster] = one.others
            if cluster in totals:
                found[cluster] = Sum(one.replied, _cut(decode(totals[cluster]), terms))
                del waiting[cluster]
    missing |= {client: _OTHERS_LOST for clients in waiting.values() for client in clients}
    fed.missing = dict(sorted((missing | convicted).items()))
    if convicted and fed.can_spare(convicted):
        fed.leave_out(convicted)
    return dict(sorted(found.items()))


def lost_themselves(missing: Mapping[int, str]) -> dict[int, str]:
    """Return the clients in `missing` that failed themselves, without those whose sum failed because of others."""
    return {client: reason for client, reason in missing.items() if reason not in (_OTHERS_LOST, _TOO_FEW)}


def sums_of_all(fed: Federation, task: Task, payload: Payload, terms: Sequence[Term]) -> dict[str, Tensor]:
    """Return secure sums over every client present, by name of the term; repeated until all have taken part.

    Clients that have given nothing in 20 attempts are left out of the run. Raises FedkinError if fewer than three, or
    than `min_clients`, would remain.
    """
    for attempt in range(_MAX_ATTEMPTS):
        if attempt:
            fed.pause(attempt)
        found = summed(fed, task, dict.fromkeys(fed.present, payload), terms, attempts=1, complete=True).get(0)
        if found and found.clients == fed.present:
            return found.totals
    lost = lost_themselves(fed.missing)
    if not lost or len(fed.present) - len(lost) < max(MIN_CLIENTS, fed.min_clients):
        reasons = lost or fed.missing or dict.fromkeys(fed.present, _TOO_FEW)
        silent = listing([f"client {client}: {reason}" for client, reason in reasons.items()])
        raise FedkinError(f"A sum over all clients failed {_MAX_ATTEMPTS} times ({silent}); too few clients remain.")
    fed.leave_out(lost)
    return sums_of_all(fed, task, payload, terms)


def _ask_keys(fed: Federation, clients: Iterable[int]) -> dict[int, str]:
    """Ask clients for public keys that are not known yet; return those that did not send one, and why."""
    unknown = [client for client in sorted(clients) if client not in fed.keys]
    if not unknown:
        return {}
    for client, reply in fed.stream(send_key, {client: {} for client in unknown}, {"key": (KEY,)}):
        if is_key(content(reply["key"])):
            fed.keys[client] = reply["key"]
            fed.signed.pop(client, None)
            if "signer" in reply and "signature" in reply:
                fed.signed[client] = {part: reply[part] for part in SIGNED}
    return {client: fed.missing.get(client, "its key is invalid") for client in unknown if client not in fed.keys}


def _cut(values: Tensor, terms: Sequence[Term]) -> dict[str, Tensor]:
    """Split a vector ``(length,)`` into the tensors of its terms."""
    parts = values.split([prod(term.shape) for term in terms])
    return {term.name: part.view(term.shape) for term, part in zip(terms, parts, strict=True)}


class ClientSums:
    """Sums over all clients present, one exchange after another, and the clients that took part.

    More than 64 clients make groups of their own sums, since the masks of a sum grow with the square of its clients;
    where a run asks for secure sums, all are one group. Hidden or not, values are rounded alike, so that the sums are
    the same.

    Attributes
    ----------
    hidden : bool
        Whether the server sees the sums of groups alone.
    groups : list of list of int
        The clients of each group.
    answered : list of int
        Clients in every sum so far that was asked of them.
    missing : dict of int to str
        Clients that are not, and why.
    """

    def __init__(self, fed: Federation) -> None:
        if fed.secure_sums:
            check_enough(len(fed.present))
        self.fed = fed
        self.hidden = fed.secure_sums or (fed.hides_sums and len(fed.present) >= MIN_CLIENTS)
        count = 1 if fed.secure_sums else -(-len(fed.present) // MAX_GROUP)
        # Dealt out in turn, since clients listed side by side may be alike.
        self.groups = [fed.present[group::count] for group in range(count)]
        self.answered, self.missing = list(fed.present), dict[int, str]()
        self._tasks: list[str] = []

    def by_group(self) -> list[ClientSums]:
        """Return sums over each group alone; who took part is known here as well."""
        parts = [copy(self) for _ in self.groups]
        for part, group in zip(parts, self.groups, strict=True):
            part.groups = [group]
        return parts

    def ask(self, asked: Task, payload: Payload, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor] | None:
        """Have all clients do `asked`; return the sums of their replies, float64, by name, or ``None`` without a sum.

        `wanted` are the shapes of the tensors of a reply that are summed.
        """
        self._tasks.append(asked.name)
        group_of = {client: group for group, clients in enumerate(self.groups) for client in clients}
        terms = [Term(name, shape) for name, shape in wanted.items()]
        sums = (self._hidden if self.hidden else self._plain)(asked, payload, terms, group_of)
        away = group_of.keys() - {client for one in sums.values() for client in one.clients}
        self.answered[:] = [client for client in self.answered if client not in away]
        if not sums:
            return None
        return {name: torch.stack([one.totals[name] for one in sums.values()]).sum(0) for name in wanted}

    def _hidden(
        self, asked: Task, payload: Payload, terms: Sequence[Term], group_of: Mapping[int, int]
    ) -> dict[int, Sum]:
        sums: dict[int, Sum] = {}
        for attempt in range(_TIMES):
            waiting = {client: group for client, group in group_of.items() if group not in sums}
            if not waiting:
                break
            if attempt:
                self.fed.pause(attempt)
            sums |= summed(self.fed, asked, dict.fromkeys(waiting, payload), terms, waiting)
            self.missing.update(self.fed.missing)
        return dict(sorted(sums.items()))

    def _plain(
        self, asked: Task, payload: Payload, terms: Sequence[Term], group_of: Mapping[int, int]
    ) -> dict[int, Sum]:
        """Add up replies in the fixed point of secure sums."""
        sizes = Counter(group_of.values())
        totals: dict[int, Tensor] = {}
        replied: dict[int, list[int]] = {group: [] for group in sizes}
        waiting = sorted(group_of)
        for attempt in range(_TIMES):
            if attempt:
                self.fed.pause(attempt)
            reasons: dict[int, str] = {}
            expected = {term.name: term.shape for term in terms}
            for client, reply in self.fed.stream(asked, dict.fromkeys(waiting, payload), expected):
                group = group_of[client]
                try:
                    whole = encode(torch.cat([values_of(reply, term) for term in terms]), sizes[group])
                except ValueError as error:
                    reasons[client] = str(error)
                else:
                    totals[group] = totals[group] + whole if group in totals else whole
                    replied[group].append(client)
            self.missing.update(self.fed.missing | reasons)
            waiting = sorted(self.fed.missing)
            if not waiting:
                break
        return {group: Sum(replied[group], _cut(decode(total), terms)) for group, total in sorted(totals.items())}

    def facts(self) -> dict[str, object]:
        """Return how the sums were made, for the record."""
        return {"exchanges": len(self._tasks), "sums": "hidden" if self.hidden else "plain"}
