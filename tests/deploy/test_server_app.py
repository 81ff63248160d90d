"""A run on sites that answer in this process: begun, gone on with, refused, and what its sites keep."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Context, Message
from four_sites import OPTIONS, config, grid

import planted
from fedkin.core import FedkinError
from fedkin.data.preparation import restore_preparation
from fedkin.data.profile import count_transitions
from fedkin.deploy.server_app import serve
from fedkin.deploy.site_app import keep, read_site
from fedkin.engines.flower_engine.messages import HELLO, TASK, content, read
from fedkin.engines.site import Site
from fedkin.experiment.config import load_config
from fedkin.experiment.numbering import name_clusters, read_names
from fedkin.experiment.prediction import predict
from fedkin.experiment.revision import cut, forget
from fedkin.experiment.run import execute
from fedkin.experiment.run_folder import LEDGER, load_found, run_config
from nodes import Nodes, nodes_of


def kept(folder: Path, site: int) -> Path:
    (run,) = (folder / f"site-{site}" / "results").iterdir()
    return run


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("records.jsonl", "result.json", "models.safetensors")}


def test_every_site_keeps_its_clusters_model_which_serves_it_as_in_a_run_here(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [*OPTIONS, "method.clustering_round=2"]
    serve(grid(data, tmp_path), config("hierarchical", *settings), tmp_path / "out")
    local = [f"data.source={data}", "simulation.scenario=files", *settings]
    here = execute(load_config("hierarchical", local), tmp_path / "here").folder
    clusters = [int(line.split(",")[1]) for line in (here / "clients.csv").read_text().splitlines()[1:]]
    assert planted.same_partition(clusters, [0, 1, 0, 1])
    said = [line for line in capsys.readouterr().out.splitlines() if "The site is in" in line]
    assert sorted(said) == [f"fedkin: The site is in cluster {cluster} of 2 clusters." for cluster in sorted(clusters)]
    for site, cluster in enumerate(clusters):
        own, file = kept(tmp_path, site), str(data / f"site-{site}.npz")
        assert json.loads((own / "result.json").read_text())["result"]["cluster"] == cluster
        assert predict(own, file, client=0) == predict(here, file, client=site)


def test_a_run_is_cut_and_forgets_more_than_once(tmp_path: Path) -> None:
    """Each time its sites begin from the end of the first run, whatever they did since."""
    folder, sites = tmp_path / "tables", []
    folder.mkdir()
    rng = np.random.default_rng(0)
    for site in range(4):
        kind = rng.integers(0, 3, 60)
        rows = [f"{20 * one + rng.normal():.2f},{'abc'[one]}\n" for one in kind]
        (folder / f"site-{site}.csv").write_text("age,ward\n" + "".join(rows))
        file = tmp_path / f"site-{site}.toml"
        file.write_text(f'name = "site-{site}"\ndata = "tables/site-{site}.csv"\nfolder = "site-{site}"\n')
        sites.append(read_site(file))
    own = ["evaluation.map=none", "method.common_micro_clusters=false"]
    serve(nodes_of(sites, keep), config("kin-graph", *own), tmp_path / "out")
    outcome = forget(tmp_path / "out", ["site-3"], tmp_path / "without")
    serve(nodes_of(sites, keep), run_config(outcome.folder), tmp_path / "without")
    for count in (2, 4):
        assert cut(tmp_path / "out", tmp_path / f"cut-{count}", count) is None
        serve(nodes_of(sites, keep), run_config(tmp_path / f"cut-{count}"), tmp_path / f"cut-{count}")
        local = [f"data.source={folder}", "simulation.scenario=files", f"method.n_clusters={count}", *own]
        local.append(f"evaluation.like={str(tmp_path / 'out')!r}")
        here = execute(load_config("kin-graph", local), tmp_path / f"here-{count}").folder
        for site in range(4):
            text = (here / "labels" / f"site-{site}.csv").read_text()
            assert (kept(tmp_path, site) / "labels" / f"site-{site}.csv").read_text() == text


def test_next_month_clusters_keep_their_numbers_at_every_site(tmp_path: Path) -> None:
    """The server matches them by a sum of tables, from which small cells are left out; it sees no site's own."""
    rng, centres = np.random.default_rng(0), ((20, 50), (50, 90), (85, 60))

    def month(kinds: dict[int, int], out: str, *more: str) -> list[dict[int, set[int]]]:
        """Give four sites so many rows of each kind, run, and return the clusters of each kind at each site."""
        sites, found = [], []
        truth = [kind for kind, count in kinds.items() for _ in range(count)]
        for site in range(4):
            rows = [rng.normal(centres[kind], 3) for kind in truth]
            file = tmp_path / f"site-{site}.toml"
            file.with_suffix(".csv").write_text("age,weight\n" + "".join(f"{a:.3f},{b:.3f}\n" for a, b in rows))
            file.write_text(f'name = "site-{site}"\ndata = "site-{site}.csv"\nfolder = "site-{site}"\n')
            sites.append(read_site(file))
        serve(nodes_of(sites, keep), config("kfed", *more), tmp_path / out)
        for site in range(4):
            runs = (tmp_path / f"site-{site}" / "results").iterdir()
            labels = max(runs, key=lambda path: path.stat().st_mtime) / "labels" / f"site-{site}.csv"
            clusters = [int(line.split(",")[1]) for line in labels.read_text().splitlines()[1:]]
            found.append({kind: {c for k, c in zip(truth, clusters, strict=True) if k == kind} for kind in kinds})
        return found

    first = month({0: 30, 1: 30, 2: 30}, "nov", "method.n_clusters=3")
    numbers = {kind: cluster for kind, (cluster,) in first[0].items()}
    assert first == [{kind: {cluster} for kind, cluster in numbers.items()}] * 4
    stays, other, _ = sorted(numbers, key=numbers.__getitem__, reverse=True)  # none of two has its own number
    name_clusters(tmp_path / "nov", [f"{numbers[stays]}=old"])
    like = f"evaluation.like={str(tmp_path / 'nov')!r}"
    assert month({stays: 40, other: 34}, "dec", "method.n_clusters=2", like) == [
        {kind: {numbers[kind]} for kind in (stays, other)}
    ] * 4  # fmt: skip
    changes = json.loads((tmp_path / "dec" / "changes.json").read_text())
    assert (changes["rows"], changes["moved"]) == (4 * 74, 0)
    assert [each["now"] > 0 for each in changes["clusters"]] == [False, True, True]
    assert read_names(tmp_path / "dec") == {numbers[stays]: "old"}
    asked, table = json.loads((tmp_path / "dec" / "messages.json").read_text()), count_transitions.name
    assert any(name.endswith(f":{table}") for name in asked)
    assert table not in asked


