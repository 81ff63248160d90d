"""Secure sums over clients, for methods to use when `Federation.secure_sums` is set.

Hiding is a task like any other, `masked`, around the task whose reply is summed, so every engine can carry it out.
docs/privacy.md says what it protects and what not.

For methods that only need sums, `ClientSums` masks them where clients are elsewhere and at least three take part. Then
what each of them adds is hidden, whether or not the run asks for secure sums. Otherwise replies are just added up.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, listing
from fedkin.core.federation import Federation
from fedkin.core.method import allowed_for_sums, display_name
from fedkin.core.payload import Payload
from fedkin.core.replies import refusal
from fedkin.core.tasks import Task
from fedkin.secure_aggregation.client_tasks import (
    MIN_CLIENTS,
    OTHER_KEY,
    TAG,
    Term,
    mask_context,
    masked,
    question,
    reveal_shares,
    send_key,
    send_shares,
    values_of,
)
from fedkin.secure_aggregation.masks import (
    KEY,
    KINDS,
    OPENER,
    OWN,
    PAIRS,
    SEALED,
    combine,
    content,
    context_of,
    decode,
    encode,
    is_key,
    mask,
    opened,
    own_mask,
    public_of,
    rows_of,
    threshold,
)

# Recovery of keys from shares on the server, and of the masks that are left in a secure sum.


@dataclass
class Holdings:
    """Encrypted shares of one sum, which the server holds for the clients.

    They are distributed among the clients `ids`, in order. By dealer, `publics` are uint8 ``(2, 32)``, and `shares`
    ``(clients, 2, 48)``.
    """

    ids: list[int]
    publics: dict[int, Tensor] = field(default_factory=dict)
    shares: dict[int, Tensor] = field(default_factory=dict)

    @property
    def dealers(self) -> list[int]:
        return list(self.publics)

    def add(self, dealer: int, publics: Tensor, shares: Tensor) -> None:
        """Keep the shares that a client has distributed; clients must come in order of id."""
        self.publics[dealer], self.shares[dealer] = publics, shares

    def publics_by_dealer(self) -> Payload:
        """Return the dealers and their public keys, which are sent to all clients."""
        return {"dealers": self.dealers, "publics": torch.stack(list(self.publics.values()))}

    def shares_for(self, holder: int) -> Tensor:
        """Return the encrypted shares for one holder, uint8 ``(dealers, 2, 48)``."""
        return torch.stack([shares[self.ids.index(holder)] for shares in self.shares.values()])

    def mask_publics(self) -> dict[int, bytes]:
        """Return the public keys of pairwise masks, by dealer."""
        return {dealer: content(publics[PAIRS]) for dealer, publics in self.publics.items()}


def opened_by(
    held: Holdings, holder: int, survivors: Sequence[int], dropped: Sequence[int], reply: Payload
) -> dict[int, int] | None:
    """Decrypt shares with a holder's reply to `reveal_shares`; return them by dealer, or ``None`` if any fails.

    The holder has decrypted them all before, so that a failure is its own fault.
    """
    if refusal(reply, {"own": (len(survivors), OPENER), "pairs": (len(dropped), OPENER)}) is not None:
        return None
    shares, at = {}, held.ids.index(holder)
    for kind, dealers, openers in ((OWN, survivors, reply["own"]), (PAIRS, dropped, reply["pairs"])):
        for dealer, opener in zip(dealers, rows_of(openers), strict=True):
            sealed = content(held.shares[dealer][at, kind])
            share = opened(opener, sealed, rows_of(held.publics[dealer]), kind)
            if share is None:
                return None
            shares[dealer] = share
    return shares


def recovered(
    held: Holdings, survivors: Sequence[int], revealed: Mapping[int, Mapping[int, int]]
) -> tuple[dict[int, bytes], list[int]]:
    """Recover one private key of every dealer; return the keys, and the dealers whose shares do not fit their key.

    Of `survivors` it is the key of the individual mask, of the others that of the pairwise masks. `revealed` are shares
    by dealer, for each of as many holders as the threshold.
    """
    keys, wrong = {}, []
    places = {holder: held.ids.index(holder) + 1 for holder in revealed}
    for dealer in held.dealers:
        secret = combine({places[holder]: shares[dealer] for holder, shares in revealed.items()})
        kind = OWN if dealer in survivors else PAIRS
        if public_of(secret, kind) != content(held.publics[dealer][kind]):
            wrong.append(dealer)
        keys[dealer] = secret.to_bytes(KEY, "little")
    return keys, wrong


def leftover(
    keys: Mapping[int, bytes], survivors: Sequence[int], publics: Mapping[int, bytes], context: bytes, length: int
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the masks that are left in a sum over survivors, uint64 ``(length,)``.

    They are the survivors' own masks, and what they share with those who dropped out.
    """
    total, replied = np.zeros(length, np.uint64), {client: publics[client] for client in survivors}
    for client, key in keys.items():
        if client in replied:
            total += own_mask(client, key, context, length).numpy().view(np.uint64)
        else:  # all of what it would have added itself cancels
            total -= mask(client, key, replied, context, length).numpy().view(np.uint64)
    return total


