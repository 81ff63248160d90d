"""Recovery of keys from shares on the server, and of the masks that are left in a secure sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedkin.core.payload import Payload
from fedkin.core.refusals import refusal
from fedkin.secure_aggregation.masks import KEY, content, mask, own_mask, rows_of
from fedkin.secure_aggregation.sealed_shares import OPENER, OWN, PAIRS, opened, public_of
from fedkin.secure_aggregation.shamir import combine


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
