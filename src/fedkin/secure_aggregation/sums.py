"""Secure sums over clients, for methods to use when `Federation.secure_sums` is set.

Hiding is a task like any other, `masked`, around the task whose reply is summed, so every engine can carry it out.
docs/privacy.md says what it protects and what not.

Methods that only need sums ask for `Federation.sums`. In one process these are `ClientSums`, which just add replies up;
where clients are elsewhere and at least three take part, or the run asks for it, they are `HiddenSums`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, listing
from fedkin.core.federation import MAX_ATTEMPTS, Federation, Replies
from fedkin.core.payload import Failure, Payload, failure_kind, refusal
from fedkin.core.tasks import Task
from fedkin.secure_aggregation import client_tasks, masks
from fedkin.secure_aggregation.client_tasks import MIN_CLIENTS, Term, values_of
from fedkin.secure_aggregation.masks import KEY, KINDS, OPENER, OWN, PAIRS, SEALED, Integers, content, rows_of

_OTHERS_LOST = Failure("unsummed", "others of its sum were lost")
_TOO_FEW = Failure("unsummed", f"fewer than {MIN_CLIENTS} clients to sum over")
_SIGNED = ("signer", "signature")
_TIMES = 3
"""Requests for one exchange where a repetition costs no privacy: for shares, and for sums of `ClientSums`."""
GROUP = 64
"""Clients of a group at most: in one process they take 1 s a sum, and twice as many take four times as long."""


@dataclass(frozen=True)
class Sum:
    """Result of a secure sum over clients, in order of id, as the sums ``(groups, length)`` of their groups."""

    clients: list[int]
    by_group: Integers
    terms: Sequence[Term]

    @cached_property
    def totals(self) -> dict[str, Tensor]:
        """Totals over all groups, float64, by name of the term."""
        parts = masks.decode(self.by_group).split([term.length for term in self.terms])
        return {term.name: term.total(part) for term, part in zip(self.terms, parts, strict=True)}

    @classmethod
    def of(cls, parts: Iterable[Sum]) -> Sum:
        """Return the sum of several of the same terms, over different clients."""
        parts = list(parts)
        clients = sorted(client for part in parts for client in part.clients)
        return cls(clients, np.concatenate([part.by_group for part in parts]), parts[0].terms)


def groups_of(clients: Sequence[int]) -> list[list[int]]:
    """Return the groups of a sum over `clients`, each of which adds up in secret for itself.

    Each has at most `GROUP` clients, and more than half as many where there are several: masks and shares of a group
    grow with the square of its clients. They are dealt out in turn, since clients listed side by side may be alike.
    """
    count = -(-len(clients) // GROUP)
    return [list(clients[group::count]) for group in range(count)]


def secure(fed: Federation) -> None:
    """Restrict methods to secure sums over clients on `fed`; call it before their `init`."""
    fed.secure_sums = True
    fed.sums = lambda: HiddenSums(fed)  # type: ignore[method-assign]


def check_enough(clients: int) -> None:
    """Raise FedkinError if a secure sum would begin with fewer than three clients; those that drop out do not count."""
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
    attempts: int = 4,
    complete: bool = False,
) -> Replies[Sum]:
    """Run `task` at clients, and return the secure sums of their replies for each cluster of clients.

    A sum takes three exchanges: clients distribute shares of their keys, do the task, and reveal the shares that take
    the masks off. It survives up to a third of its clients who drop out at any moment. If more do, the others are asked
    again, from the start, so `task` must leave the clients' states alone. All of this is said of each of the
    `groups_of` a cluster: the server sees their sums, and a cluster's is over those that came to one.

    Payloads are the same for all clients of a cluster: otherwise masks do not cancel. `terms` of the replies are
    summed. `clusters` are those of the clients; by default all are in cluster 0. There are so many `attempts` at the
    sum of a cluster. With `complete`, a group's sum must be over all of its clients: the difference of two sums of the
    same numbers is what those gave who are in one of them, so that it must not be asked for once more to have the
    others in it, too.

    Return the sums by cluster, in order, without clusters that came to none; `missing` are the clients in none.
    """
    members: dict[int, list[int]] = {}
    for client in sorted(payloads):
        members.setdefault(clusters[client] if clusters else 0, []).append(client)
    waiting = [(cluster, ids) for cluster, clients in members.items() for ids in groups_of(clients)]
    missing, parts = dict[int, str](), dict[int, list[Sum]]()
    for attempt in range(attempts):
        if attempt and complete:
            fed.pause(attempt)  # else the silent are left out, and nobody is waited for
        everyone = {client for _, ids in waiting for client in ids}
        missing = {i: reason for i, reason in missing.items() if i not in everyone} | ask_keys(fed, everyone)
        tries, again = list[tuple[int, SumAttempt]](), list[tuple[int, list[int]]]()
        for cluster, ids in waiting:
            with_key = [client for client in ids if client in fed.keys]
            if complete and with_key != ids:
                again.append((cluster, ids))
            elif len(with_key) < MIN_CLIENTS:
                missing |= dict.fromkeys(with_key, _TOO_FEW)
            else:
                tries.append((cluster, SumAttempt.begin(fed, with_key, complete)))
        waiting = again
        _carry_out(fed, [each for _, each in tries], task, payloads, terms)
        for cluster, each in tries:
            missing |= each.lost
            if each.result is not None:
                parts.setdefault(cluster, []).append(Sum(each.replied, each.result[None], terms))
            else:
                waiting.append((cluster, [i for i in each.ids if complete or i not in each.lost]))
        if not waiting:
            break
    fed.note_missing({client: _OTHERS_LOST for _, ids in waiting for client in ids} | missing)
    return Replies({cluster: Sum.of(parts[cluster]) for cluster in sorted(parts)}, fed.missing)


def direct_failures(missing: Mapping[int, str]) -> dict[int, str]:
    """Return the clients in `missing` that failed themselves, without those whose sum failed because of others."""
    return {client: reason for client, reason in missing.items() if failure_kind(reason) != "unsummed"}


def sums_of_all(fed: Federation, task: Task, payload: Payload, terms: Sequence[Term]) -> dict[str, Tensor]:
    """Return secure sums over every client present, by name of the term; groups repeat until all have taken part.

    A group with a sum is not asked again, whoever leaves: two sums of the same numbers tell their difference. Clients
    that have given nothing in 20 attempts are left out of the run. Raises FedkinError if fewer than three in a group,
    or than `min_clients`, would remain.
    """
    waiting, sums = groups_of(fed.present), list[Sum]()
    while waiting:
        group_of = {client: group for group, clients in enumerate(waiting) for client in clients}
        payloads = dict.fromkeys(group_of, payload)
        replies = summed(fed, task, payloads, terms, group_of, MAX_ATTEMPTS, complete=True)
        sums += replies.values()
        waiting = [clients for group, clients in enumerate(waiting) if group not in replies]
        lost = direct_failures(replies.missing)
        waiting = [[client for client in clients if client not in lost] for clients in waiting]
        if not waiting:
            break
        smallest = min(map(len, waiting))
        if not lost or smallest < MIN_CLIENTS or len(fed.present) - len(lost) < fed.min_clients:
            reasons = (lost or replies.missing).items()
            silent = listing([f"client {client}: {reason}" for client, reason in reasons])
            raise FedkinError(f"A sum over all clients failed {MAX_ATTEMPTS} times ({silent}); too few clients remain.")
        fed.drop(lost)
    return Sum.of(sums).totals


# The server's side of a secure sum, in three exchanges.


@dataclass
class SumAttempt:
    """One attempt at a secure sum over the clients `ids` of a group, in order.

    `group` is part of all requests: these ids, the clients' keys and the tag, and the signatures of the keys, where any
    client signs. `needed` clients must stay for the sum to be recovered. By dealer, in order of id, `publics` are its
    public keys, uint8 ``(2, 32)``, and `shares` the encrypted shares that it has distributed, ``(clients, 2, 48)``.
    `digest` is that of the request, the same for all clients of a sum. `total` is the sum of the masked replies, and
    `replied` are the clients in it; those that are not are `lost`, and why. If clients disagree about what was
    distributed, `disputes` has by holder whose shares it cannot open, and nobody is asked for shares. `revealed` are
    shares by holder and dealer; `result` is what the sum comes to, if it does.
    """

    ids: list[int]
    group: Payload
    needed: int
    publics: dict[int, Tensor] = field(default_factory=dict)
    shares: dict[int, Tensor] = field(default_factory=dict)
    digest: bytes = b""
    total: Integers = field(default_factory=lambda: np.zeros(0, np.uint64))
    replied: list[int] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)
    disputes: dict[int, list[int]] = field(default_factory=dict)
    revealed: dict[int, dict[int, int]] = field(default_factory=dict)
    result: Integers | None = None

    @classmethod
    def begin(cls, fed: Federation, clients: list[int], complete: bool) -> SumAttempt:
        """Return an attempt at a new sum over clients, all of whom must stay if it is to be `complete`."""
        return cls(clients, group_request(fed, clients), len(clients) if complete else masks.threshold(len(clients)))

    @property
    def dropped(self) -> list[int]:
        """Dealers whose masked reply is not in the sum."""
        return [dealer for dealer in self.publics if dealer not in self.replied]

    @property
    def goes_on(self) -> bool:
        """Whether enough clients are in the sum, and agree about it."""
        return not self.disputes and len(self.replied) >= self.needed

    def take_shares(self, client: int, reply: Payload) -> str | None:
        """Take the shares of its keys that a client distributes; return why not, as all functions that take do."""
        reason = _rejection(reply, {"publics": (len(KINDS), KEY), "shares": (len(self.ids), len(KINDS), SEALED)})
        if reason is None and not masks.is_key(content(reply["publics"][PAIRS])):
            reason = "its key of the sum is invalid"
        if reason is None:
            self.publics[client], self.shares[client] = reply["publics"], reply["shares"]
        return reason

    def requests(self, task: Task, payloads: Mapping[int, Payload], terms: Sequence[Term]) -> dict[int, Payload]:
        """Return what the dealers are sent to do `task`, if there are enough of them."""
        dealers = list(self.publics)
        if len(dealers) < self.needed:
            return {}
        request: Payload = {"task": task.name, "terms": [asdict(term) for term in terms]}
        self.digest = client_tasks.question(request | {"payload": payloads[dealers[0]]})
        self.total = np.zeros(sum(term.length for term in terms), np.uint64)
        request |= self.group | {"dealers": dealers, "publics": torch.stack(list(self.publics.values()))}
        shares = torch.stack(list(self.shares.values()), 1)
        return {
            client: request | {"payload": payloads[client], "shares": shares[self.ids.index(client)]}
            for client in dealers
        }

    def take_masked(self, client: int, reply: Payload) -> str | None:
        """Add a client's masked reply to the sum, or note whose shares it cannot open."""
        reason = _rejection(reply, {"masked": (len(self.total),)})
        if reason is None:
            self.total += reply["masked"].numpy().view(np.uint64)
            self.replied.append(client)
        elif blamed := [i for i in reply.get("sealed", []) if i in self.publics and i != client]:
            self.disputes[client] = blamed
            return None
        return reason

    def reveals(self) -> dict[int, Payload]:
        """Return what clients are sent to reveal shares, as long as enough have not."""
        if not self.goes_on or len(self.revealed) >= masks.threshold(len(self.ids)):
            return {}
        request = self.group | {"survivors": self.replied, "dropped": self.dropped}
        return {client: request for client in self.replied if client not in self.revealed}

    def take_revealed(self, holder: int, reply: Payload) -> str | None:
        """Decrypt shares with a holder's reply to `reveal_shares`.

        The holder has decrypted them all before, so that a failure is its own fault.
        """
        reason = _rejection(reply, {"own": (len(self.replied), OPENER), "pairs": (len(self.dropped), OPENER)})
        if reason is not None:
            return reason
        shares: dict[int, int] = {}
        place = self.ids.index(holder)
        for kind, dealers, openers in ((OWN, self.replied, reply["own"]), (PAIRS, self.dropped, reply["pairs"])):
            for dealer, opener in zip(dealers, rows_of(openers), strict=True):
                sealed = content(self.shares[dealer][place, kind])
                share = masks.opened(opener, sealed, rows_of(self.publics[dealer]), kind)
                if share is None:
                    return "it opens none of its shares of others' keys"
                shares[dealer] = share
        self.revealed[holder] = shares
        return None

    def unmask(self, silent: Mapping[int, str]) -> None:
        """Take the masks off the sum, unless too few have revealed shares or a dealer's do not fit its key: it is lost.

        One private key of every dealer is recovered: of clients in the sum that of their individual masks, of the
        others that of the pairwise masks, which are left in the sum. `silent` says why clients have revealed none.
        """
        holders = list(filter(self.revealed.__contains__, self.replied))[: masks.threshold(len(self.ids))]
        if not self.goes_on or len(holders) < masks.threshold(len(self.ids)):
            self.lost |= {i: silent[i] for i in self.replied if i not in self.revealed and i in silent}
            return
        publics = {dealer: content(keys[PAIRS]) for dealer, keys in self.publics.items()}
        context, length = client_tasks.context_of_masks(self.group, publics, self.digest), len(self.total)
        replied, total = {client: publics[client] for client in self.replied}, self.total
        wrong: dict[int, str] = {}
        for dealer in self.publics:
            kind = OWN if dealer in replied else PAIRS
            secret = masks.combine({self.ids.index(holder) + 1: self.revealed[holder][dealer] for holder in holders})
            if masks.public_of(secret, kind) != content(self.publics[dealer][kind]):
                wrong[dealer] = "its shares are not those of its keys"
                continue
            key = secret.to_bytes(KEY, "little")
            if kind == OWN:
                total = total - masks.own_mask(dealer, key, context, length)
            else:  # all of what it would have added itself cancels
                total = total + masks.mask(dealer, key, replied, context, length)
        self.lost |= wrong
        self.result = None if wrong else total


