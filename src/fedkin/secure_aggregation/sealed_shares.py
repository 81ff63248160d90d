"""Encrypted shares of a client's keys of one sum (Bonawitz et al. 2017, round 1).

A client has two private keys for each sum: one for its pairwise masks, and one for its individual mask. Both follow
from a secret of its own and the sum's context, so it has nothing to remember, and a key that is revealed is good for no
other sum. Shares of both are encrypted for every client of the sum under a key that only dealer and holder know. A
holder gives a share away by revealing that key: the server, which has the encrypted shares, decrypts it, so that nobody
can give a wrong one unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256, shake_256
from typing import TYPE_CHECKING

from fedkin.secure_aggregation.masks import KEY, public_key, shared_secret
from fedkin.secure_aggregation.shamir import PRIME, split, threshold

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PAIRS, OWN = 0, 1
"""Kinds of keys and shares: those of the pairwise masks, and those of a client's individual mask."""
KINDS = (PAIRS, OWN)
OPENER = 16
"""Bytes of a key that decrypts one share."""
SEALED = KEY + 16
"""Bytes of an encrypted share: 32 and an authentication tag."""
_PURPOSE = b"fedkin shares of secure sums"
_EVEN = 2 * KEY
"""Bytes that are reduced modulo the prime, twice its size, so that all numbers are equally likely."""


@dataclass(frozen=True)
class KeyShares:
    """What a client distributes for a sum: its public keys, by kind (see `public_of`), and shares of the private ones.

    The encrypted shares are by kind, too, for each client of the sum, in order of id.
    """

    publics: tuple[bytes, bytes]
    shares: list[tuple[bytes, bytes]]


def channel_key(secret: bytes) -> bytes:
    """Return the client's private key for encrypting and decrypting shares, the same throughout a run."""
    return _number(_stream(secret, b"channel", _EVEN)).to_bytes(KEY, "little")


def sum_keys(secret: bytes, context: bytes) -> tuple[bytes, bytes]:
    """Return a client's private keys of one sum, one for each kind of mask."""
    pairs, own = (_polynomial(secret, context, kind, 1)[0].to_bytes(KEY, "little") for kind in KINDS)
    return pairs, own


def share_keys(secret: bytes, own: int, keys: Mapping[int, bytes], context: bytes) -> KeyShares:
    """Return a client's public keys of one sum, and encrypted shares of the private ones.

    All keys of the client follow from `secret`. `own` is its id; `keys` are the public channel keys of all clients of
    the sum, by id, its own among them; `context` identifies the sum. Raises ValueError if a key is invalid.
    """
    needed, channel = threshold(len(keys)), channel_key(secret)
    polynomials = [_polynomial(secret, context, kind, needed) for kind in KINDS]
    publics = public_of(polynomials[PAIRS][0], PAIRS), public_of(polynomials[OWN][0], OWN)
    values = [split(polynomial, len(keys)) for polynomial in polynomials]
    shares = []
    for at, holder in enumerate(sorted(keys)):
        openers = openers_of(channel, keys[holder], own, holder, context)
        plain = [values[kind][at].to_bytes(KEY, "little") for kind in KINDS]
        sealed = [_cipher(openers[kind]).encrypt(_NONCE, plain[kind], _about(publics, kind)) for kind in KINDS]
        shares.append((sealed[PAIRS], sealed[OWN]))
    return KeyShares(publics, shares)


def openers_of(channel: bytes, other: bytes, dealer: int, holder: int, context: bytes) -> tuple[bytes, bytes]:
    """Return the keys that decrypt a dealer's shares for a holder in one sum, one for each kind of mask.

    `channel` is the private channel key of either, and `other` the public one of the other. Raises ValueError if the
    public key is invalid.
    """
    shared = shared_secret(channel, other)
    both = _stream(shared, context + f"/{dealer}/{holder}".encode(), 2 * OPENER)
    return both[:OPENER], both[OPENER:]


def opened(opener: bytes, sealed: bytes, publics: Sequence[bytes], kind: int) -> int | None:
    """Decrypt a share, and check that it is from a dealer with these public keys; ``None`` if it is not."""
    from cryptography.exceptions import InvalidTag

    try:
        share = int.from_bytes(_cipher(opener).decrypt(_NONCE, sealed, _about(publics, kind)), "little")
    except InvalidTag:
        return None
    return share if share < PRIME else None


def public_of(number: int, kind: int) -> bytes:
    """Return the public value by which a recovered private key is checked: its public key, or a digest of it.

    A digest is used of the keys of individual masks: X25519 ignores five bits of a private key, and masks do not.
    """
    key = number.to_bytes(KEY, "little")
    return public_key(key) if kind == PAIRS else sha256(_PURPOSE + key).digest()


_NONCE = bytes(12)
"""Each key encrypts one share and nothing else, so that the nonce may be 0."""


def _cipher(opener: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(opener)


def _about(publics: Sequence[bytes], kind: int) -> bytes:
    """Return the associated data of an encrypted share: its kind and the dealer's public keys."""
    return b"".join(publics) + bytes([kind])


def _polynomial(secret: bytes, context: bytes, kind: int, length: int) -> list[int]:
    """Return the coefficients of a client's polynomial for one sum; the first is the private key."""
    stream = _stream(secret, context + b"/keys" + bytes([kind]), _EVEN * length)
    return [_number(stream[at : at + _EVEN]) for at in range(0, len(stream), _EVEN)]


def _number(stream: bytes) -> int:
    return int.from_bytes(stream, "little") % PRIME


def _stream(secret: bytes, purpose: bytes, length: int) -> bytes:
    """Return pseudo-random bytes derived from a secret, for one purpose."""
    return shake_256(_PURPOSE + len(secret).to_bytes(1) + secret + purpose).digest(length)
