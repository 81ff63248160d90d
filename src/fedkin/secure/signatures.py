"""Keys that sites are known by: the elliptic-curve keys that Flower authenticates its nodes with."""

from __future__ import annotations

from pathlib import Path

from fedkin.core.files import FileError


def public_text(pem: bytes) -> str:
    """Return a public key as OpenSSH writes it, without a comment; empty if `pem` is no key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

    try:
        key = load_pem_public_key(pem)
        return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except (ValueError, UnsupportedAlgorithm):
        return ""


def own_public_text(path: Path) -> str:
    """Return the public half of the private key in a file, see `public_text`.

    Raises
    ------
    FileError
        If the file is no OpenSSH private key without a password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except OSError as error:
        raise FileError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FileError(f"{path} is no private key as `fedkin federation key` writes it.") from error
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