def _carry_out(
    fed: Federation, attempts: Sequence[SumAttempt], task: Task, payloads: Mapping[int, Payload], terms: Sequence[Term]
) -> None:
    """Carry out attempts at sums over different clients, all at once."""
    attempt_of = {client: attempt for attempt in attempts for client in attempt.ids}

    def exchange(
        task: Task, requests: Iterable[Mapping[int, Payload]], take: Callable[[SumAttempt, int, Payload], str | None]
    ) -> dict[int, str]:
        """Have clients do a task of the sum, and their attempts take the replies; return the others, and why."""
        payloads = {client: request for of_attempt in requests for client, request in of_attempt.items()}
        if not payloads:
            return {}
        replies = fed.stream(task, payloads)
        reasons = {client: take(attempt_of[client], client, reply) for client, reply in replies}
        return {client: reason for client, reason in (reasons | replies.missing).items() if reason is not None}

    def lose(reasons: Mapping[int, str]) -> None:
        for client, reason in reasons.items():
            attempt_of[client].lost[client] = reason
            if reason == client_tasks.OTHER_KEY:  # it has lost its memory, and is asked for its new key the next time
                fed.keys.pop(client, None)

    shares = (dict.fromkeys(attempt.ids, attempt.group) for attempt in attempts)
    lose(exchange(client_tasks.send_shares, shares, SumAttempt.take_shares))
    requests = (attempt.requests(task, payloads, terms) for attempt in attempts)
    lose(exchange(client_tasks.masked, requests, SumAttempt.take_masked))
    for attempt in attempts:
        attempt.lost |= _settled(attempt.disputes)
    silent: dict[int, str] = {}
    for time in range(_TIMES):
        reveals = [attempt.reveals() for attempt in attempts]
        if time and any(reveals):
            fed.pause(time)
        silent |= exchange(client_tasks.reveal_shares, reveals, SumAttempt.take_revealed)
    for attempt in attempts:
        attempt.unmask(silent)


