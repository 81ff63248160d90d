import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.cli.build import build_fab_from_disk

from fedkin.cli import main
from fedkin.deploy.app_folder import init, make_key

FILES = ("ca.crt", "server.crt", "server.key")


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    return printed


MISTAKES = {
    "kfedd": "did you mean 'kfed'",
    "kfed --set method.n_cluster=3": "did you mean 'method.n_clusters'",
    "kfed --set simulation.drop_rate=0.1": "'simulation.drop_rate' is for simulations",
    "ifca --set simulation.test_fraction=0.2": "'simulation.test_fraction' is for simulations",
    "kfed --sites 1": "'federation.sites' is 1, and a federation has at least two sites",
    "kfed --set federation.clients=['a']": "'federation.sites' is 1",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_end_in_a_sentence_and_leave_nothing(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MISTAKES[words] in refused(capsys, "federation", "init", tmp_path / "new", *words.split())
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_key(tmp_path / "key")
    assert "is not an empty folder; give a new one" in refused(capsys, "federation", "init", tmp_path)
    assert "exists already; a site keeps its key" in refused(capsys, "federation", "key", tmp_path / "key")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.pub"]


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
def test_sites_get_the_app_and_nothing_that_is_the_servers(tmp_path: Path) -> None:
    app = tmp_path / "app"
    init(app, "kfed", 3, [], "127.0.0.1", 8000, False)
    sent = packed(app)
    assert sent == {"pyproject.toml", "experiment.toml", "site.example.toml", *PACKAGE}
    for folder in ("results", "another"):
        (app / folder).mkdir()
        for name in ("federation.json", "result.json", "records.jsonl", "config.toml"):
            (app / folder / name).write_text("{}")
    deep = app / "flower" / "apps" / "/".join("abcdefghijk")
    deep.mkdir(parents=True)
    (deep / "server.py").write_text("")
    assert packed(app) == sent


PACKAGE = {f"fedkin_app/{name}.py" for name in ("__init__", "server", "client")}


def packed(app: Path) -> set[str]:
    """Names of the files that Flower sends to the sites."""
    with ZipFile(BytesIO(build_fab_from_disk(app))) as fab:
        return {name for name in fab.namelist() if not name.startswith(".info/")}


def test_a_site_has_a_key_that_only_it_can_read(tmp_path: Path) -> None:
    public = make_key(tmp_path / "site.key")
    private = load_ssh_private_key((tmp_path / "site.key").read_bytes(), None)
    assert private.public_key() == load_ssh_public_key(public.read_bytes())
    assert (tmp_path / "site.key").stat().st_mode & 0o077 == 0


def test_a_client_that_trusts_the_servers_certificate_reaches_its_host_and_no_other(tmp_path: Path) -> None:
    for host, reached in (("127.0.0.1", True), ("10.0.0.7", False)):
        init(tmp_path / host, "kfed", 3, [], host, 8000, False)
        root, chain, key = ((tmp_path / host / "certificates" / n).read_bytes() for n in FILES)
        server = grpc.server(ThreadPoolExecutor(1))
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, chain)]))
        server.start()
        with grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(root)) as channel:
            ready = grpc.channel_ready_future(channel)
            if reached:
                ready.result(20)
            else:
                with pytest.raises(grpc.FutureTimeoutError):
                    ready.result(2)
        server.stop(None)


@pytest.mark.parametrize("host", [f"{'a' * 40}.{'b' * 32}.org", "xn--krankenhaus-mnchen-y6b.de"])
def test_every_name_of_a_host_is_in_the_certificate_and_the_scripts(host: str, tmp_path: Path) -> None:
    init(tmp_path / "app", "kfed", 3, [], host, 8443, False)
    server = x509.load_pem_x509_certificate((tmp_path / "app" / "certificates" / "server.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [host]
    assert f"{host}:8443" in (tmp_path / "app" / "start-site.sh").read_text()
    assert f"{host}:$api" in (tmp_path / "app" / "flwr.sh").read_text()
    assert (tmp_path / "app" / "certificates" / "server.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "host", ["a" * 77, "", "münchen.de", "$(id)", 'x"', "x\nid", "https://x.org", "x.org:8000", "-x.org", "10.0.0.300"]
)
def test_what_is_no_name_of_a_host_is_refused_and_leaves_nothing(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = refused(capsys, "federation", "init", tmp_path / "app", "kfed", "--host", host)
    assert f"{host!r} is no name of a host" in found.replace("\n", " ")
    assert not (tmp_path / "app").exists()


def test_the_servers_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    init(tmp_path / "app", "kfed", 2, ["method.n_clusters=2"], "127.0.0.1", 8000, insecure=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "flower-superlink").write_text("#!/bin/sh\necho started\n")
    (tmp_path / "bin" / "flower-superlink").chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    script = str(tmp_path / "app" / "start-server.sh")
    said = subprocess.run(["sh", script], env=path, capture_output=True, text=True, check=True).stdout
    assert said == "started\n"
    assert (tmp_path / "app" / "server.db").stat().st_mode & 0o777 == 0o600
