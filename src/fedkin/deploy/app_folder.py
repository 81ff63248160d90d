"""App folders of Flower that ``fedkin federation init`` writes."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedkin.core import FedkinError
from fedkin.core.errors import toml_text
from fedkin.core.files import check_empty, write_atomically, write_secret
from fedkin.experiment.config import Config, load_config

FEDERATED = ("data.source=federation", "simulation.scenario=files", "simulation.engine=flower")
_APP = {
    "pyproject.toml": "pyproject.toml", ".gitignore": "gitignore", "fedkin_app/__init__.py": "package.py",
    "fedkin_app/server.py": "app_server.py", "fedkin_app/client.py": "app_client.py",
    "site.example.toml": "site.toml", "README.md": "README.md", "environment.sh": "environment.sh",
    "start-server.sh": "start-server.sh", "start-site.sh": "start-site.sh", "flwr.sh": "flwr.sh",
}  # fmt: skip
"""By a file's path in the folder, where its template lies in ``templates``."""


def init(
    folder: Path, experiment: str, sites: int | None, settings: Sequence[str], host: str, port: int, insecure: bool
) -> None:
    """Write a Flower app folder, new or empty, for an experiment: a method's name or a ``.toml`` file.

    By default there are as many `sites` as ``[federation]`` lists, else 3. `settings` are ``section.key=value``, see
    `fedkin.experiment.config.load_config`; `host` and `port` the address at which sites reach the server. `insecure`
    goes without TLS and without authentication of sites. Raises FedkinError if the folder holds anything, the
    experiment is not allowed, moves data or has too few sites, or the host's name is invalid.
    """
    check_empty(folder, "give a new one")
    number = [] if sites is None else [f"federation.sites={sites}"]
    trial = load_config(experiment, [*FEDERATED, *number, *settings]).federation
    if sites is not None and trial.sites != sites:
        raise FedkinError(f"--sites is {sites}, but 'federation.sites' {trial.sites}; give one of them.")
    sites = trial.sites or len(trial.listed) or 3
    config = load_config(experiment, [*FEDERATED, *settings, f"federation.sites={sites}"])
    check_federated(config)
    check_sites(config)
    _check_host(host)
    certificates = {} if insecure else new_certificates([host])
    words = {
        "host": host,
        "port": str(port),
        "listen": host if host.startswith("127.") or host == "localhost" else "0.0.0.0",
        "packages": _INSTALL.format(packages=", ".join(own)) if (own := own_packages(config)) else "",
        "sites": str(sites),
    }
    _write_app(folder, words | (_INSECURE if insecure else _SECURE), config)
    write_certificates(folder / "certificates", certificates)


def _write_app(folder: Path, words: Mapping[str, str], config: Config) -> None:
    """Write the experiment, and the files that templates make when `words` take the place of each ``$name``."""
    words = {"method": config.method_name, "columns": _lines_of_sites(config), **words}
    for name, template in _APP.items():
        text = files("fedkin.deploy").joinpath("templates", template).read_text(encoding="utf-8")
        write_atomically(folder / name, Template(text).substitute(words))
        if name.endswith(".sh") and name != "environment.sh":  # which the others read
            (folder / name).chmod(0o755)
    write_atomically(folder / "experiment.toml", config.to_toml())


def _lines_of_sites(config: Config) -> str:
    """Return lines of a site's file: packages that the experiment needs, and what it says of columns."""
    lines = [f"{key} = {toml_text(value)}\n" for key, value in config.data.of_columns.items()]
    if lines:
        lines.insert(0, "# columns, as in the experiment; change what this site names or writes differently\n")
    if packages := own_packages(config):
        trusted = f"packages = {toml_text(packages)}  # packages of the experiment's code, besides fedkin\n"
        lines.insert(0, trusted)
    return "".join(lines)


def own_packages(config: Config) -> list[str]:
    """Return the packages besides fedkin that an experiment's method names, for itself or its network."""
    dotted = re.compile(r"([^\W\d]\w*)[\w.]*:[^\W\d]\w*")  # package.module:attribute
    values = [value for value in config.tables["method"].values() if isinstance(value, str)]
    return sorted({match[1] for value in values if (match := dotted.fullmatch(value))} - {"fedkin"})


def check_sites(config: Config) -> None:
    """Raise FedkinError if an experiment has a single site, or never as many as ``federation.min_clients``.

    Without a number of sites there are as many as ``[federation]`` lists.
    """
    federation, sites = config.federation, config.federation.sites or len(config.federation.listed)
    if sites == 1:
        raise FedkinError("'federation.sites' is 1, and a federation has at least two sites; give the number of sites.")
    if sites and federation.min_clients > sites:
        raise FedkinError(
            f"'federation.min_clients' is {federation.min_clients}, but there are only {sites} sites "
            "('federation.sites'); lower it."
        )


