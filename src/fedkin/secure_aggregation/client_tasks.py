"""Tasks of a secure sum, by which clients send keys, share them, do another task and mask its reply, and unmask.

Keys are signed with the key pairs by which Flower authenticates its nodes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from torch import Tensor

from fedkin.core.client import LASTING, Client
from fedkin.core.errors import FedkinError
from fedkin.core.files import FileError
from fedkin.core.payload import (
    Array,
    Expected,
    ListOf,
    Nullable,
    Optional,
    Payload,
    is_count,
    is_flag,
    is_name,
    is_shape,
    is_text,
    owned,
    to_bytes,
    uint8,
)
from fedkin.core.seeds import Secret
from fedkin.core.tasks import Task, client_task, known_task
from fedkin.secure_aggregation import masks
from fedkin.secure_aggregation.masks import KEY, KINDS, OPENER, OWN, PAIRS, SEALED, content, octets_of, rows_of

MIN_CLIENTS = 3
"""Minimum number of clients in a sum; in a sum of two, each learns the other's value."""
OTHER_KEY = "its key is another"
"""Reply of a client that has lost its memory; it is asked for its new key the next time."""
INVALID_KEY = "a key is invalid"
USED_TAG = "its tag has been used for another request"
STILL_SEALED = "it cannot open its shares of others' keys"
TAG = 16
"""Bytes of a tag, which identifies one sum."""
UNITS = tuple(2.0**power for power in range(100, -60, -20))
"""What the pieces of a number of any size are multiples of."""
MASKED, DEALERS, REVEALED = LASTING + "tags", LASTING + "dealers", LASTING + "revealed"
"""Entries of a client's state: tags of the requests it has masked replies to, of its dealers, and of the shares it has
revealed, each with a digest of the request."""
_SECRET = "sums_key"
"""Entry of a client's state: the secret that its keys follow from, uint8 ``(32,)``."""


@dataclass(frozen=True)
class Term:
    """A tensor or number of a reply that is summed over clients; its shape is ``()`` for a number.

    `factor` is the name of a number in the reply that it is multiplied by, at the client. Of `wide` terms numbers may
    be of any size: they are split into digits, and the sums of these put together again.
    """

    name: str
    shape: tuple[int, ...] = ()
    factor: str | None = None
    wide: bool = False

    @property
    def length(self) -> int:
        """How many numbers are summed for it."""
        return prod(self.shape) * (len(UNITS) if self.wide else 1)

    def total(self, sums: Tensor) -> Tensor:
        """Return the sum of the term from those of its numbers, float64 ``(length,)``."""
        return (of_digits(sums.view(len(UNITS), -1)) if self.wide else sums).view(self.shape)


def _is_term_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and (not value or is_shape(list(value)))


GROUP: Expected = {
    "ids": ListOf(is_count), "keys": uint8("clients", KEY), "tag": uint8(TAG),
    "signed": Optional(ListOf({"signer": is_text, "signature": is_text})),
}  # fmt: skip
"""Entries of a request: clients of a sum, their keys, the sum's tag, and the signatures of the keys, where any client
signs; their texts are empty where one does not."""
_REFUSED: Expected = {"refused": Optional(is_text)}


@client_task(
    takes={},
    holds={"key": uint8(KEY), "signer": Optional(is_text), "signature": Optional(is_text)},
    sends="Keys, for sums under masks",
    fewest="none",
)
def send_key(client: Client, payload: Payload) -> Payload:
    """Send the client's public key, uint8 ``(32,)``; its secret is made at the first request and kept.

    A client with an identity signs it.
    """
    key = masks.public_key(masks.channel_key(secret_of(client)))
    return {"key": octets_of([key], KEY), **(client.identity.sign(key) if client.identity else {})}


