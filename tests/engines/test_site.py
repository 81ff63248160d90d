import json
import shutil
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError, task
from fedkin.core.client import LASTING
from fedkin.core.files import FileError
from fedkin.core.payload import is_number
from fedkin.core.seeds import uniform
from fedkin.core.tasks import _TASKS, known_task, trusted_packages
from fedkin.data.columns import shapes
from fedkin.data.preparation import arrange_columns
from fedkin.engines.site import Memory, Request, Site
from fedkin.experiment.registry import METHODS, resolve
from fedkin.features.extractors import extract
from fedkin.methods.samples.centroid_method import send_samples
from fedkin.privacy.budget import Account
from fedkin.secure_aggregation.client_tasks import send_key


@task
def count(clients, payloads):
    for client in clients:
        if payloads[0].get("change", True):
            client.state["count"] = client.state.get("count", torch.tensor(0)) + 1
    return [{"count": client.state.get("count", torch.tensor(0))} for client in clients]


def request(exchange: int = 1, settled: int = 0, **more: object) -> Request:
    return Request("f00d", 0, 5, exchange, settled, count.name, **more)


def site(folder: Path, name: str = "a", **more: object) -> Site:
    return Site(name, folder, torch.ones(4, 3), packages=None, **more)


def asked(one: Site, exchange: int, settled: int = 0, **payload: object) -> int:
    return int(one.answer(request(exchange, settled), payload)[0]["count"])


def test_it_remembers_from_one_exchange_to_the_next(tmp_path: Path) -> None:
    assert [asked(site(tmp_path), exchange) for exchange in (1, 2, 3)] == [1, 2, 3]
    assert site(tmp_path).client(request()).state == {}
    one = site(tmp_path / "given", begins_with={"count": torch.tensor(10)})
    assert [asked(one, 1), asked(one, 2)] == [11, 12]


def test_runs_that_begin_from_the_end_of_another_do_not_take_it_from_each_other(tmp_path: Path) -> None:
    """`fedkin cut` and `forget` at the server number their exchanges from the same end on."""
    one = site(tmp_path)
    assert [asked(one, exchange, exchange - 1) for exchange in (1, 2, 3)] == [1, 2, 3]
    for _ in range(3):
        with one.memory("f00d") as memory:
            memory.hold()
        assert [asked(one, exchange, exchange - 1) for exchange in (4, 5, 6)] == [4, 5, 6]
    assert one.memory("f00d").exchanges() == [3, 5, 6]
    assert asked(one, 2, 1) == 1, "the run itself went back before what was held"
    with one.memory("f00d") as memory:
        memory.hold()
    assert [asked(one, exchange, exchange - 1) for exchange in (3, 4, 5)] == [2, 3, 4]
    assert one.memory("f00d").exchanges() == [2, 4, 5]


@settings(max_examples=30)  # every one writes and syncs files
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_whatever_the_server_goes_back_to_it_is_as_if_it_had_gone_straight(tmp_path_factory, path) -> None:
    """The server does some steps, of which some are kept; the others are forgotten, and done again."""
    one = site(tmp_path_factory.mktemp("site"))
    settled = 0
    for steps, kept in path:
        for step in range(1, steps + 1):
            assert asked(one, settled + step, settled) == settled + step
        settled += steps if kept else 0
    assert asked(one, settled + 1, settled) == settled + 1
    assert len(one.memory("f00d").exchanges()) <= 5


@task
def hide(clients, payloads):
    """A lasting note, a passing one, and noise."""
    for client in clients:
        client.state["passing"] = client.state.get("passing", torch.tensor(0)) + 1
        client.state[LASTING + "asked"] = client.state.get(LASTING + "asked", torch.tensor(0)) + 1
    return [{"noise": uniform((3,), client.noise), **client.state} for client in clients]


@task(moves_data=True)
def give_all(clients, payloads):
    return [{"x": client.x} for client in clients]


def hidden(one: Site, exchange: int = 1, run: str = "f00d", **payload: object) -> dict[str, torch.Tensor]:
    return one.answer(Request(run, 0, 5, exchange, 0, hide.name), payload)[0]


def test_noise_of_a_real_site_does_not_follow_from_the_seed(tmp_path: Path) -> None:
    one = site(tmp_path / "simulated", simulated=True)
    expected = torch.rand(3, generator=one.client(request()).rng, dtype=torch.float64)
    assert hidden(one)["noise"].equal(hidden(one)["noise"])
    assert hidden(one)["noise"].equal(expected)
    found = [hidden(site(tmp_path / name))["noise"] for name in ("a", "b")]
    assert not found[0].equal(found[1])
    assert not found[0].equal(expected)


