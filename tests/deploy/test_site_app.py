"""What a real site tells the server of itself, and what it keeps to itself."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.data.columns import moments
from fedkin.data.encoding import Encoding
from fedkin.data.preparation import Preparation, restore_preparation
from fedkin.data.sources import load
from fedkin.deploy.server_app import _part
from fedkin.deploy.site_app import client_app, keep
from fedkin.engines.flower_engine.grid import Roster
from fedkin.engines.site import Request, Site
from fedkin.experiment import prediction, run_folder
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import load_models
from fedkin.experiment.run import execute
from nodes import Nodes, federation

ROWS = "a,diagnosis\n" + "".join(f"{row}.25,{row}.75\n" for row in range(8))
MANY = "a,diagnosis\n" + "".join(f"{i}.25,{i}.75\n" for i in range(40))
TOLD = "its site file, data or private folder cannot be used; its own log says more"


def node(folder: Path, csv: str, label: str = "none") -> Nodes:
    """The one node of a federation whose site has this file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "north.csv").write_text(csv)
    text = f'name = "north"\ndata = "north.csv"\nfolder = "private"\nlabel = "{label}"\n'
    (folder / "site.toml").write_text(text)
    nodes = Nodes(client_app(), 1)
    nodes.contexts[nodes.node(0)].node_config["site"] = str(folder / "site.toml")
    return nodes