@client_task(
    takes=GROUP,
    holds={
        **_REFUSED,
        "publics": Optional(uint8(len(KINDS), KEY)),
        "shares": Optional(uint8(None, len(KINDS), SEALED)),
    },
    sends="Keys, for sums under masks",
    fewest="none",
)
def send_shares(client: Client, payload: Payload) -> Payload:
    """Send the client's public keys of a sum, and encrypted shares of the private ones for each of its clients.

    A reply has ``publics``, uint8 ``(2, 32)``, and ``shares``, uint8 ``(clients, 2, 48)``; or why not, ``refused``.
    """
    if (reason := _group_objection(client, payload)) is not None:
        return {"refused": reason}
    keys = keys_of(payload)
    try:
        publics, shares = masks.sealed_shares(secret_of(client), client.id, keys, context_of_shares(payload))
    except ValueError:
        return {"refused": INVALID_KEY}
    flat = [share for both in shares for share in both]
    return {
        "publics": octets_of(publics, len(KINDS), KEY),
        "shares": octets_of(flat, len(keys), len(KINDS), SEALED),
    }


@client_task(
    takes={
        **GROUP, "dealers": ListOf(is_count), "publics": uint8("dealers", len(KINDS), KEY),
        "shares": uint8("dealers", len(KINDS), SEALED), "task": is_name,
        "terms": ListOf({"name": is_name, "shape": _is_term_shape, "factor": Nullable(is_name), "wide": is_flag}),
        "payload": lambda value: isinstance(value, dict),
    },
    holds={
        **_REFUSED, "masked": Optional(Array((None,), torch.int64, -(2.0**63), 2.0**63)),
        "sealed": Optional(ListOf(is_count)),
    },
    sends="Numbers under masks, of which only the sum over clients can be read", fewest="none",
)  # fmt: skip
def masked(client: Client, payload: Payload) -> Payload:
    """Run the given task, and send the terms of its reply masked, as ``masked``, int64; or why not, as ``refused``.

    A client that cannot decrypt its shares of others' keys names those dealers in ``sealed``.
    """
    reason = _group_objection(client, payload) or _dealers_objection(client, payload)
    if reason is not None:
        return {"refused": reason}
    if sealed := _still_sealed(client, payload):
        return {"refused": STILL_SEALED, "sealed": sealed}
    # The same tag gives the same masks, so the difference of two replies would be that of what they hide.
    tag, request = content(payload["tag"]), to_bytes(owned(payload)) + str(client.rng.initial_seed()).encode()
    if is_second(client, MASKED, tag, request) or is_second(client, DEALERS, tag, _names(payload["dealers"])):
        return {"refused": USED_TAG}
    [reply] = _summable(payload["task"], payload["payload"]).run([client], [payload["payload"]])
    try:
        return {"masked": _masked(client, reply, payload)}
    except ValueError as error:
        return {"refused": str(error)}


@client_task(
    takes={**GROUP, "survivors": ListOf(is_count), "dropped": ListOf(is_count)},
    holds={**_REFUSED, "own": Optional(uint8(None, OPENER)), "pairs": Optional(uint8(None, OPENER))},
    sends="Parts of keys, with which the masks are taken off a sum",
    fewest="none",
)
def reveal_shares(client: Client, payload: Payload) -> Payload:
    """Reveal shares of keys: for the individual masks of survivors, and the pairwise masks of those that dropped out.

    A reply has ``own``, uint8 ``(survivors, 16)``, and ``pairs``, uint8 ``(dropped, 16)``; or why not. A client answers
    once per sum, and never both for the same client: whoever has both takes all masks off.
    """
    reason = _group_objection(client, payload) or _survivors_objection(client, payload)
    if reason is None and is_second(client, REVEALED, content(payload["tag"]), to_bytes(owned(payload))):
        reason = USED_TAG
    if reason is not None:
        return {"refused": reason}
    keys, channel, context = keys_of(payload), masks.channel_key(secret_of(client)), context_of_shares(payload)

    def openers(dealers: Sequence[int], kind: int) -> Tensor:
        of_shares = [masks.openers_of(channel, keys[i], i, client.id, context)[kind] for i in dealers]
        return octets_of(of_shares, len(dealers), OPENER)

    try:
        return {"own": openers(payload["survivors"], OWN), "pairs": openers(payload["dropped"], PAIRS)}
    except ValueError:
        return {"refused": INVALID_KEY}


def secret_of(client: Client) -> bytes:
    """Return the secret that all keys of a client follow from; made at the first call, and kept for the run."""
    if _SECRET not in client.state:
        client.state[_SECRET] = octets_of([client.secret(KEY)], KEY)
    return content(client.state[_SECRET])


