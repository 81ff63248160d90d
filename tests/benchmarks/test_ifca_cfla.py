"""What is compared is what it seems, with a library of somebody else's in the place of CFLA."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

CLIENT = """
class ClientIFCA:
    def __init__(self, client_id, dataset, args, output_dir):
        self.client_id, self.args, self.images = client_id, args, dataset.tensors[0]
"""
SERVER = """
import copy
from pathlib import Path
from torch.nn.utils import parameters_to_vector

class ServerIFCA:
    def __init__(self, global_model, test_dataloader, args):
        self.model, self.args, self.rounds = global_model, args, 0

    def set_clients(self, clients):
        self.clients = clients
        self.cluster_centers = [copy.deepcopy(self.model.state_dict()) for _ in range(self.args["num_clusters"])]
        (Path(self.args["output_dir"]) / "server_metrics.csv").write_text("round,mean_acc\\n")

    def train(self, verbose):
        models = [type(self.model)() for _ in self.cluster_centers]
        for model, center in zip(models, self.cluster_centers):
            model.load_state_dict(center)
        first, second = map(parameters_to_vector, [model.parameters() for model in models])
        assert not first.equal(second), "models that are equal never part"
        for client in self.clients:
            assert client.args["local_epochs"] == 3
            assert sum(len(x) for x, _ in client.train_loader) == len(client.images) == 20
            assert sum(len(x) for x, _ in client.test_loader) > 0
        with open(Path(self.args["output_dir"]) / "server_metrics.csv", "a") as file:
            file.write(f"{self.rounds},0.{self.rounds + 3}25\\n")
        self.rounds += 1
"""


def test_both_have_times_and_accuracies(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, name, code in (("client", "client_ifca", CLIENT), ("server", "server_ifca", SERVER)):
        (tmp_path / "framework" / folder).mkdir(parents=True)
        (tmp_path / "framework" / folder / f"{name}.py").write_text(code)
    sizes = ["--data", "digits", "--clients", "4", "--samples", "20", "--clusters", "2", "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", ["ifca_cfla.py", str(tmp_path), *sizes])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    benchmark.main()
    for name in [name for name in sys.modules if name.partition(".")[0] == "framework"]:
        del sys.modules[name]
    *_, first, second, last = capsys.readouterr().out.splitlines()
    for at, row in enumerate((first, second)):
        number, theirs, ours, test, their_accuracy, accuracy = map(float, row.strip("| ").split("|"))
        assert (number, their_accuracy) == (at + 1, (0.325, 0.425)[at])
        assert theirs >= 0
        assert min(ours, test) > 0
        assert 0 <= accuracy <= 1
    assert last.startswith("CFLA ")
    assert "times as long" in last