@pytest.mark.parametrize(
    ("csv", "label", "words"),
    [
        (MANY + "9,Jane Doe: HIV positive\n", "none", "a text without digits in row 41"),
        ("63,145,233\n" + "1,2,3\n" * 4, "none", "it must name the columns"),
        (ROWS, "outcome", "has no column 'outcome'"),
    ],
)
def test_data_that_are_refused_are_reported_to_the_site_alone(
    csv: str, label: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes, reported = node(tmp_path / "site", csv, label), []
    assert Roster(nodes, report=reported.append).greet() == []
    assert reported == [f"Refused: Node {nodes.node(0)}: {TOLD}"]
    (tmp_path / "site" / "site.toml").write_text("nam = 3")
    assert Roster(nodes, report=reported.append).greet() == []
    assert reported[-1] == f"Refused: Node {nodes.node(0)}: {TOLD}"  # its name is not known
    assert words in caplog.text
    assert all(record.getMessage().startswith("fedkin: ") for record in caplog.records)
    assert "Once that is mended, start the site again." in caplog.text
    assert "north.csv" in caplog.text


def test_where_its_files_are_is_the_sites_own_affair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fed = federation(node(tmp_path / "site", ROWS))
    fed.ask_until_all_reply(moments, {})
    run = tmp_path / "site" / "private" / "ab12"
    with Site("north", run.parent, torch.ones(1, 1)).memory("ab12"):
        assert fed.ask(moments, fed.all()) == {}
    assert fed.missing == {0: TOLD}
    assert f"Another process is at work in {run}" in caplog.text
    (run / "memory-1.safetensors").write_text("garbage")
    assert fed.ask(moments, fed.all()) == {}
    assert fed.missing == {0: TOLD}
    assert "is damaged" in caplog.text
    (run / "memory-1.safetensors").unlink()

    preparation = Preparation(Encoding.unchanged("none", (1,)))
    share = {
        "method": "fedavg",
        "result": {"cluster": 0},
        "preparation": preparation.tree(),
        "classes": [],
    }

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", full)
        assert fed.conclude({0: share}) == {0: TOLD}
    assert "No space left on device" in caplog.text


QUICK = ["simulation.scenario=label-clusters", "simulation.clients=4", "method.module=perceptron"]


@pytest.mark.parametrize("method", ["ocfl", "fedavg", "ifca", "embedding"])
def test_with_its_share_a_site_predicts_but_assigns_nobody(method: str, tmp_path: Path) -> None:
    more = ["method.pretraining_rounds=1"] if method == "embedding" else []
    config = load_config(method, [*QUICK, "method.rounds=2", *more])
    outcome = execute(config, tmp_path / "run")
    found = run_folder.load_found(tmp_path / "run")
    population = SimpleNamespace(classes=found.classes)
    noted = replace(found.preparation, notes=["Column 'a' is odd at client south."])
    run = SimpleNamespace(method=config.method, config=config, preparation=noted, population=population, changes=None)
    assert _part(run, found.result, 1)["preparation"]["notes"] == []
    site = Site("north", tmp_path / "site", torch.ones(1, 1), prepare=restore_preparation)
    keep(site, Request("ab12", 1, 0, 9, 8, ""), _part(run, found.result, 1))
    digits = load("digits")
    np.savez(tmp_path / "new.npz", x=digits.x[:20].numpy(), y=np.array(digits.classes)[digits.y[:20].numpy()])
    kept, new = tmp_path / "site" / "results" / "ab12", str(tmp_path / "new.npz")
    assert prediction.predict(kept, new, client=0) == prediction.predict(outcome.folder, new, client=1)
    assert prediction.predict(kept, new) == prediction.predict(kept, new, client=0), "there is no other model"
    with pytest.raises(FedkinError, match=r"ab12 is .*, the model of one cluster; assign with the run's folder"):
        prediction.assign(kept, new)
    own = load_models(kept)
    assert own.clusters == {"north": 0}
    with torch.no_grad():
        classes = own.models[0](own.preparation.apply(new)).argmax(1).tolist()
    said = prediction.predict(kept, new, client=0).splitlines()[1:]
    assert [str(own.classes[one]) for one in classes] == [line.split(",")[-1] for line in said]


def test_a_result_that_a_site_was_given_goes_with_its_clusters(tmp_path: Path) -> None:
    """After `fedkin cut` or `forget` at the server, the earlier models would predict other clusters than the labels."""
    site, request = Site("north", tmp_path, torch.ones(4, 1)), Request("ab12", 0, 0, 9, 8, "")
    kept = tmp_path / "results" / "ab12"

    def clustered(labels: list[int], exchange: int) -> None:
        with site.memory("ab12") as memory:
            at = replace(request, exchange=exchange)
            client = memory.recalled(site.client(at), at)
            client.state["clusters"] = torch.tensor(labels)
            memory.keep(client, at)
        keep(site, request, {})

    clustered([0, 0, 1, 1], 9)
    for name in ("result.json", "models.safetensors"):
        (kept / name).write_text("from the server")
    clustered([0, 0, 1, 1], 10)
    assert (kept / "result.json").exists(), "the same clusters, such as those of a run that is asked for again"
    clustered([0, 2, 1, 1], 11)
    assert sorted(path.name for path in kept.iterdir()) == ["labels"]
    (page,) = (kept / "labels").glob("*.html")
    assert "Map of the samples" in page.read_text()


def test_a_site_checks_its_file_and_data_before_anybody_sees_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node(tmp_path / "site", "a,b\n" + "".join(f"{9999 if row < 5 else row},{row % 7}\n" for row in range(40)))
    with pytest.raises(SystemExit) as ended:
        main(["federation", "check", str(tmp_path / "site" / "site.toml")])
    assert ended.value.code == 0
    first, *columns, note = capsys.readouterr().out.splitlines()
    assert first == "Site 'north' has 40 samples of 2 columns, and no labels."
    assert columns == [
        "",
        "column  kind    empty  values",
        "a       number      0  5 to 9999",
        "b       number      0  0 to 6",
        "",
    ]
    assert note.startswith("Column 'a' holds 9999")
    assert not (tmp_path / "site" / "private").exists()
    (tmp_path / "site" / "north.csv").write_text("a;b\n1,125;2\n2,625;3\n")
    with pytest.raises(SystemExit) as ended:
        main(["federation", "check", str(tmp_path / "site" / "site.toml")])
    assert ended.value.code == 2
    assert 'set decimal = ","' in capsys.readouterr().err