def keys_of(payload: Payload) -> dict[int, bytes]:
    """Return the clients' public keys in a request, by id."""
    return dict(zip(map(int, payload["ids"]), rows_of(payload["keys"]), strict=False))


def context_of_shares(payload: Payload) -> bytes:
    """Return bytes that identify the shares of a sum, of whose clients and tag a request is."""
    return masks.context_of(content(payload["tag"]), keys_of(payload))


def context_of_masks(payload: Payload, publics: Mapping[int, bytes], digest: bytes) -> bytes:
    """Return bytes that identify the masks of a sum, of whose clients and tag a request is.

    `publics` are the public keys of those who share masks, by id; `digest` is that of what they are all asked, see
    `question`.
    """
    return masks.context_of(digest + context_of_shares(payload), publics)


def question(payload: Payload) -> bytes:
    """Return a digest of what is summed: masks cancel only among clients that are all asked the same.

    Otherwise a server could ask the others for what it knows beforehand, and take it off the sum.
    """
    return sha256(to_bytes(owned({name: payload[name] for name in ("task", "terms", "payload")}))).digest()


def values_of(reply: Payload, terms: Sequence[Term]) -> Tensor:
    """Return the values of the terms in a reply, one after another: float64 ``(length,)``.

    Raises ValueError if one has another shape, or is not finite.
    """
    values = []
    for term in terms:
        value = torch.as_tensor(reply[term.name], dtype=torch.float64)
        if value.shape != torch.Size(term.shape):
            raise ValueError(f"'{term.name}' has shape {tuple(value.shape)} where {tuple(term.shape)} was expected")
        if term.factor is not None:
            value = value * float(reply[term.factor])
        if not bool(value.isfinite().all()):
            raise ValueError(f"'{term.name}' is not finite")
        values.append((to_digits(value.flatten()) if term.wide else value).flatten())
    return torch.cat(values)


def to_digits(values: Tensor, units: Sequence[float] = UNITS) -> Tensor:
    """Split numbers ``(n,)`` into multiples of `units`, float64 ``(pieces, n)``, all but the first below 2^20."""
    rest, digits = values.double(), []
    for unit in units[:-1]:
        digits.append((rest / unit).round())
        rest = rest - digits[-1] * unit
    return torch.stack([*digits, rest / units[-1]])


def of_digits(digits: Tensor, units: Sequence[float] = UNITS) -> Tensor:
    """Return the numbers ``(n,)`` that `to_digits` split, or sums of such."""
    return (torch.tensor(units, dtype=torch.float64)[:, None] * digits).sum(0)


# What a client checks before it takes part.


def _group_objection(client: Client, payload: Payload) -> str | None:
    """Return why a client refuses a sum among these clients with these keys; ``None`` if it accepts them."""
    keys = keys_of(payload)
    if len(keys) < MIN_CLIENTS:
        return f"fewer than {MIN_CLIENTS} clients to sum over"
    if len(set(keys.values())) < len(keys):
        return "two clients have the same key"
    if _SECRET not in client.state or keys.get(client.id) != masks.public_key(masks.channel_key(secret_of(client))):
        return OTHER_KEY
    if not len(payload["ids"]) == len(payload["keys"]) == len(keys):
        return "clients and keys are not one each"
    if client.identity is None:
        return None
    signatures = dict(zip(payload["ids"], payload.get("signed", []), strict=False))
    objection: str | None = client.identity.objection(client.id, keys, signatures)
    return objection


def _dealers_objection(client: Client, payload: Payload) -> str | None:
    """Return why a client refuses to share masks with these dealers; ``None`` if it accepts them."""
    ids, dealers = payload["ids"], payload["dealers"]
    if not _are_some(dealers, ids) or len(dealers) != len(payload["publics"]):
        return "the dealers are not different clients of the sum"
    if client.id not in dealers:
        return "it is not among the dealers"
    least = masks.threshold(len(ids))
    return None if len(dealers) >= least else f"fewer than {least} of {len(ids)} clients are dealers"


