"""Masks of secure sums: random numbers that hide each client's values and cancel in the sum (Bonawitz et al. 2017).

Values become integers modulo 2^64, in which sums are exact whatever their order. Any two clients share a secret through
their keys (X25519). It is the key of a stream of AES in counter mode, which the client of lower id adds and the other
subtracts. Each client adds another stream of its own, which the server subtracts from the sum once it knows whose
values are in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256, shake_256

import numpy as np
import torch
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core.seeds import KEY as KEY

Integers = NDArray[np.uint64]
"""Integers modulo 2^64, ``(n,)``."""
BITS = 32
"""Binary places of a hidden number: it is exact to 2^-33."""


def limit(clients: int) -> float:
    """Return the maximum magnitude of a value in a sum over `clients` clients."""
    return float(2 ** (62 - BITS) / clients)  # so that sums stay within 2^62, one bit less than an int64 has


def encode(values: Tensor, clients: int) -> Integers:
    """Encode numbers ``(n,)`` in fixed point, for a sum over `clients` clients.

    Raises ValueError if one is beyond `limit`, or not a number.
    """
    values = values.double()
    if not bool((values.abs() <= limit(clients)).all()):
        raise ValueError(f"a number is beyond {limit(clients):.3g}, the maximum for a secure sum of {clients} clients")
    return (values * 2.0**BITS).round().to(torch.int64).numpy().view(np.uint64)


def decode(totals: Integers) -> Tensor:
    """Decode a sum of fixed-point numbers ``(n,)``, or the total of several ``(groups, n)``, to float64 ``(n,)``.

    Groups are added up exactly, which may take more than 64 bits, and rounded once.
    """
    signed = np.atleast_2d(totals.view(np.int64))
    whole, fraction = (signed >> BITS).sum(0), (signed & (2**BITS - 1)).sum(0)
    return torch.from_numpy(whole + fraction / 2.0**BITS)


def content(octets: Tensor) -> bytes:
    """Return the bytes of a uint8 tensor."""
    return octets.numpy().tobytes()


def rows_of(octets: Tensor) -> list[bytes]:
    """Return the bytes of every row of a uint8 tensor ``(..., width)``, in order."""
    return [content(row) for row in octets.reshape(-1, octets.shape[-1])]


def octets_of(rows: Sequence[bytes], *shape: int) -> Tensor:
    """Return bytes, joined, as a uint8 tensor of the given shape."""
    return torch.from_numpy(np.frombuffer(b"".join(rows), np.uint8).copy()).view(shape)


def context_of(tag: bytes, keys: Mapping[int, bytes]) -> bytes:
    """Return bytes that identify a sum: by its `tag` and the keys of its clients."""
    digest = sha256(tag)
    for client in sorted(keys):
        digest.update(f"/{client}/".encode() + keys[client])
    return digest.digest()


# Keys and masks.


def public_key(private: bytes) -> bytes:
    """Return the public key of a private key, both 32 bytes; any 32 bytes are a valid private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


@lru_cache(2**15)  # for keys that are used throughout a run
def agreed(private: bytes, public: bytes) -> bytes:
    """Return the shared secret of two clients (X25519); raise ValueError if the public key is invalid."""
    return _loaded(private).exchange(X25519PublicKey.from_public_bytes(public))