def ask_keys(fed: Federation, clients: Iterable[int]) -> dict[int, str]:
    """Ask clients for public keys that are not known yet; return those that did not send one, and why."""
    unknown = [client for client in sorted(clients) if client not in fed.keys]
    if not unknown:
        return {}
    replies = fed.stream(client_tasks.send_key, {client: {} for client in unknown}, {"key": (KEY,)})
    for client, reply in replies:
        if masks.is_key(content(reply["key"])):
            fed.keys[client] = {part: reply[part] for part in ("key", *_SIGNED) if part in reply}
    return {client: replies.missing.get(client, "its key is invalid") for client in unknown if client not in fed.keys}


def group_request(fed: Federation, clients: Sequence[int]) -> Payload:
    """Return what all requests to a group hold, see `client_tasks.GROUP`: its clients' keys, and a new tag."""
    # The tag is not from the seed: a run that is resumed may repeat an exchange, and its masks must be others.
    tag, keys = masks.octets_of([os.urandom(client_tasks.TAG)], client_tasks.TAG), [fed.keys[i] for i in clients]
    group: Payload = {"ids": list(clients), "keys": torch.stack([key["key"] for key in keys]), "tag": tag}
    if any("signer" in key for key in keys):
        group["signed"] = [{part: key.get(part, "") for part in _SIGNED} for key in keys]
    return group


