from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from fedkin.core.files import FileError
from fedkin.deploy.certificates import make_key
from fedkin.secure.signatures import own_public_text, public_text


def test_both_halves_of_a_key_and_flowers_form_of_it_have_one_text(tmp_path: Path) -> None:
    written = make_key(tmp_path / "site.key").read_bytes()
    pem = load_ssh_public_key(written).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert own_public_text(tmp_path / "site.key") == public_text(pem) == written.decode().strip()
    assert public_text(b"") == public_text(pem[:50]) == ""


def test_a_file_that_is_no_private_key_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^Cannot read .*site.key: No such file"):
        own_public_text(tmp_path / "site.key")
    make_key(tmp_path / "site.key")
    with pytest.raises(FileError, match=r"site.key.pub is no private key as `fedkin federation key` writes it.$"):
        own_public_text(tmp_path / "site.key.pub")
