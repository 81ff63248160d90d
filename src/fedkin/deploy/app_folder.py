"""App folders of Flower that ``fedkin federation init`` writes."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jinja2 import Environment, PackageLoader, StrictUndefined

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
    trial = load_config(experiment, [*FEDERATED, *settings, *number]).federation
    sites = trial.sites or len(trial.listed) or 3
    config = load_config(experiment, [*FEDERATED, *settings, f"federation.sites={sites}"])
    check_federated(config)
    label = "(?!-)[a-zA-Z0-9-]{1,63}(?<!-)"
    try:
        name: x509.GeneralName = x509.IPAddress(ipaddress.IPv4Address(host))
    except ValueError:
        # Names of hosts (RFC 1123) have a letter, and ASCII alone.
        if len(host) > 253 or not re.fullmatch(rf"(?=.*[a-zA-Z]){label}(\.{label})*", host):
            raise FedkinError(f"{host!r} is no name of a host, such as fed.example.org, and no IPv4 address.") from None
        name = x509.DNSName(host)
    templates = Environment(
        loader=PackageLoader("fedkin.deploy"), trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    templates.filters["toml"] = toml_text
    words = {
        "method": config.method_name, "sites": sites, "secure": not insecure, "host": host, "port": port,
        "listen": host if host.startswith("127.") or host == "localhost" else "0.0.0.0",
        "packages": own_packages(config), "columns": config.data.of_columns,
    }  # fmt: skip
    for path, template in _APP.items():
        write_atomically(folder / path, templates.get_template(template).render(words))
        if path.endswith(".sh") and path != "environment.sh":  # which the others read
            (folder / path).chmod(0o755)
    write_atomically(folder / "experiment.toml", config.to_toml())
    for file, content in ({} if insecure else new_certificate(name)).items():
        (write_secret if file.endswith(".key") else write_atomically)(folder / "certificates" / file, content)


def own_packages(config: Config) -> list[str]:
    """Return the packages besides fedkin that an experiment's method names, for itself or its network."""
    dotted = re.compile(r"([^\W\d]\w*)[\w.]*:[^\W\d]\w*")  # package.module:attribute
    values = [value for value in config.tables["method"].values() if isinstance(value, str)]
    return sorted({match[1] for value in values if (match := dotted.fullmatch(value))} - {"fedkin"})


def check_federated(config: Config) -> None:
    """Raise FedkinError if distant sites cannot run an experiment.

    That is if it has a single site; if its method is a centralised baseline, for which sites would send their samples;
    or if it has clients fail or holds out samples for tests, which only simulations do.
    """
    federation, simulation = config.federation, config.simulation
    if (federation.sites or len(federation.listed)) == 1:
        raise FedkinError("'federation.sites' is 1, and a federation has at least two sites; give the number of sites.")
    simulated = {
        "drop_rate": simulation.drop_rate,
        "failures": simulation.failures,
        "test_fraction": getattr(config.scenario, "test_fraction", 0),
    }
    if names := [name for name, value in simulated.items() if value]:
        raise FedkinError(
            f"'simulation.{names[0]}' is for simulations: real sites fail by themselves, and train on all their rows."
        )
    if config.method.sends_samples():
        raise FedkinError(
            f"Method '{config.method_name}' has all samples sent to the server; it is a baseline for simulations, "
            "and no real federation runs it."
        )


# Certificates of a server and keys of sites, for encryption and authentication of messages.


def new_certificate(name: x509.GeneralName) -> dict[str, bytes]:
    """Create a server's key and a certificate of its `name` that it signs itself, valid for two years, as files."""
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fedkin server")])
    today = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=today - datetime.timedelta(hours=1),  # for clocks that differ
        not_valid_after=today + datetime.timedelta(days=730),
    )
    # Sites trust it as its own authority.
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=False)
    public = builder.sign(key, hashes.SHA384()).public_bytes(serialization.Encoding.PEM)
    return {"ca.crt": public, "server.crt": public, "server.key": _private(key, serialization.PrivateFormat.PKCS8)}


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


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
