"""Masks of secure sums: random numbers that hide each client's values and cancel in the sum (Bonawitz et al. 2017).

Values become integers modulo 2^64, in which sums are exact whatever their order. Any two clients share a secret through
their keys (X25519). It is the key of a stream of AES in counter mode, which the client of lower id adds and the other
subtracts. Each client adds another stream of its own, which the server subtracts from the sum once it knows whose
values are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

BITS = 32
"""Binary places of a hidden number: it is exact to 2^-33."""
_ROOM = 62
"""All sums stay within 2^62, one bit less than an int64 has."""
_PURPOSE = b"fedkin secure sums"
KEY = 32
"""Bytes of a key."""


def limit(clients: int) -> float:
    """Return the maximum magnitude of a value in a sum over `clients` clients."""
    return float(2 ** (_ROOM - BITS) / clients)


def encode(values: Tensor, clients: int) -> Tensor:
    """Encode numbers ``(n,)`` in fixed point, int64 ``(n,)``, for a sum over `clients` clients.

    Raises ValueError if one is beyond `limit`, or not a number.
    """
    values = values.double()
    if not bool((values.abs() <= limit(clients)).all()):
        raise ValueError(f"a number is beyond {limit(clients):.3g}, the maximum for a secure sum of {clients} clients")
    return (values * 2.0**BITS).round().to(torch.int64)


def decode(total: Tensor) -> Tensor:
    """Decode a sum of fixed-point numbers, int64 ``(n,)``, to float64 ``(n,)``."""
    return total.double() / 2.0**BITS


def content(octets: Tensor) -> bytes:
    """Return the bytes of a uint8 tensor."""
    return octets.numpy().tobytes()


def rows_of(octets: Tensor) -> list[bytes]:
    """Return the bytes of every row of a uint8 tensor ``(..., width)``, in order."""
    flat, width = content(octets.contiguous()), octets.shape[-1]
    return [flat[at : at + width] for at in range(0, len(flat), width)]


def public_key(private: bytes) -> bytes:
    """Return the public key of a private key, both 32 bytes; any 32 bytes are a valid private key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def mask(own: int, private: bytes, keys: Mapping[int, bytes], context: bytes, length: int) -> Tensor:
    """Return the sum of a client's pairwise masks, int64 ``(length,)``; those of all clients in `keys` cancel mod 2^64.

    `own` is the client's id, and `private` its key; `keys` are the public ones of all that take part, by id, its own
    among them or not. `context` identifies the sum. Masks of different contexts are independent; a context must never
    be used twice. Raises ValueError if a key is invalid.
    """
    total, zeros = np.zeros(length, np.uint64), bytes(8 * length)
    for other in sorted(keys.keys() - {own}):
        shared = agreed(private, keys[other])
        pair = f"/{min(own, other)}/{max(own, other)}".encode()
        stream = _stream(shared, context + pair, zeros)
        if own < other:
            total += stream
        else:
            total -= stream
    return torch.from_numpy(total.view(np.int64))


def own_mask(own: int, private: bytes, context: bytes, length: int) -> Tensor:
    """Return a client's individual mask of a sum, int64 ``(length,)``, which no other mask cancels."""
    stream = _stream(private, context + f"/{own}".encode(), bytes(8 * length))
    return torch.from_numpy(stream.copy().view(np.int64))


def agreed(private: bytes, public: bytes) -> bytes:
    """Return the shared secret of a private and a public key (X25519 key agreement).

    Raises ValueError if the public key is invalid.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return _loaded(private).exchange(X25519PublicKey.from_public_bytes(public))


@lru_cache(maxsize=512)
def _loaded(private: bytes) -> X25519PrivateKey:
    """Return the loaded private key, cached: loading takes as long as using, and every pair of clients needs it."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private)


def is_key(public: bytes) -> bool:
    """Return whether a public key allows a key agreement; a few points, of small order, do not."""
    try:
        agreed(bytes(KEY), public)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=2**15)
def shared_secret(private: bytes, public: bytes) -> bytes:
    """Return the same as `agreed`, cached for keys that are used throughout a run."""
    return agreed(private, public)


def context_of(tag: bytes, keys: Mapping[int, bytes]) -> bytes:
    """Return bytes that identify a sum: by its `tag` and the keys of its clients."""
    digest = sha256(tag)
    for client in sorted(keys):
        digest.update(f"/{client}/".encode() + keys[client])
    return digest.digest()


def _stream(shared: bytes, purpose: bytes, zeros: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return pseudo-random uint64 numbers, as many as in `zeros`, derived from the secret `shared`."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key = HKDF(algorithm=SHA256(), length=16, salt=None, info=_PURPOSE + purpose).derive(shared)
    # Every key serves for one stream only, so that the counter may begin at 0.
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(zeros)
    return np.frombuffer(stream, "<u8").astype(np.uint64, copy=False)
