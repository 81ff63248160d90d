import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedkin.core import Client, FedkinError, task
from fedkin.core.payload import pack
from fedkin.data.options import TableOptions
from fedkin.data.preparation import encoding_of, prepare
from fedkin.engines.flower_engine import grid as grid_module
from fedkin.engines.local import LocalFederation
from fedkin.engines.site import Memory, Site
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method
from fedkin.experiment.run_folder import restore_checkpoint, snapshot
from fedkin.report.measures import privacy_of_samples
from golden import corners
from nodes import RUN, contents, federation, nodes_of, sites_of

METHODS: dict[str, dict[str, Any]] = {
    "kfed": {"n_clusters": 3, "local_clusters": 2},
    "ccfc": {"n_clusters": 3, "pretrain_rounds": 2, "cluster_rounds": 2, "batch_size": 16, "latent": 8},
    "fedcref": {"local_epochs": 2, "rounds": 1, "min_steps": 5, "n_clusters": 3, "max_iterations": 2},
    "ocfl": {"rounds": 4},
}


@task
def remember(clients, payloads):
    for client in clients:
        client.state["asked"] = client.state.get("asked", torch.tensor(0)) + 1
    return [{"asked": client.state["asked"], "drawn": torch.rand(2, generator=client.rng)} for client in clients]


@task
def fail(clients, payloads):
    raise RuntimeError("the secret of the site")


def finish(method: Any, fed: Any) -> dict[str, Any]:
    prepare(fed)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    return {"result": method.result(state), "exchange": fed.exchange}


@pytest.mark.parametrize("name", ["feddp-kmeans", "kin-graph"])
def test_noise_of_real_sites_follows_from_their_secrets(name: str, tmp_path: Path) -> None:
    fed = federation(nodes_of(sites_of(corners(4), tmp_path)))
    prepare(fed, TableOptions(private=True))
    method = checked_method(registry.resolve("method", name), {"epsilon": 100.0, "n_clusters": 3})
    _, record = method.step(fed, method.init(fed))
    assert record.values["noise_source"] == "the sites' secrets"
    assert "seed" not in str(privacy_of_samples([{"values": record.values}]))


@pytest.mark.parametrize("name", ["kfed", "fedcref", "ccfc", "ocfl"])
def test_no_sample_and_no_label_crosses(name: str, tmp_path: Path) -> None:
    made = corners(4)
    grid = nodes_of(sites_of(made, tmp_path, classes=["a", "b", "c"]))
    replies = []
    pull = grid.pull_messages
    grid.pull_messages = lambda ids: [replies.append(one) or one for one in pull(ids)]  # type: ignore[func-returns-value, method-assign]
    fed = federation(grid, classes=["a", "b", "c"] if name == "ocfl" else [])
    finish(checked_method(registry.resolve("method", name), METHODS[name]), fed)
    crossed = contents([*grid.sent, *replies])
    for client, remembered in ((one, Memory(tmp_path / str(one.id) / RUN).state() or {}) for one in made):
        encoding = encoding_of(remembered)
        assert encoding is not None
        assert encoding.mean.numpy().tobytes() in crossed  # what does cross would be found
        scaled = encoding.scaled(client.x)
        for rows in (client.x, scaled.float()):
            assert not any(row.numpy().tobytes() in crossed for row in rows)
        assert client.y is not None
        assert client.y.numpy().tobytes() not in crossed


def test_a_server_that_goes_back_finds_sites_as_they_were(tmp_path: Path) -> None:
    grid = nodes_of(sites_of(corners(2), tmp_path))
    fed = federation(grid)
    for _ in range(3):
        fed.ask(remember, fed.all())
    fed.settled = 3
    straight = [fed.ask(remember, fed.all()) for _ in range(3)]
    again = federation(grid)
    again.exchange = again.settled = 3
    repeated = [again.ask(remember, again.all()) for _ in range(3)]
    assert [int(reply[0]["asked"]) for reply in repeated] == [4, 5, 6]
    for one, other in zip(straight, repeated, strict=True):
        assert all(torch.equal(one[i]["drawn"], other[i]["drawn"]) for i in (0, 1))
    assert Memory(tmp_path / "0" / RUN).exchanges() == [3, 4, 5, 6]


def test_stopped_after_any_step_a_method_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    method = checked_method(registry.resolve("method", "ccfc"), METHODS["ccfc"])
    grid = nodes_of(sites_of(corners(4), tmp_path))
    fed = federation(grid)
    prepare(fed)
    state, lost = method.init(fed), True
    while not state.finished:
        kept = snapshot(fed, state)
        fed.settled = fed.exchange
        state, _ = method.step(fed, state)
        if lost:  # every second step is done, forgotten, and done again
            fed = federation(grid)
            state = restore_checkpoint(fed, method.state_type, kept)
            state, _ = method.step(fed, state)
        lost = not lost
    straight = finish(method, LocalFederation(corners(4), 3))["result"]
    found = method.result(state)
    assert all(torch.equal(one, pack(found)[0][key]) for key, one in pack(straight)[0].items())