def test_the_same_question_gets_the_same_noise_and_any_other_another(tmp_path: Path) -> None:
    one = site(tmp_path)
    first = hidden(one, 1, what=1)["noise"]
    assert hidden(one, 1, what=1)["noise"].equal(first)
    assert hidden(site(tmp_path), 5, what=1)["noise"].equal(first)
    assert not hidden(one, 6, what=2)["noise"].equal(first)
    assert not hidden(one, 1, run="beef", what=1)["noise"].equal(first)
    path = tmp_path / "accounts" / "f00d" / "key"
    assert (path.stat().st_size, path.stat().st_mode & 0o077) == (32, 0)
    path.write_bytes(b"")
    with pytest.raises(FileError):
        hidden(one, 7, what=1)


def test_what_lasts_is_not_forgotten_when_a_run_goes_back(tmp_path: Path) -> None:
    one = site(tmp_path)
    replies = [hidden(one, exchange) for exchange in (1, 2, 3, 2, 1)]
    assert [int(reply["passing"]) for reply in replies] == [1, 2, 3, 2, 1]
    assert [int(reply[LASTING + "asked"]) for reply in replies] == [1, 2, 3, 4, 5]
    assert int(one.memory("f00d").state()[LASTING + "asked"]) == 5
    noise = hidden(one, 3, what=1)["noise"]
    shutil.rmtree(tmp_path / "f00d")
    again = hidden(one, 3, what=1)
    assert int(again[LASTING + "asked"]) == 7, "deleting a run's folder does not reset its account"
    assert again["noise"].equal(noise)


def test_a_real_site_does_not_send_its_samples_away_whoever_asks(tmp_path: Path) -> None:
    ask = Request("f00d", 0, 5, 1, 0, give_all.name)
    with pytest.raises(FedkinError, match=r"give_all' would have the site's samples sent away"):
        site(tmp_path).answer(ask, {})
    assert site(tmp_path, simulated=True).answer(ask, {})[0]["x"].shape == (4, 3)
    assert [name.moves_data for name in (send_samples, give_all, hide)] == [True, True, False]


@task(takes={"mu": is_number}, accounted=True)
def release(clients, payloads):
    return [{"sent": client.reserve(payload["mu"])} for client, payload in zip(clients, payloads, strict=True)]


def test_a_site_with_a_budget_does_only_what_is_accounted_for(tmp_path: Path) -> None:
    charged: list[tuple[str, float]] = []

    def reserve(run: str, mu: float) -> bool:
        charged.append((run, mu))
        return mu < 1

    one = site(tmp_path, account=SimpleNamespace(reserve=reserve))
    ask = Request("f00d", 0, 5, 1, 0, release.name)
    assert [one.answer(ask, {"mu": mu})[0]["sent"] for mu in (0.5, 2.0)] == [True, False]
    assert charged == [("f00d", 0.5), ("f00d", 2.0)]
    with pytest.raises(FedkinError, match=r"count. is not accounted for, and this site"):
        asked(one, 2)
    assert site(tmp_path / "other").answer(ask, {"mu": 1e9})[0]["sent"] is True


def test_with_a_budget_names_of_classes_stay_at_the_site(tmp_path: Path) -> None:
    kinds = ["rare", "usual"]
    assert site(tmp_path, classes=kinds).introduction(labels=True)["classes"] == kinds
    assert site(tmp_path, classes=kinds).introduction(labels=False)["classes"] == []
    one = site(tmp_path, y=torch.tensor([0, 1, 0, 1]), classes=kinds, account=Account(tmp_path, 1.0, 1e-5))
    known = {"name": "a", "identity": one.identity, "key": "", "features": [], "classes": []}
    assert one.introduction(labels=True) == known
    for guessed in (kinds, kinds[:1], ["other"]):
        assert one.client(request(classes=guessed)).y is None, "no answer depends on what is guessed of classes"


def test_what_a_site_with_a_budget_does_is_noisy_sums_and_what_tells_nothing() -> None:
    for name in METHODS:
        resolve("method", name)
    known = {task.name for task in _TASKS.values() if task.accounted and task.name.startswith("fedkin.")}
    private = "fedkin.methods.samples.kingraph.private_kingraph."
    assert known == {
        arrange_columns.name,
        shapes.name,
        "fedkin.methods.samples.kingraph.kingraph_space.receive_clusters",
        *(private + name for name in ("send_noisy_moments", "send_noisy_sums")),
        "fedkin.methods.samples.private_releases.send_shape",
        *("fedkin.methods.samples.feddp_kmeans." + name for name in ("send_products", "count_by_point", "send_sums")),
        "fedkin.methods.samples.centroid_method.assign_to_centroids",
    }


