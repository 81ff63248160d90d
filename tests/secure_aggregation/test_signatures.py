"""Keys of secure sums that sites sign, and a server that would put its own in their place."""

import os
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedkin.core import FedkinError, State, task
from fedkin.core.files import FileError
from fedkin.deploy.app_folder import make_key
from fedkin.engines.flower_engine.grid import FlowerFederation
from fedkin.engines.site import Site
from fedkin.experiment.run_folder import restore_checkpoint, snapshot
from fedkin.secure_aggregation.client_tasks import SiteIdentity, Term, own_public_text, public_keys
from fedkin.secure_aggregation.masks import public_key
from fedkin.secure_aggregation.sums import Sum, summed
from nodes import federation, nodes_of

NAMES = ["a", "b", "c", "d"]
UNLISTED = "the key of client {} is signed by nobody that its own site file lists"


@task
def tell_rows(clients, payloads):
    return [{"rows": float(len(client))} for client in clients]


def keys(folder: Path) -> dict[str, str]:
    """Public keys of sites, whose private ones are made."""
    return {name: make_key(folder / name / "site.key").read_text().strip() for name in NAMES}


def sites(folder: Path, listed: dict[str, str], owners: str = "abcd") -> FlowerFederation:
    """A federation of four sites of 1, 2, 3 and 4 rows, with the keys of these owners."""
    made = [
        Site(
            name,
            folder / name,
            torch.ones(rows, 2),
            key=folder / owner / "site.key",
            listed=listed,
            packages=None,
        )
        for rows, (name, owner) in enumerate(zip(NAMES, owners, strict=True), 1)
    ]
    return federation(nodes_of(made))


def rows_of(fed: FlowerFederation) -> dict[int, Sum]:
    return summed(fed, tell_rows, fed.all(), [Term("rows")], attempts=2)


def test_sites_that_know_each_others_keys_sum_as_others_do(tmp_path: Path) -> None:
    fed = sites(tmp_path, keys(tmp_path))
    found = rows_of(fed)[0]
    assert fed.missing == {}
    assert float(found.totals["rows"]) == pytest.approx(10)
    assert all("signature" in key for key in fed.keys.values())


def test_a_server_cannot_put_its_own_key_in_a_sites_place(tmp_path: Path) -> None:
    listed = keys(tmp_path)
    fed = sites(tmp_path, listed)
    rows_of(fed)
    mine = os.urandom(32)
    key = {"key": torch.tensor(list(public_key(mine)), dtype=torch.uint8)}
    make_key(tmp_path / "server.key")
    forged = SiteIdentity(fed.run, tmp_path / "server.key").sign(public_key(mine))
    of_its_own = {part: fed.keys[1][part] for part in ("signer", "signature")}
    for signed in (of_its_own, forged, forged | {"signer": listed["b"]}, {}):
        fed.keys[1] = key | signed
        assert rows_of(fed) == {}
        assert {fed.missing[client] for client in (0, 2, 3)} <= {
            UNLISTED.format(1), "fewer than 3 clients to sum over", "others of its sum were lost"
        }  # fmt: skip
        assert fed.missing[0] == UNLISTED.format(1)


def test_a_run_that_resumes_still_has_the_signatures(tmp_path: Path) -> None:
    fed, state = sites(tmp_path, keys(tmp_path)), State(steps=1)
    rows_of(fed)
    again = sites(tmp_path, {name: key["signer"] for name, key in zip(NAMES, fed.keys.values(), strict=True)})
    restore_checkpoint(again, State, {**snapshot(fed, state)})
    assert [key["signature"] for key in again.keys.values()] == [key["signature"] for key in fed.keys.values()]
    assert float(rows_of(again)[0].totals["rows"]) == pytest.approx(10)


def test_one_site_cannot_be_several_clients_of_a_sum(tmp_path: Path) -> None:
    fed = sites(tmp_path, keys(tmp_path), "abbb")
    assert rows_of(fed) == {}
    assert fed.missing[0] == "the keys of clients 1 and 2 are of the same site"
    fed = sites(tmp_path / "2", keys(tmp_path / "2"), "abca")
    assert rows_of(fed) == {}
    assert fed.missing[0] == "the keys of clients 0 and 3 are of the same site"


def test_what_was_signed_for_another_run_or_key_is_worth_nothing(tmp_path: Path) -> None:
    listed = keys(tmp_path)
    own, other = (SiteIdentity("ab", tmp_path / name / "site.key", listed) for name in "ab")
    key = public_key(os.urandom(32))
    assert own.objection(0, {0: b"", 1: key}, {1: other.sign(key)}) is None
    before = SiteIdentity("aa", tmp_path / "b" / "site.key").sign(key)
    for signed in ({1: before}, {1: other.sign(key[::-1])}, {1: other.sign(key) | {"signature": "no"}}, {}):
        assert own.objection(0, {0: b"", 1: key}, signed) == UNLISTED.format(1)
    assert SiteIdentity("ab", None, {}).sign(key) == {}
    assert SiteIdentity("ab", None, {}).objection(0, {1: key}, {}) is None
    assert SiteIdentity("ab", None, listed).objection(0, {1: key}, {1: other.sign(key)}) is None
    text = own_public_text(tmp_path / "a" / "site.key")
    assert own.objection(0, {0: b"", 1: key}, {1: {"signer": text, "signature": own.sign(key)["signature"]}}) == (
        "the keys of clients 0 and 1 are of the same site"
    )


@pytest.mark.parametrize("line", ["", "site.key.pub", "ecdsa-sha2-nistp384 AAAA", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"])
def test_a_line_that_is_no_public_key_is_refused(line: str) -> None:
    with pytest.raises(FedkinError) as caught:
        public_keys({"north": line}, "[keys] in site.toml")
    words = "[keys] in site.toml has no public key of 'north'; give the line of its site.key.pub, ecdsa-..."
    assert str(caught.value).startswith(words)


def test_a_file_that_is_no_private_key_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path / "site.key")
    other = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    (tmp_path / "other.key").write_bytes(other)
    for name in ("absent.key", "site.key.pub", "other.key"):
        with pytest.raises(FileError):
            own_public_text(tmp_path / name)
