"""Server's side of a secure sum, in three exchanges: shares distributed, masked replies added up, masks removed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.federation import Federation
from fedkin.core.payload import Payload
from fedkin.core.refusals import refusal
from fedkin.core.tasks import Task
from fedkin.secure_aggregation.client_checks import OTHER_KEY, TAG
from fedkin.secure_aggregation.masks import KEY, content, context_of, is_key, rows_of
from fedkin.secure_aggregation.sealed_shares import KINDS, PAIRS, SEALED
from fedkin.secure_aggregation.shamir import threshold
from fedkin.secure_aggregation.share_tasks import reveal_shares, send_shares
from fedkin.secure_aggregation.sum_tasks import Term, mask_context, masked, question
from fedkin.secure_aggregation.unmasking import Holdings, leftover, opened_by, recovered

SIGNED = ("signer", "signature")
"""What a client that has an identity sends with its key."""
_ATTEMPTS = 3
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


def distribute(fed: Federation, clusters: Mapping[int, Sequence[int]]) -> dict[int, SumAttempt]:
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


def hear(
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


def uncover(fed: Federation, rounds: Mapping[int, SumAttempt], complete: bool) -> dict[int, Tensor]:
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
    for attempt in range(_ATTEMPTS):
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