@lru_cache(512)  # since loading a private key takes as long as using it, and every pair of clients needs it
def _loaded(private: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(private)


def is_key(public: bytes) -> bool:
    """Return whether a public key allows a key agreement; a few points, of small order, do not."""
    try:
        agreed(bytes(KEY), public)
    except ValueError:
        return False
    return True


def mask(client: int, private: bytes, keys: Mapping[int, bytes], context: bytes, length: int) -> Integers:
    """Return the sum of a client's pairwise masks; those of all clients in `keys` cancel modulo 2^64.

    `client` is its id, and `private` its key; `keys` are the public ones of all that take part, by id, its own among
    them or not. `context` identifies the sum. Masks of different contexts are independent; a context must never be used
    twice. Raises ValueError if a key is invalid.
    """
    total = np.zeros(length, np.uint64)
    for peer in sorted(keys.keys() - {client}):
        pair = f"/{min(client, peer)}/{max(client, peer)}".encode()
        stream = _stream(agreed(private, keys[peer]), context + pair, length)
        total = total + stream if client < peer else total - stream
    return total


def own_mask(client: int, private: bytes, context: bytes, length: int) -> Integers:
    """Return a client's individual mask of a sum, which no other mask cancels."""
    return _stream(private, context + f"/{client}".encode(), length)


def _stream(secret: bytes, purpose: bytes, length: int) -> Integers:
    """Return pseudo-random numbers derived from a secret."""
    key = HKDF(algorithm=SHA256(), length=16, salt=None, info=b"fedkin secure sums" + purpose).derive(secret)
    # Every key serves for one stream only, so that the counter may begin at 0.
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, "<u8").astype(np.uint64, copy=False)


# Shamir's secret sharing (1979): at least a threshold of the shares recovers a secret, and fewer reveal nothing.


PRIME = 2**255 - 19
"""Secrets and shares are numbers modulo this prime, which fits 32 bytes."""


def threshold(holders: int) -> int:
    """Return how many of the holders' shares are needed to recover a secret: more than two thirds.

    More than half would do against a server that lies alone: to recover two keys of one client, of which each holder
    gives shares of one, would take more holders than there are. More than two thirds withstand a server in league with
    up to a third of the holders, who give both (Bonawitz et al. 2017, section 6.2).
    """
    return 2 * holders // 3 + 1


def split(coefficients: Sequence[int], holders: int) -> list[int]:
    """Return the shares of a secret: values of a polynomial over the field of `PRIME` at 1, 2, ..., `holders`.

    Its coefficients, in [0, `PRIME`), are the secret, then uniform random ones, as many in all as the shares that
    recover it.
    """
    shares = [0] * holders
    for coefficient in reversed(coefficients):
        shares = [(value * place + coefficient) % PRIME for place, value in enumerate(shares, 1)]
    return shares


def combine(shares: Mapping[int, int]) -> int:
    """Return the secret that shares recover, given by their place from 1; all of them are used.

    With fewer than its threshold, or with one that is wrong, it is another number.
    """
    places = tuple(sorted(shares))
    return sum(weight * shares[place] for weight, place in zip(_weights(places), places, strict=True)) % PRIME


@lru_cache(maxsize=64)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """Return Lagrange's weights, by which values at `places` give the value at 0."""
    weights = []
    for place in places:
        above = below = 1
        for node in places:
            if node != place:
                above = above * node % PRIME
                below = below * (node - place) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)


# Encrypted shares of a client's keys of one sum (Bonawitz et al. 2017, round 1).
#
# A client has two private keys for each sum: one for its pairwise masks, and one for its individual mask. Both follow
# from a secret of its own and the sum's context, so it has nothing to remember, and a key that is revealed is good
# for no other sum. Shares of both are encrypted for every client of the sum under a key that only dealer and holder
# know. A holder gives a share away by revealing that key: the server, which has the encrypted shares, decrypts it, so
# that nobody can give a wrong one unnoticed.


PAIRS, OWN = 0, 1
"""Kinds of keys and shares: those of the pairwise masks, and those of a client's individual mask."""
KINDS = (PAIRS, OWN)
OPENER = 16
"""Bytes of a key that decrypts one share."""
SEALED = KEY + 16
"""Bytes of an encrypted share: 32 and an authentication tag."""
_NONCE = bytes(12)
"""Each key encrypts one share and nothing else, so that the nonce may be 0."""
_PURPOSE = b"fedkin shares of secure sums"


def channel_key(secret: bytes) -> bytes:
    """Return the client's private key for encrypting and decrypting shares, the same throughout a run."""
    return _numbers(secret, b"channel", 1)[0].to_bytes(KEY, "little")