# Server's side of a secure sum, in three exchanges: shares distributed, masked replies added up, masks removed.


SIGNED = ("signer", "signature")
"""What a client that has an identity sends with its key."""
_KEY_ATTEMPTS = 3
"""Requests for shares until enough clients have replied; to repeat them costs no privacy."""
_NO_PART = "it opens none of its shares of others' keys"
_BAD_SHARES = "its shares are not those of its keys"


@dataclass
class SumAttempt:
    """One attempt at a secure sum over a cluster of clients.

    `group` is part of all requests: ids of the clients that shares are distributed among, in order, their keys, and the
    tag. `signed` are signatures of the clients' keys, empty where none sign. Shares that were distributed are `held`.
    `asked` is a digest of the request, the same for all clients of a sum. `total` is the sum of the masked replies,
    uint64 ``(length,)``, and `replied` are the clients in it; those that are not are `lost`, and why. Clients are
    `convicted` that have sent what no honest client sends, and of what. If clients disagree about what was distributed,
    it is `disputed`, and nobody is asked for shares.
    """

    group: Payload
    signed: list[dict[str, str]]
    held: Holdings
    asked: bytes = b""
    total: np.ndarray[tuple[int], np.dtype[np.uint64]] = field(default_factory=lambda: np.zeros(0, np.uint64))
    replied: list[int] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)
    convicted: dict[int, str] = field(default_factory=dict)
    disputed: bool = False

    @property
    def ids(self) -> list[int]:
        return self.held.ids

    @property
    def needed(self) -> int:
        """Number of clients that must stay for the sum to be recovered."""
        return threshold(len(self.ids))

    @property
    def others(self) -> list[int]:
        """Clients that may take part in another attempt."""
        return [client for client in self.ids if client not in self.lost and client not in self.convicted]

    def goes_on(self, clients: Sequence[int], complete: bool) -> bool:
        """Return whether `clients` are enough for the sum to be recovered."""
        return not self.disputed and len(clients) >= (len(self.ids) if complete else self.needed)


def share_keys(fed: Federation, clusters: Mapping[int, Sequence[int]]) -> dict[int, SumAttempt]:
    """First exchange: have each cluster's clients distribute shares of their keys of a new sum; return the attempts."""
    rounds = {cluster: _new(fed, clients) for cluster, clients in clusters.items()}
    round_of = {client: one for one in rounds.values() for client in one.ids}
    requests: dict[int, Payload] = {}
    for one in rounds.values():
        tags = {"tags": one.group["tag"][None]}
        common = {name: one.group[name] for name in ("ids", "keys")} | tags | _signed(one)
        requests |= dict.fromkeys(one.ids, common)
    for client, reply in fed.stream(send_shares, requests):
        one = round_of[client]
        reason = _rejection(reply, {"publics": (1, len(KINDS), KEY), "shares": (1, len(one.ids), len(KINDS), SEALED)})
        if reason is None and not is_key(content(reply["publics"][0, PAIRS])):
            reason = "its key of the sum is invalid"
        if reason is None:
            one.held.add(client, reply["publics"][0], reply["shares"][0])
        else:
            _lose(fed, one, client, reason)
    _lose_silent(fed, round_of)
    return rounds