def test_who_is_not_there_is_missing_and_named(tmp_path: Path) -> None:
    grid = nodes_of(sites_of(corners(3), tmp_path))
    fed = federation(grid, timeout=0.5)
    grid.away = {1}
    grid.troubles = lambda message, partition: Error(5, "") if partition == 2 else None
    assert list(fed.ask(remember, fed.all())) == [0]
    assert fed.missing == {1: "not connected", 2: "Flower could not reach it (code 5)"}
    grid.troubles, grid.away = None, {0, 1}
    assert list(fed.ask(remember, fed.all())) == [2]
    grid.away = {1}
    grid.troubles = lambda message, partition: "lost" if partition == 2 else None
    assert list(fed.ask(remember, fed.all())) == [0]
    assert fed.missing[2] == "no reply in 0.5 seconds"


def test_a_site_that_is_started_anew_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_module, "_LOOK_EVERY", 0.1)
    grid = nodes_of(sites_of(corners(2), tmp_path))
    fed = federation(grid, timeout=20)
    fed.ask(remember, fed.all())
    lost = []

    def once(message: Message, partition: int) -> Any:
        if partition == 1 and not lost:
            lost.append(message)
            grid.restart(1)
            return "killed"
        return None

    grid.troubles = once
    replies = fed.ask(remember, fed.all())
    assert lost
    assert [int(reply["asked"]) for reply in replies.values()] == [2, 2]
    assert not fed.missing


def test_a_bug_at_a_site_tells_the_server_its_kind_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fed = federation(nodes_of(sites_of(corners(2), tmp_path)))
    with pytest.raises(FedkinError, match=r"failed at all 2 clients asked: .*\(RuntimeError; its log says more\)\.$"):
        fed.ask(fail, fed.all())
    assert fed.missing[0] == "the task failed there (RuntimeError; its log says more)"
    assert fed.ask(fail, {0: {}}) == {}  # one client alone may have data that it does not stand
    assert "the secret of the site" in caplog.text


def test_a_reply_with_anything_but_safetensors_is_refused_and_not_opened(tmp_path: Path) -> None:
    opened = tmp_path / "opened"

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (opened,)

    evil = pickle.dumps(Bomb())
    forms = [
        {"payload": ArrayRecord({"payload": Array("uint8", (len(evil),), "safetensors", evil)})},
        {"payload": ArrayRecord({"payload": Array("object", (1,), "numpy.ndarray", evil)})},
        {"payload": ArrayRecord({"more": Array("uint8", (len(evil),), "safetensors", evil)})},
        {"payload": ConfigRecord({"pickle": evil})},
        {"other": ConfigRecord({"pickle": evil})},
    ]
    for records in forms:
        grid = nodes_of(sites_of(corners(2), tmp_path / "sites"))
        fed = federation(grid)
        answer = grid.app

        def evil_at_one(message: Message, context: Any, records: Any = records, answer: Any = answer) -> Message:
            if context.node_config["partition-id"] == 1:
                content = RecordDict({"fedkin": ConfigRecord({}), **records})
                if "other" in records:
                    del content["fedkin"]
                return Message(content, reply_to=message)
            return answer(message, context)

        grid.app = evil_at_one
        assert list(fed.ask(remember, fed.all())) == [0]
        assert fed.missing[1].startswith("its reply was refused: ")
        assert not opened.exists()


def test_results_are_handed_out_and_whoever_did_not_keep_them_is_named(tmp_path: Path) -> None:
    kept = {}

    def keep(site: Site, request: Any, payload: Any) -> None:
        if request.client == 1:
            raise FedkinError("No space left.")
        kept[site.name] = payload["x"].tolist()

    fed = federation(nodes_of(sites_of(corners(3), tmp_path), keep))
    assert fed.conclude({i: {"x": torch.tensor([i])} for i in range(3)}) == {1: "No space left."}
    assert kept == {"site-0": [0], "site-2": [2]}


def test_the_server_says_whom_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_module, "_REPORT_EVERY", 0.2)
    nodes = nodes_of(sites_of([Client(i, torch.ones(4, 3)) for i in range(3)], tmp_path))
    fed, reported = federation(nodes, timeout=1.5), list[str]()
    monkeypatch.setattr(fed.roster, "report", reported.append)
    nodes.troubles = lambda message, partition: "lost" if partition == 1 else None
    fed.ask(remember, fed.all())
    assert len(reported) > 1
    assert all(re.fullmatch(r"Waiting for site-1, for \d s so far", line) for line in reported)
