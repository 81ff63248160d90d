"""Certificates of a server and keys of sites, for encryption and authentication of messages."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically, write_secret

_DAYS = 730
_LONGEST = 253
_PART = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.*[a-z])({_PART}\.)*{_PART}", re.IGNORECASE | re.ASCII)
"""A name has a letter, so that 10.0.0.300 is none."""


def in_ascii(host: str) -> str:
    """Convert a host's name or address to ASCII (IDNA), as addresses and certificates need it.

    Raises FedkinError if it is not a host's name, or one with several forms in ASCII.
    """
    try:
        name = host.encode("idna").decode()
    except UnicodeError:
        name = ""
    if not _is_address(name) and not (_HOST.fullmatch(name) and len(name) <= _LONGEST):
        raise FedkinError(
            f"{host!r} is no name of a host: give one such as fed.example.org, whose parts have 1 to 63 letters, "
            "digits or hyphens, or an IPv4 address, without a port."
        )
    if not host.isascii() and name.encode().decode("idna") != host.lower():  # such as one with an eszett
        raise FedkinError(f"'{host}' has more than one form in ASCII; give it as it is registered, xn--...")
    return name


def new_certificates(hosts: Sequence[str]) -> dict[str, bytes]:
    """Create a certificate authority and a server's certificate, as four files with their keys.

    They are ``ca.crt``, ``ca.key``, ``server.crt`` and ``server.key``. `hosts` are names or addresses of the server,
    see `in_ascii`.
    """
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    issuer = _named("fedkin federation")
    root = _certificate(issuer, issuer, authority.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    root = root.add_extension(_usage(signs=True), critical=True)
    root = root.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
    one = _certificate(_named("fedkin server"), issuer, server.public_key())
    one = one.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    one = one.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    one = one.add_extension(_usage(signs=False), critical=True)
    one = one.add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    one = one.add_extension(identifier, critical=False)
    made = {}
    for name, unsigned, key in (("ca", root, authority), ("server", one, server)):
        made[f"{name}.key"] = _private(key, serialization.PrivateFormat.PKCS8)
        made[f"{name}.crt"] = unsigned.sign(authority, hashes.SHA384()).public_bytes(serialization.Encoding.PEM)
    return made


def write_certificates(folder: Path, made: Mapping[str, bytes]) -> None:
    """Write the files of `new_certificates`; raise FedkinError if ``ca.crt`` exists."""
    if (folder / "ca.crt").exists():
        raise FedkinError(f"{folder / 'ca.crt'} exists already; sites would not trust the server under a new one.")
    for name, content in made.items():
        (write_secret if name.endswith(".key") else write_atomically)(folder / name, content)


def make_key(path: Path) -> Path:
    """Write a new private key of a site, and beside it the public key, ``.pub``, for the server to register.

    Raises FedkinError if `path` exists.
    """
    if path.exists():
        raise FedkinError(f"{path} exists already; a site keeps its key.")
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    beside = path.with_name(path.name + ".pub")
    write_atomically(beside, public + b"\n")  # the key comes last: once it is there, nobody makes either again
    write_secret(path, _private(key, serialization.PrivateFormat.OpenSSH))
    return beside


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(hours=1),  # for clocks that differ
        not_valid_after=now + datetime.timedelta(days=_DAYS),
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _is_address(host: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(host))
    except ValueError:
        return False


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