def collect_masked(
    fed: Federation,
    task: Task,
    payloads: Mapping[int, Payload],
    terms: Sequence[Term],
    rounds: Mapping[int, SumAttempt],
    complete: bool,
) -> None:
    """Second exchange: have the dealers do `task`, and add up their masked replies, where there are enough dealers.

    `fed`, `task`, `payloads`, `terms` and `complete` are as for `fedkin.secure_aggregation.sums.summed`; `rounds` are
    attempts at sums, by cluster.
    """
    length = sum(prod(term.shape) for term in terms)
    going = [one for one in rounds.values() if one.goes_on(one.held.dealers, complete)]
    round_of = {client: one for one in going for client in one.held.dealers}
    requests: dict[int, Payload] = {}
    for one in going:
        asked = {"task": task.name, "terms": [asdict(term) for term in terms]}
        one.asked = question(asked | {"payload": payloads[one.held.dealers[0]]})
        one.total = np.zeros(length, np.uint64)
        common = one.group | _signed(one) | asked | one.held.publics_by_dealer()
        for client in one.held.dealers:
            requests[client] = common | {"payload": payloads[client], "shares": one.held.shares_for(client)}
    if not requests:
        return
    disputes: dict[int, list[int]] = {}
    for client, reply in fed.stream(masked, requests):
        one = round_of[client]
        reason = _rejection(reply, {"masked": (length,)})
        if reason is None:
            one.total += reply["masked"].numpy().view(np.uint64)
            one.replied.append(client)
        elif blamed := [i for i in reply.get("sealed", []) if i in one.held.dealers and i != client]:
            disputes[client] = blamed
        else:
            _lose(fed, one, client, reason)
    _lose_silent(fed, round_of)
    for one in going:
        own = {holder: dealers for holder, dealers in disputes.items() if round_of[holder] is one}
        one.disputed = bool(own)
        one.lost |= _settled(own, len(one.held.dealers))


def unmask(fed: Federation, rounds: Mapping[int, SumAttempt], complete: bool) -> dict[int, Tensor]:
    """Third exchange: collect shares from those who replied, remove the masks, and return sums, int64, by cluster.

    Clusters in which too few replied, or too few reveal their shares, have no sum.
    """
    open_ = {cluster: one for cluster, one in rounds.items() if one.goes_on(one.replied, complete)}
    round_of = {client: one for one in open_.values() for client in one.replied}
    requests: dict[int, Payload] = {}
    for one in open_.values():
        dropped = [client for client in one.held.dealers if client not in one.replied]
        requests |= dict.fromkeys(one.replied, one.group | {"survivors": one.replied, "dropped": dropped})
    revealed: dict[int, dict[int, int]] = {}
    silent: dict[int, str] = {}
    for attempt in range(_KEY_ATTEMPTS):
        few = [one for one in open_.values() if sum(client in revealed for client in one.replied) < one.needed]
        asked = {i: requests[i] for one in few for i in one.replied if i not in revealed and i not in one.convicted}
        if not asked:
            break
        if attempt:
            fed.pause(attempt)
        for client, reply in fed.stream(reveal_shares, asked):
            one = round_of[client]
            reason, shares = _rejection(reply, {}), None
            if reason is None:
                shares = opened_by(one.held, client, one.replied, requests[client]["dropped"], reply)
            if shares is None:
                (one.convicted if reason is None else silent)[client] = reason or _NO_PART
            else:
                revealed[client] = shares
        silent |= fed.missing
    return {cluster: total for cluster, one in open_.items() if (total := _opened(one, revealed, silent)) is not None}


def _opened(one: SumAttempt, revealed: Mapping[int, Mapping[int, int]], silent: Mapping[int, str]) -> Tensor | None:
    """Return the sum without masks, int64 ``(length,)``; ``None`` with too few shares, or shares that fit no key."""
    holders = [client for client in one.replied if client in revealed]
    if len(holders) < one.needed:
        one.lost |= {client: silent[client] for client in one.replied if client not in revealed and client in silent}
        return None
    keys, wrong = recovered(one.held, one.replied, {holder: revealed[holder] for holder in holders[: one.needed]})
    one.convicted |= dict.fromkeys(wrong, _BAD_SHARES)
    if wrong:
        return None
    ids = dict(zip(one.ids, rows_of(one.group["keys"]), strict=True))
    publics = one.held.mask_publics()
    context = mask_context(context_of(content(one.group["tag"]), ids), publics, one.asked)
    hidden = one.total - leftover(keys, one.replied, publics, context, len(one.total))
    return torch.from_numpy(hidden.view(np.int64))