def check_federated(config: Config) -> None:
    """Check that distant sites can run an experiment.

    Raises FedkinError if its method is a centralised baseline, for which sites would send their samples, or if it has
    clients fail or holds out samples for tests, which only simulations do.
    """
    if config.simulation.drop_rate or config.simulation.failures:
        name = "drop_rate" if config.simulation.drop_rate else "failures"
        raise FedkinError(
            f"'simulation.{name}' is for the local engine; sites of a real federation fail by themselves."
        )
    if getattr(config.scenario, "test_fraction", 0):
        raise FedkinError(
            "'simulation.test_fraction' is for simulations: sites of a real federation train on all rows of their "
            "files, and no model is tested; keep rows for tests in another file, and `fedkin predict` their classes."
        )
    if config.method.sends_samples():
        raise FedkinError(
            f"Method '{config.method_name}' has all samples sent to the server; it is a baseline for simulations, "
            "and no real federation runs it."
        )


# Certificates of a server and keys of sites, for encryption and authentication of messages.


def _check_host(host: str) -> None:
    """Raise FedkinError unless `host` is a host's name (RFC 1123) or an IPv4 address."""
    part = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
    # A name has a letter, so that 10.0.0.300 is none.
    is_name = re.fullmatch(rf"(?=.*[a-z])(?=.{{1,253}}$)({part}\.)*{part}", host, re.IGNORECASE | re.ASCII)
    if not is_name and not _is_address(host):
        raise FedkinError(
            f"{host!r} is no name of a host: give one such as fed.example.org, whose parts have 1 to 63 letters a to "
            "z, digits or hyphens, or an IPv4 address, without a port; one with other letters as registered, xn--..."
        )


def _is_address(host: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(host))
    except ValueError:
        return False


def new_certificates(hosts: Sequence[str]) -> dict[str, bytes]:
    """Create a certificate authority and a server's certificate, valid for two years, as four files with their keys.

    They are ``ca.crt``, ``ca.key``, ``server.crt`` and ``server.key``. `hosts` are names in ASCII or IPv4 addresses of
    the server.
    """
    names = [x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host) for host in hosts]
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    of_authority = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), False),
    ]
    of_server = [
        (x509.SubjectAlternativeName(names), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), False),
    ]
    unused = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
         "decipher_only"), False,
    )  # fmt: skip
    issuer = _named("fedkin federation")
    today = datetime.datetime.now(datetime.UTC)
    files = {}
    for name, key, extensions in (("ca", authority, of_authority), ("server", server, of_server)):
        signs = key is authority
        usage = x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, **unused)
        builder = x509.CertificateBuilder(
            issuer_name=issuer,
            subject_name=issuer if signs else _named("fedkin server"),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=today - datetime.timedelta(hours=1),  # for clocks that differ
            not_valid_after=today + datetime.timedelta(days=730),
        )
        for extension, critical in [*extensions, (usage, True)]:
            builder = builder.add_extension(extension, critical)
        certificate = builder.sign(authority, hashes.SHA384())
        files[f"{name}.key"] = _private(key, serialization.PrivateFormat.PKCS8)
        files[f"{name}.crt"] = certificate.public_bytes(serialization.Encoding.PEM)
    return files


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def write_certificates(folder: Path, certificates: Mapping[str, bytes]) -> None:
    """Write the files of `new_certificates`; raise FedkinError if ``ca.crt`` exists."""
    if (folder / "ca.crt").exists():
        raise FedkinError(f"{folder / 'ca.crt'} exists already; sites would not trust the server under a new one.")
    for name, content in certificates.items():
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


# Words of the templates.


_INSTALL = """\
   The experiment also needs code of {packages}: install it at the server and at every site; `packages` in `site.toml`
   says that the site trusts it.
"""
_INSECURE = {
    "connection": "insecure = true",
    "server_options": "--insecure",
    "site_options": "--insecure",
    "refused": (
        "The server $SERVER did not let this site in: it is not there, or has not noticed yet that the site was away."
    ),
    **dict.fromkeys(("without_keys", "and_by_key", "make_key", "certificates", "registration"), ""),
    "security": (
        "This folder was made with `--insecure`: nothing is encrypted, and anyone who can reach the port can take part."
    ),
}
_SECURE = {
    "connection": 'root-certificates = "$here/certificates/ca.crt"',
    "server_options": (
        "--ssl-ca-certfile certificates/ca.crt --ssl-certfile certificates/server.crt \\\n"
        "  --ssl-keyfile certificates/server.key --enable-supernode-auth"
    ),
    "site_options": '--root-certificates "$CA" --auth-supernode-private-key "$KEY"',
    "refused": (
        "The server $SERVER did not let this site in: it is not there, has not registered $KEY.pub, is not the server "
        "of $CA, or has not noticed yet that the site was away."
    ),
    "without_keys": " *without* `certificates/*.key`",
    "and_by_key": " and by key",
    "make_key": '[ -e "$KEY" ] || fedkin federation key "$KEY" || exit 1',
    "certificates": """\
`certificates/` was made with this folder for the server's name, and is valid for two years. `ca.crt`
is public; the two `.key` files are the server's alone, and `ca.key` is best kept elsewhere. To use certificates of your
own, replace `ca.crt`, `server.crt` and `server.key`.

""",
    "registration": """\
   The first start makes the site's key. Send `site.key.pub`, and nothing else, to the server, and
   register it there: `./flwr.sh supernode register site.key.pub federation`. Until then the site is refused, and
   tries again.""",
    "security": "Messages are encrypted (TLS), and only sites with a registered key can take part.",
}