def _settled(disputes: Mapping[int, Sequence[int]]) -> dict[int, str]:
    """Return the clients to leave out, and why, where holders cannot decrypt shares from dealers.

    Nobody can say which of two lies, so that both go; but who disagrees with many goes first, alone.
    """
    opponents: dict[int, set[int]] = {}
    for holder, dealer in ((holder, dealer) for holder, dealers in disputes.items() for dealer in dealers):
        opponents.setdefault(holder, set()).add(dealer)
        opponents.setdefault(dealer, set()).add(holder)
    most = max(map(len, opponents.values()), default=0)
    return {
        client: f"the shares between it and client {', '.join(map(str, sorted(against)))} do not open"
        for client, against in sorted(opponents.items())
        if len(against) == most
    }


def _rejection(reply: Payload, expected: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return why a reply cannot be used; ``None`` if it can."""
    return str(reply["refused"]) if "refused" in reply else refusal(reply, expected)


class ClientSums:
    """Sums over all clients present, one exchange after another, and the clients that took part.

    Values are rounded as where sums are hidden, and added up by `groups_of` clients, so that the sums are the same.

    Attributes
    ----------
    groups : list of list of int
        The clients of each group.
    answered : list of int
        Clients in every sum so far that was asked of them.
    missing : dict of int to str
        Clients that are not, and why.
    """

    hidden: ClassVar[bool] = False
    """Whether the server sees the sums of groups alone."""

    def __init__(self, fed: Federation) -> None:
        self.fed = fed
        self.groups = groups_of(fed.present)
        self.answered, self.missing = list(fed.present), dict[int, str]()
        self._tasks: list[str] = []

    def by_group(self) -> list[ClientSums]:
        """Return sums over each group alone; who took part is known here as well."""
        parts = [copy(self) for _ in self.groups]
        for part, group in zip(parts, self.groups, strict=True):
            part.groups = [group]
        return parts

    def ask(self, task: Task, payload: Payload, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor] | None:
        """Have all clients do `task`; return the sums of their replies, float64, by name, or ``None`` without a sum.

        `shapes` are those of the tensors of a reply that are summed.
        """
        self._tasks.append(task.name)
        terms = [Term(name, shape) for name, shape in shapes.items()]
        group_of = {client: group for group, clients in enumerate(self.groups) for client in clients}
        sums = self._sums(task, payload, terms, group_of)
        away = group_of.keys() - {client for part in sums.values() for client in part.clients}
        if away:
            self.answered[:] = [client for client in self.answered if client not in away]
        return Sum.of(sums.values()).totals if sums else None

    def facts(self) -> dict[str, object]:
        """Return how the sums were made, for the record."""
        return {"exchanges": len(self._tasks), "sums": "hidden" if self.hidden else "plain"}

    def _sums(self, task: Task, payload: Payload, terms: Sequence[Term], group_of: Mapping[int, int]) -> dict[int, Sum]:
        """Add up replies by group, in the fixed point of secure sums; a pool of clients counts to that of its first."""
        sizes, totals = Counter(group_of.values()), dict[int, Integers]()
        replied: dict[int, list[int]] = {group: [] for group in sizes}
        waiting, reasons = sorted(group_of), dict[int, str]()
        for time in range(_TIMES):
            if time:
                self.fed.pause(time)
            expected, apart = {term.name: term.shape for term in terms}, list[int]()
            ask = partial(Federation.pools, self.fed) if time else self.fed.pools  # again they are asked one by one
            replies = ask(task, dict.fromkeys(waiting, payload), expected)
            for clients, reply in replies:
                group = group_of[clients[0]]
                try:
                    values = masks.encode(values_of(reply, terms), max(sizes[group], len(clients)))
                except ValueError as error:
                    if len(clients) > 1:
                        apart += clients  # only some of them have numbers that are too large
                    else:
                        reasons[clients[0]] = str(error)
                else:
                    totals[group] = totals[group] + values if group in totals else values
                    replied[group] += clients
            reasons |= replies.missing
            waiting = sorted([*replies.missing, *apart])
            if not waiting:
                break
        taken = {client for clients in replied.values() for client in clients}
        self.missing.update({i: reason for i, reason in direct_failures(reasons).items() if i not in taken})
        return {group: Sum(replied[group], total[None], terms) for group, total in totals.items()}


class HiddenSums(ClientSums):
    """The same sums, masked, so that the server sees those of groups alone; over at least three clients."""

    hidden = True

    def __init__(self, fed: Federation) -> None:
        check_enough(len(fed.present))
        super().__init__(fed)

    def _sums(self, task: Task, payload: Payload, terms: Sequence[Term], group_of: Mapping[int, int]) -> dict[int, Sum]:
        sums = summed(self.fed, task, dict.fromkeys(group_of, payload), terms, group_of)
        self.missing.update(sums.missing)
        return dict(sums)