def _new(fed: Federation, clients: Sequence[int]) -> SumAttempt:
    group: Payload = {
        "ids": list(clients),
        "keys": torch.stack([fed.keys[client] for client in clients]),
        # Not from the seed: a run that is resumed may repeat an exchange, and its masks must be others.
        "tag": torch.tensor(list(os.urandom(TAG)), dtype=torch.uint8),
    }
    signed = [fed.signed.get(client, dict.fromkeys(SIGNED, "")) for client in clients] if fed.signed else []
    return SumAttempt(group, signed, Holdings(list(clients)))


def _signed(one: SumAttempt) -> dict[str, Any]:
    return {"signed": one.signed} if one.signed else {}


def _lose(fed: Federation, one: SumAttempt, client: int, reason: str) -> None:
    one.lost[client] = reason
    if reason == OTHER_KEY:
        fed.keys.pop(client, None)


def _lose_silent(fed: Federation, round_of: Mapping[int, SumAttempt]) -> None:
    """Record clients without a usable reply in the last exchange as lost to their sum."""
    for client, reason in fed.missing.items():
        round_of[client].lost[client] = reason


def _settled(disputes: Mapping[int, Sequence[int]], clients: int) -> dict[int, str]:
    """Return the clients to leave out, and why, where holders cannot decrypt shares from dealers.

    Nobody can say which of two lies. Who disagrees with more than a third of all, of whom fewer than a third lie, is
    wrong; of all others that disagree both are left out of the sum.
    """
    pairs = {(holder, dealer) for holder, dealers in disputes.items() for dealer in dealers}
    opponents: dict[int, set[int]] = {}
    for holder, dealer in pairs:
        opponents.setdefault(holder, set()).add(dealer)
        opponents.setdefault(dealer, set()).add(holder)
    wrong = {client for client, others in opponents.items() if 3 * len(others) > clients}
    both = {client for pair in pairs if not wrong & set(pair) for client in pair}
    reasons = {}
    for client in sorted(wrong | both):
        others = ", ".join(map(str, sorted(opponents[client])))
        reasons[client] = f"the shares between it and client {others} do not open"
    return reasons


def _rejection(reply: Payload, expected: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return why a reply cannot be used; ``None`` if it can."""
    if "refused" in reply:
        return str(reply["refused"])
    return refusal(reply, expected)


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
    if method.traits.sums_suffice is None:
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
        fed.note_missing(missing)
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
        rounds = share_keys(fed, waiting)
        collect_masked(fed, task, payloads, terms, rounds, complete)
        totals = unmask(fed, rounds, complete)
        for cluster, one in rounds.items():
            missing |= one.lost
            convicted |= one.convicted
            waiting[cluster] = one.others
            if cluster in totals:
                found[cluster] = Sum(one.replied, _cut(decode(totals[cluster]), terms))
                del waiting[cluster]
    missing |= {client: _OTHERS_LOST for clients in waiting.values() for client in clients}
    fed.note_missing(missing | convicted)
    if convicted and fed.can_spare(convicted):
        fed.drop(convicted)
    return dict(sorted(found.items()))


def direct_failures(missing: Mapping[int, str]) -> dict[int, str]:
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
    lost = direct_failures(fed.missing)
    if not lost or len(fed.present) - len(lost) < max(MIN_CLIENTS, fed.min_clients):
        reasons = lost or fed.missing or dict.fromkeys(fed.present, _TOO_FEW)
        silent = listing([f"client {client}: {reason}" for client, reason in reasons.items()])
        raise FedkinError(f"A sum over all clients failed {_MAX_ATTEMPTS} times ({silent}); too few clients remain.")
    fed.drop(lost)
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
