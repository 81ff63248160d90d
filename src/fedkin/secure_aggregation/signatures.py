"""Signatures of the keys of secure sums, made with the key pairs by which Flower authenticates its nodes."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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

from fedkin.core.errors import FedkinError
from fedkin.core.files import FileError


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
        public = load_ssh_public_key(signer.encode())
        if not isinstance(public, EllipticCurvePublicKey):
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
        if not _is_public_key(key):
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


def _is_public_key(text: str) -> bool:
    """Return whether a text is a public key as OpenSSH writes it, of the curves by which Flower authenticates nodes."""
    if not re.fullmatch(r"ecdsa-sha2-nistp(256|384|521) [A-Za-z0-9+/]+={0,2}", text):
        return False
    try:
        return bool(load_ssh_public_key(text.encode()))
    except (ValueError, UnsupportedAlgorithm):
        return False
