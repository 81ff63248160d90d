"""Sites that join a run, leave it and come back, and what its operator sees of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

import planted
from fedkin.data.preparation import restore_preparation
from fedkin.deploy.server_app import serve
from fedkin.deploy.site_app import keep
from fedkin.engines.flower_engine.messages import TASK, read
from fedkin.engines.site import Site
from fedkin.experiment.config import Config, load_config
from nodes import Nodes, nodes_of

CLUSTERS = [0, 1, 0, 1, 0, 1]
CLASSES = [f"class {label}" for label in range(planted.CLASSES)]
FEDERATED = ["data.source=federation", "simulation.scenario=files", "simulation.engine=flower"]
LEARNING = ["method.module=perceptron", "method.rounds=5", "method.local_epochs=2"]


class KilledError(Exception):
    """Stands for the end of the server's process."""


def site(number: int, folder: Path, classes: list[str] = CLASSES, columns: int = planted.CLASSES) -> Site:
    one = planted.client(number, planted.OPPOSITE[CLUSTERS[number]])
    x = (3 * one.x + 9)[:, :columns]
    own = folder / f"site-{number}"
    return Site(f"site-{number}", own, x, one.y, classes, prepare=restore_preparation)


def grid(folder: Path, sites: int = 5) -> Nodes:
    return nodes_of([site(number, folder) for number in range(sites)], keep)


def config(method: str = "ifca", sites: int = 4, newcomers: int = 2, *more: str) -> Config:
    clusters = ["method.n_clusters=2", "method.start=kmeans"] if method == "ifca" else []
    number = [f"federation.sites={sites}", f"federation.newcomers={newcomers}", "federation.patience=1.0"]
    return load_config(method, [*FEDERATED, *LEARNING, *clusters, *number, *more])


class Comings:
    """Has partitions come and go before a round of training, and kills the server in one."""

    def __init__(self, grid: Nodes, away: dict[int, set[int]], killed: int | None = None) -> None:
        self.grid, self.away, self.killed, self.rounds = grid, away, killed, 0
        self.exchange = 0
        grid.troubles = self
        grid.away = away[0]

    def __call__(self, message: Message, partition: int) -> None:
        asked = read(message.content)
        if asked.text("kind") != TASK:
            return
        request = json.loads(asked.text("request"))
        if not request["task"].endswith(("choose_and_train", "client_method.train")):
            return
        if request["exchange"] != self.exchange:
            self.exchange, self.rounds = request["exchange"], self.rounds + 1
            if self.rounds == self.killed:
                raise KilledError
            self.grid.away = self.away.get(self.rounds, self.grid.away)


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def test_a_site_that_joins_is_assigned_in_the_next_round_and_keeps_its_model(tmp_path, capsys):
    nodes = grid(tmp_path)
    Comings(nodes, {0: {4}, 3: set()})
    serve(nodes, config("fedavg"), tmp_path / "out")
    assert [4 in record["answered"] for record in records(tmp_path / "out")] == [False, False, False, True, True]
    assert records(tmp_path / "out")[-1]["values"]["labels"] == [0, 0, 0, 0, 0, -1]
    assert "Site 'site-4' joins" in capsys.readouterr().out
    (own,) = (tmp_path / "site-4" / "results").iterdir()
    assert json.loads((own / "result.json").read_text())["result"]["cluster"] == 0
    ledger = json.loads((tmp_path / "out" / "federation.json").read_text())
    assert list(ledger["sites"]) == [f"site-{number}" for number in range(5)]


def test_a_server_that_is_killed_after_somebody_joined_goes_on_as_if_it_had_not_been(tmp_path):
    straight = grid(tmp_path / "a")
    Comings(straight, {0: {4}, 2: set()})
    serve(straight, config("fedavg"), tmp_path / "straight")
    for killed in (3, 4):
        folder, out = tmp_path / f"b{killed}", tmp_path / f"killed-{killed}"
        nodes = grid(folder)
        Comings(nodes, {0: {4}, 2: set()}, killed)
        with pytest.raises(KilledError):
            serve(nodes, config("fedavg"), out)
        nodes.troubles = None
        serve(nodes, config("fedavg"), out)
        for name in ("records.jsonl", "models.safetensors"):
            assert (out / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


@pytest.mark.parametrize(
    ("classes", "columns", "newcomers", "sentence"),
    [
        ([*CLASSES[:-1], "new"], 6, 1, "Refused: Site 'site-4' has the class 'new', which the run does not know."),
        (CLASSES, 4, 1, "Refused: Site 'site-4' has samples of shape (4,), unlike those that take part."),
        (CLASSES, 6, 0, "Refused: The run began without site 'site-4', so it cannot take part now."),
    ],
)  # fmt: skip
def test_a_site_that_does_not_fit_is_refused(classes, columns, newcomers, sentence, tmp_path, capsys):
    sites = [*(site(number, tmp_path) for number in range(4)), site(4, tmp_path, classes, columns)]
    nodes = nodes_of(sites, keep)
    Comings(nodes, {0: {4}, 2: set()})
    serve(nodes, config("fedavg", 4, newcomers), tmp_path / "out")
    assert sentence in capsys.readouterr().out
    assert sentence.removeprefix("Refused: ") in [
        one for r in records(tmp_path / "out") for one in r.get("refused", [])
    ]


def test_columns_of_newcomers_are_encoded_as_everyones(tmp_path):
    sites = []
    for number in range(4):
        one = planted.client(number, planted.OPPOSITE[CLUSTERS[number]])
        features = [f"x{at}" for at in range(one.x.shape[1])]
        own = tmp_path / f"site-{number}"
        x = (3 * one.x + 9).double() if number < 3 else (3 * one.x + 9).double().flip(1)
        names = features if number < 3 else features[::-1]
        sites.append(Site(f"site-{number}", own, x.float(), one.y, CLASSES, names, prepare=restore_preparation))
    nodes = nodes_of(sites, keep)
    Comings(nodes, {0: {3}, 2: set()})
    serve(nodes, config("ifca", 3, 1), tmp_path / "out")
    assert 3 in records(tmp_path / "out")[-1]["answered"]
    assert np.isfinite(records(tmp_path / "out")[-1]["values"]["loss"])