def _survivors_objection(client: Client, payload: Payload) -> str | None:
    """Return why a client reveals nothing for these lists of survivors and dropouts; ``None`` if it does."""
    survivors, least = payload["survivors"], masks.threshold(len(payload["ids"]))
    everyone = [*survivors, *payload["dropped"]]
    if not _are_some(everyone, payload["ids"]):
        return "survivors and dropped are not different clients of the sum"
    if client.id not in survivors:
        return "it is not among the survivors"
    row, _, same = _memory(client, DEALERS, content(payload["tag"]), _names(everyone))
    if isinstance(client.noise, Secret) and not (len(same) and bool((same == row).all())):
        return "it shares no masks with just these clients"
    return None if len(survivors) >= least else f"fewer than {least} survivors"


def is_second(client: Client, name: str, tag: bytes, request: bytes) -> bool:
    """Return whether a tag was used before with a different request; if it is new, remember it with this one.

    The same request again, after a reply was lost, gets the same reply. What is remembered lasts, whatever a server
    says about where the run is. In a simulation nothing is secret, and nothing kept. `name` is `MASKED`, `DEALERS` or
    `REVEALED`.
    """
    if not isinstance(client.noise, Secret):
        return False
    row, memory, same = _memory(client, name, tag, request)
    if not len(same):
        client.state[name] = torch.cat([memory, row[None]])
    return bool((same != row).any())


def _memory(client: Client, name: str, tag: bytes, request: bytes) -> tuple[Tensor, Tensor, Tensor]:
    """Return tag and digest of a request, all remembered pairs of these, and those of the pairs with the same tag."""
    row = torch.tensor(list(tag + sha256(request).digest()), dtype=torch.uint8)
    memory = client.state.get(name, torch.zeros(0, len(row), dtype=torch.uint8))
    return row, memory, memory[(memory[:, :TAG] == row[:TAG]).all(1)]


def _names(ids: Sequence[int]) -> bytes:
    """Return ids as bytes that do not depend on their order."""
    return "/".join(map(str, sorted(ids))).encode()


def _are_some(ids: Sequence[int], clients: Sequence[int]) -> bool:
    """Return whether `ids` are distinct and all of them among `clients`."""
    return len(set(ids)) == len(ids) and set(ids) <= set(clients)


def _still_sealed(client: Client, payload: Payload) -> list[int]:
    """Return the dealers whose shares this client cannot decrypt, because they or their public keys were altered."""
    keys, channel, context = keys_of(payload), masks.channel_key(secret_of(client)), context_of_shares(payload)

    def opens(dealer: int, publics: Tensor, shares: Tensor) -> bool:
        try:
            openers = masks.openers_of(channel, keys[dealer], dealer, client.id, context)
        except ValueError:  # no key at all
            return False
        parts = zip(openers, rows_of(shares), KINDS, strict=True)
        return all(masks.opened(opener, share, rows_of(publics), kind) is not None for opener, share, kind in parts)

    dealt = zip(payload["dealers"], payload["publics"], payload["shares"], strict=True)
    return [dealer for dealer, publics, shares in dealt if not opens(dealer, publics, shares)]


def _masked(client: Client, reply: Payload, payload: Payload) -> Tensor:
    """Return the client's masked values, int64 ``(length,)``.

    Raises ValueError if a number of the reply cannot be summed, or a key is invalid.
    """
    values = values_of(reply, [Term(**term) for term in payload["terms"]])
    publics = dict(zip(payload["dealers"], rows_of(payload["publics"][:, PAIRS]), strict=True))
    context = context_of_masks(payload, publics, question(payload))
    private = masks.sum_keys(secret_of(client), context_of_shares(payload))
    hidden = masks.encode(values, len(payload["ids"]))
    hidden = hidden + masks.mask(client.id, private[PAIRS], publics, context, len(values))
    hidden = hidden + masks.own_mask(client.id, private[OWN], context, len(values))
    return torch.from_numpy(hidden.view(np.int64))


def _summable(name: str, payload: Payload) -> Task:
    """Return the task called `name`, after checking that it may be summed and takes this payload."""
    task = known_task(name)
    reason = task.objection(payload)
    if task.moves_data:  # whoever made the others of a sum can take their masks off
        reason = "samples would be sent away"
    if reason is not None:
        raise FedkinError(f"Task '{name}' is not summed with this request: {reason}.", public=True)
    return task