def test_only_tasks_of_named_packages_run() -> None:
    assert known_task("fedkin.data.columns.moments").name.endswith("moments")
    with (
        trusted_packages(["fedkin"]),
        pytest.raises(FedkinError, match=r"'os.path' is not from fedkin, so this client does not run it"),
    ):
        known_task("os.path.join")
    for name in ("fedkin.data.columns.sums", "fedkin.nothing.there", "nothing"):
        with pytest.raises(FedkinError, match="is not known here; client and server need the same version"):
            known_task(name)


def test_a_site_does_not_run_a_model_that_it_has_no_reason_to_trust(tmp_path: Path) -> None:
    asks = Request(**{**vars(request()), "task": "fedkin.methods.clients.client_method.losses", "classes": ["a"]})
    payload = {"module": {"name": "os:system", "shape": (3,), "classes": 2}, "models": torch.zeros(1, 8)}
    one = Site("a", tmp_path, torch.ones(4, 3), torch.zeros(4, dtype=torch.int64), ["a"])
    with pytest.raises(FedkinError, match=r"'os' is not from fedkin, so this client does not .* 'packages'"):
        one.answer(asks, payload)
    with trusted_packages(["fedkin"]), pytest.raises(FedkinError, match="'os' is not from fedkin"):
        extract("os:system", torch.ones(2, 3))


_OTHER_TYPES = [True, -1, 1.5, None, [1], {"a": 1}]
_NO_REQUESTS: list[str | dict[str, object]] = [
    "", "[]", "{}", '{"classes": ' + 100_000 * "[" + 100_000 * "]" + "}", {"more": 1},
    *({"run": run} for run in ("../../etc", "", "A1", "a" * 65, "a\n")),
    *({"task": name} for name in ("fedkin.\ud800.x", "fedkin." + "x" * 300, "fedkin.\n", "x\x00")),
    *({field.name: value} for field in fields(Request) for value in _OTHER_TYPES),
]  # fmt: skip


@pytest.mark.parametrize("content", _NO_REQUESTS, ids=range(len(_NO_REQUESTS)))
def test_nothing_else_is_a_request(content: str | dict[str, object]) -> None:
    text = content if isinstance(content, str) else json.dumps({**vars(request()), **content})
    with pytest.raises(FedkinError, match=r"^The request is not one of fedkin's\.$"):
        Request.from_json(text)


def test_a_damaged_identity_is_refused(tmp_path: Path) -> None:
    assert site(tmp_path).identity == site(tmp_path).identity != site(tmp_path / "other").identity
    for content in (b"", b"\xff\x00", b"0" * 31, b"G" * 32):
        (tmp_path / "identity").write_bytes(content)
        with pytest.raises(FileError):
            site(tmp_path).introduction(labels=False)


def test_a_full_disk_gets_a_sentence_and_harms_no_memory(tmp_path: Path, monkeypatch) -> None:
    one = site(tmp_path)
    asked(one, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", full)
        with pytest.raises(FedkinError, match="No space left on device; nothing half-written"):
            asked(one, 2)
    assert asked(one, 2) == 2
    assert Memory(tmp_path / "f00d").exchanges() == [1, 2]


@task
def spend(clients, payloads):
    for client in clients:
        client.state["lasting_spent"] = torch.ones(1)
    return [{} for _ in clients]


def modes(folder: Path) -> dict[str, str]:
    """Of a folder and of all in it but locks, which hold nothing."""
    found = [folder, *(path for path in folder.rglob("*") if path.name != "lock")]
    return {str(path.relative_to(folder)): f"{path.stat().st_mode & 0o777:o}" for path in found}


@pytest.mark.parametrize("exists", [True, False])
def test_what_a_site_keeps_is_its_owners_alone(exists: bool, tmp_path: Path) -> None:
    folder = tmp_path / "private"
    if exists:
        (folder / "ab").mkdir(parents=True)
        folder.chmod(0o755)
        (folder / "ab").chmod(0o755)
    site, expected = Site("a", folder, torch.rand(5, 3), packages=None), {".": "700", "identity": "600"}
    assert site.identity
    assert modes(folder) == ({"ab": "755"} if exists else {}) | expected
    site.answer(Request("ab", 0, 0, 1, 0, send_key.name), {})
    site.answer(Request("ab", 0, 0, 2, 0, spend.name), {})
    memory = {"ab": "700", "ab/memory-1.safetensors": "600", "accounts": "700", "accounts/ab": "700"}
    memory |= {f"accounts/ab/{name}": "600" for name in ("key", "lasting.safetensors")}
    assert modes(folder) == expected | memory