def sum_keys(secret: bytes, context: bytes) -> list[bytes]:
    """Return a client's private keys of one sum, one for each kind of mask."""
    return [_polynomial(secret, context, kind, 1)[0].to_bytes(KEY, "little") for kind in KINDS]


def sealed_shares(
    secret: bytes, client: int, keys: Mapping[int, bytes], context: bytes
) -> tuple[list[bytes], list[list[bytes]]]:
    """Return a client's public keys of one sum, by kind (see `public_of`), and encrypted shares of the private ones.

    The shares are for each client of the sum, in order of id, and then by kind. All keys of the client follow from
    `secret`; `keys` are the public channel keys of all clients of the sum, by id, its own among them; `context`
    identifies the sum. Raises ValueError if a key is invalid.
    """
    channel = channel_key(secret)
    polynomials = [_polynomial(secret, context, kind, threshold(len(keys))) for kind in KINDS]
    publics = [public_of(polynomials[kind][0], kind) for kind in KINDS]
    values = [split(polynomial, len(keys)) for polynomial in polynomials]

    def sealed(place: int, openers: Sequence[bytes], kind: int) -> bytes:
        share = values[kind][place].to_bytes(KEY, "little")
        return AESGCM(openers[kind]).encrypt(_NONCE, share, _bound(publics, kind))

    openers = [openers_of(channel, keys[holder], client, holder, context) for holder in sorted(keys)]
    return publics, [[sealed(place, both, kind) for kind in KINDS] for place, both in enumerate(openers)]


def openers_of(channel: bytes, peer: bytes, dealer: int, holder: int, context: bytes) -> tuple[bytes, bytes]:
    """Return the keys that decrypt a dealer's shares for a holder in one sum, one for each kind of mask.

    `channel` is the private channel key of either, and `peer` the public one of the other. Raises ValueError if the
    public key is invalid.
    """
    both = _octets(agreed(channel, peer), context + f"/{dealer}/{holder}".encode(), 2 * OPENER)
    return both[:OPENER], both[OPENER:]


def opened(opener: bytes, sealed: bytes, publics: Sequence[bytes], kind: int) -> int | None:
    """Decrypt a share, and check that it is from a dealer with these public keys; ``None`` if it is not."""
    try:
        share = int.from_bytes(AESGCM(opener).decrypt(_NONCE, sealed, _bound(publics, kind)), "little")
    except InvalidTag:
        return None
    return share if share < PRIME else None


def public_of(number: int, kind: int) -> bytes:
    """Return the public value by which a recovered private key is checked: its public key, or a digest of it.

    A digest is used of the keys of individual masks: X25519 ignores five bits of a private key, and masks do not.
    """
    key = number.to_bytes(KEY, "little")
    return public_key(key) if kind == PAIRS else sha256(_PURPOSE + key).digest()


def _bound(publics: Sequence[bytes], kind: int) -> bytes:
    """Return what an encrypted share is bound to, its associated data: its kind and the dealer's public keys."""
    return b"".join(publics) + bytes([kind])


def _polynomial(secret: bytes, context: bytes, kind: int, length: int) -> list[int]:
    """Return the coefficients of a client's polynomial for one sum; the first is the private key."""
    return _numbers(secret, context + b"/keys" + bytes([kind]), length)


def _numbers(secret: bytes, purpose: bytes, count: int) -> list[int]:
    """Return numbers in [0, `PRIME`), all equally likely: of twice the prime's bytes, reduced."""
    stream, size = _octets(secret, purpose, 2 * KEY * count), 2 * KEY
    return [int.from_bytes(stream[i : i + size], "little") % PRIME for i in range(0, len(stream), size)]


def _octets(secret: bytes, purpose: bytes, count: int) -> bytes:
    """Return pseudo-random bytes derived from a secret, for one purpose."""
    return shake_256(_PURPOSE + len(secret).to_bytes(1) + secret + purpose).digest(count)