def test_a_site_keeps_within_its_own_budget_from_one_run_to_the_next(data: Path, tmp_path: Path, capsys) -> None:
    def nodes() -> Nodes:
        made = []
        for i in range(4):
            file = tmp_path / f"{i}.toml"
            file.write_text(f'name="site-{i}"\ndata="{data}/site-{i}.npz"\nfolder="site-{i}"\nepsilon=500.0')
            made.append(read_site(file))
        return nodes_of(made, keep)

    asks = config("kin-graph", "method.epsilon=500", "method.n_clusters=2")
    with pytest.raises(FedkinError, match=r"'fedkin\.data\.columns\.moments' is not .* with"):
        serve(nodes(), asks, tmp_path / "scaled")
    asks = config("kin-graph", "method.epsilon=500", "method.n_clusters=2", "data.scaling=none")
    serve(nodes(), asks, tmp_path / "out")
    assert json.loads((tmp_path / "site-0" / "account.json").read_text())["epsilon"] == pytest.approx(500.0)
    with pytest.raises(FedkinError, match=r"All clients have spent their budgets .* so no client sends anything"):
        serve(nodes(), asks, tmp_path / "again")
    with pytest.raises(FedkinError, match="is not accounted for, and this site has"):
        serve(nodes(), config("kfed", "method.n_clusters=2", "data.scaling=none"), tmp_path / "other")


def test_a_server_that_was_stopped_goes_on_and_leaves_the_same(data: Path, tmp_path: Path) -> None:
    serve(grid(data, tmp_path / "a"), config("fedavg", *OPTIONS), tmp_path / "straight")
    nodes, chosen, out = grid(data, tmp_path / "b"), config("fedavg", *OPTIONS), tmp_path / "stopped"

    def stop(message: Any, partition: int) -> None:
        if (out / "records.jsonl").exists() and len((out / "records.jsonl").read_text().splitlines()) == 2:
            raise KeyboardInterrupt

    nodes.troubles = stop
    with pytest.raises(KeyboardInterrupt):
        serve(nodes, chosen, out)
    ledger = json.loads((out / LEDGER).read_text())
    assert list(ledger["sites"]) == [f"site-{i}" for i in range(4)]
    serve(grid(data, tmp_path / "b"), chosen, out)
    assert files(out) == files(tmp_path / "straight")
    assert json.loads((out / LEDGER).read_text()) == ledger


def test_names_stay_with_their_keys_in_a_run_that_resumes(data: Path, tmp_path: Path, capsys) -> None:
    once, out = config("fedavg", *OPTIONS, "method.rounds=1", "federation.patience=0.5"), tmp_path / "out"
    serve(grid(data, tmp_path), once, out)
    ledger = json.loads((out / LEDGER).read_text())
    assert ledger["keys"] == {}
    assert (out / LEDGER).stat().st_mode & 0o077 == 0
    (out / LEDGER).write_text(json.dumps(ledger | {"keys": {"site-0": "ecdsa-sha2-nistp384 AAAA"}}))
    serve(grid(data, tmp_path), once, out)
    assert "A node with another key says that it is site 'site-0'" in capsys.readouterr().out
    assert json.loads((out / LEDGER).read_text())["keys"] == {"site-0": "ecdsa-sha2-nistp384 AAAA"}