# Signatures of the keys of secure sums.


@dataclass(frozen=True)
class SiteIdentity:
    """Signing identity of a site: signs its keys for secure sums and checks the signatures of other sites.

    A signature is valid for one run, whose token is `run`. `key` is the file of the site's private key; without one it
    signs nothing. `listed` are public keys of the sites that it shares a sum with, by name, see `public_keys`; if
    empty, any site.
    """

    run: str
    key: Path | None = None
    listed: Mapping[str, str] = field(default_factory=dict)

    def sign(self, key: bytes) -> dict[str, str]:
        """Return the site's public key, ``signer``, and its ``signature`` of a key; empty if it has no private key."""
        if self.key is None:
            return {}
        signature = _private(self.key).sign(self._message(key), ECDSA(SHA256()))
        return {"signer": own_public_text(self.key), "signature": b64encode(signature).decode()}

    def objection(self, client: int, keys: Mapping[int, bytes], signed: Mapping[int, Mapping[str, str]]) -> str | None:
        """Return why the site refuses a secure sum with these keys; ``None`` if it accepts them.

        `client` is the site's id, whose own key needs no signature. `keys` of secure sums, and what `sign` returned for
        them, are by id.
        """
        if not self.listed:
            return None
        signers = {own_public_text(self.key): client} if self.key else {}
        for peer in sorted(keys.keys() - {client}):
            signer, signature = (signed.get(peer, {}).get(part, "") for part in ("signer", "signature"))
            if signer not in self.listed.values() or not self._is_signed(keys[peer], signer, signature):
                return f"the key of client {peer} is signed by nobody that its own site file lists"
            if signer in signers:
                return f"the keys of clients {signers[signer]} and {peer} are of the same site"
            signers[signer] = peer
        return None

    def _is_signed(self, key: bytes, signer: str, signature: str) -> bool:
        if (public := _public(signer)) is None:
            return False
        try:
            public.verify(b64decode(signature, validate=True), self._message(key), ECDSA(SHA256()))
        except (InvalidSignature, ValueError):
            return False
        return True

    def _message(self, key: bytes) -> bytes:
        """Return the bytes that are signed, which differ from all that Flower has a node sign, and between runs."""
        return b"/".join((b"fedkin key of secure sums", self.run.encode(), key))


def public_keys(lines: Mapping[str, str], place: str) -> dict[str, str]:
    """Check public keys in OpenSSH's format, and return them by name, without comments.

    `lines` are those of ``site.key.pub``; `place` is that of the keys in error messages. Raises FedkinError if one
    is no public key, or is that of two names.
    """
    keys = {name: " ".join(line.split()[:2]) for name, line in lines.items()}
    holders: dict[str, str] = {}
    for name, key in keys.items():
        if _public(key) is None:
            raise FedkinError(f"{place} has no public key of '{name}'; give the line of its site.key.pub, ecdsa-...")
        if holders.setdefault(key, name) != name:
            raise FedkinError(f"{place} has one key for '{holders[key]}' and '{name}'; each has its own.")
    return keys


def public_text(pem: bytes) -> str:
    """Return a public key in OpenSSH's format, without a comment; empty if `pem` is no key."""
    try:
        return load_pem_public_key(pem).public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except (ValueError, UnsupportedAlgorithm):
        return ""


def own_public_text(path: Path) -> str:
    """Return the public key, in OpenSSH's format, of the private key in a file.

    Raises FileError if the file is no OpenSSH private key of an elliptic curve, without a password.
    """
    return _private(path).public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _private(path: Path) -> EllipticCurvePrivateKey:
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except OSError as error:
        raise FileError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise FileError(f"{path} is no private key as `fedkin federation key` writes it.")
    return key


def _public(text: str) -> EllipticCurvePublicKey | None:
    """Return a public key as OpenSSH writes it, of a curve by which Flower authenticates nodes; ``None`` for others."""
    try:
        key = load_ssh_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, EllipticCurvePublicKey) else None