WORDS = (["no", "unsure", "yes"], ["no", "yes"], ["no", "yes"], ["no", "yes"])
"""Labels of four sites, of which one has one more."""


def answers(folder: Path) -> tuple[Path, Nodes]:
    """Yes and no at four sites, two of which mean the opposite: a file each, and the nodes."""
    rng, sites = np.random.default_rng(0), []
    for i, words in enumerate(WORDS):
        x = rng.normal(size=(120, 3)).astype("float32")
        true = (x[:, 0] > 0) ^ (i % 2 == 1)
        names = np.array([words[0], words[-1]])[true.astype(int)]
        (folder / "files").mkdir(parents=True, exist_ok=True)
        np.savez(folder / "files" / f"site-{i}.npz", x=x, y=names)
        y = torch.tensor([words.index(name) for name in names])
        own = folder / f"site-{i}"
        sites.append(Site(f"site-{i}", own, torch.from_numpy(x), y, list(words), prepare=restore_preparation))
    return folder / "files", nodes_of(sites, keep)


def test_classes_stay_as_they_are_in_a_run_that_resumes_without_a_site(tmp_path: Path) -> None:
    nodes, out = answers(tmp_path)[1], tmp_path / "out"
    asked: list[list[str]] = []

    def note(message: Any, partition: int) -> None:
        if read(message.content).text("kind") == TASK:
            asked.append(json.loads(read(message.content).text("request"))["classes"])
        if not nodes.away and (out / "records.jsonl").exists():
            raise KeyboardInterrupt

    nodes.troubles = note
    chosen = config("fedavg", *OPTIONS, "federation.patience=0.5")
    with pytest.raises(KeyboardInterrupt):
        serve(nodes, chosen, out)
    nodes = answers(tmp_path)[1]
    nodes.troubles, nodes.away = note, {0, 3}  # nobody who is there has been unsure
    serve(nodes, chosen, out)
    assert {tuple(classes) for classes in asked} == {("no", "unsure", "yes")}


def test_whoever_is_refused_is_in_the_record_and_the_run_goes_on(data: Path, tmp_path: Path, capsys) -> None:
    nodes, out = grid(data, tmp_path), tmp_path / "out"
    answer = nodes.app

    def lying(message: Message, context: Context) -> Message:
        """Node 3 calls itself site-0 from the third record on, with what it says is its token."""
        reply, asked = answer(message, context), read(message.content).text("kind")
        if asked == HELLO and context.node_config["partition-id"] == 3 and nodes.started[nodes.node(3)] != "2026-01-01":
            changed = {**read(reply.content).tree(), "name": "site-0", "identity": "token"}
            return Message(content(changed), reply_to=message)
        return reply

    def restart(message: Any, partition: int) -> None:
        if (out / "records.jsonl").exists() and len((out / "records.jsonl").read_text().splitlines()) == 2:
            nodes.started[nodes.node(3)] = "2026-01-02"

    nodes.app, nodes.troubles = lying, restart  # type: ignore[assignment]
    outcome = serve(nodes, config("fedavg", *OPTIONS), out)
    sentence = f"Node {nodes.node(3)} is site 'site-3' and cannot be 'site-0' too; a node has one name."
    assert [line.get("refused") for line in outcome.records] == [None, None, None, [sentence]]
    assert [line["answered"] for line in outcome.records] == [[0, 1, 2, 3]] * 4
    assert f"fedkin: Refused: {sentence}\n" in capsys.readouterr().out
    assert f"Refused: {sentence}" in unescape((out / "report.html").read_text())


def test_a_site_is_forgotten_at_the_server_and_the_others_are_sent_their_clusters(data: Path, tmp_path: Path) -> None:
    chosen = config("kfed", "method.n_clusters=6")
    first = serve(grid(data, tmp_path), chosen, tmp_path / "out")
    outcome = forget(first.folder, ["site-1"], tmp_path / "without")
    assert outcome.records[-1]["answered"] == []
    assert json.loads((tmp_path / "without" / "forgotten.json").read_text())[0]["way"] == "exact"
    found = load_found(tmp_path / "without").result["centroids"]
    assert not torch.equal(found, load_found(first.folder).result["centroids"])
    asked: set[int] = set()
    nodes = grid(data, tmp_path)

    def note(message: Any, partition: int) -> None:
        if read(message.content).text("kind") == TASK:
            asked.add(partition)

    nodes.troubles = note
    again = serve(nodes, run_config(tmp_path / "without"), tmp_path / "without")
    assert asked == {0, 2, 3}
    assert again.records[-1]["answered"] == [0, 2, 3]
    assert torch.equal(found, load_found(tmp_path / "without").result["centroids"])
