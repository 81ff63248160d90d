"""How fast is IFCA, compared with the library CFLA?

    git clone https://github.com/Totorino02/CFLA cfla
    FEDKIN_DATA=... python benchmarks/ifca_cfla.py cfla

Both train the same network from the same K first models on the same images, client by client, and test every client
with its cluster's model on the same images; the clusters are permutations of MNIST's labels. They take turns round by
round in one process with one thread. Times are processor time, so that other work on the machine counts little. CFLA's
classes run unchanged; they are given first models that differ, since its own, which are equal, never part.

CFLA tests a client three times in a round: before its training, after it, and with its cluster's mean. fedkin tests it
once, with the mean; ``--common-test`` has it test every cluster's model on the tests of all clients too, as it does by
default. The last line has ratios with and without the test.
``--network cfla`` is CFLA's own LeNet-5; by default it is fedkin's `lenet5`, which is wider.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters
from torch.utils.data import DataLoader, TensorDataset

from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import load_config
from fedkin.experiment.evaluation.client_scores import evaluate_clusters
from fedkin.methods.clients.client_method import labels_of
from fedkin.methods.clients.ifca import IFCAMethod
from fedkin.nn import register
from fedkin.nn.modules import Classifier

T = TypeVar("T")


def main() -> None:
    """Print a table of rounds, and how many times longer CFLA takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cfla", type=Path, help="folder with a clone of CFLA")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--samples", type=int, default=300, help="training images of a client")
    parser.add_argument("--clusters", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--network", choices=("lenet5", "cfla"), default="lenet5")
    parser.add_argument("--common-test", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.append(str(given.cfla.resolve()))  # last, as it has a package called datasets
    if given.network == "cfla":
        register("cfla", their_lenet)
    print("| round | CFLA, s | fedkin, s | its test, s | CFLA's accuracy | fedkin's accuracy |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as outputs:
        theirs, ours, test = contest(given, Path(outputs))
    print(f"CFLA {theirs:.1f} s; fedkin {ours:.1f} s and {test:.1f} s for its test: CFLA takes", end=" ")
    print(f"{theirs / (ours + test):.2f} times as long; {theirs / ours:.2f} times without fedkin's test")


def contest(given: argparse.Namespace, outputs: Path) -> tuple[float, float, float]:
    """Processor seconds of CFLA, of fedkin, and of fedkin's test, all rounds together; prints each round."""
    population = population_of(given)
    fed = LocalFederation(population.clients, seed=given.seed, workers=1)
    method = IFCAMethod(n_clusters=given.clusters, module=given.network, rounds=given.rounds)
    state = method.init(fed)
    server = their_server(given, method, population, Classifier.of(state.module), state.models, outputs)
    seconds = [0.0, 0.0, 0.0]
    for at in range(given.rounds):
        theirs, _ = timed(partial(server.train, verbose=False))
        ours, (state, _) = timed(partial(method.step, fed, state))
        evaluate = partial(evaluate_clusters, common_test=given.common_test)
        test, scores = timed(partial(evaluate, method, population, fed, state))
        spent = (theirs, ours, test)
        seconds = [before + now for before, now in zip(seconds, spent, strict=True)]
        accuracy = float((outputs / "server_metrics.csv").read_text().splitlines()[-1].split(",")[1])
        cells = [*(f"{one:.2f}" for one in spent), f"{accuracy:.3f}", f"{scores['personal_accuracy']:.3f}"]
        print(f"| {at + 1} | {' | '.join(cells)} |", flush=True)
    return seconds[0], seconds[1], seconds[2]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Processor seconds of `work`, and what it returns."""
    start = process_time()
    made = work()
    return process_time() - start, made


def population_of(given: argparse.Namespace) -> Population:
    """Clients whose labels are permuted cluster by cluster, with their tests."""
    scenario = {
        "data.source": given.data,
        "scenario.name": "label-flip",
        "scenario.clients": given.clients,
        "scenario.samples_per_client": given.samples,
        "seed": given.seed,
    }
    population = load_config("ifca", [f"{key}={value}" for key, value in scenario.items()]).population()
    assert isinstance(population, Population)
    return population


def their_server(
    given: argparse.Namespace, method: IFCAMethod, population: Population, network: Classifier, first: Tensor,
    outputs: Path,
) -> Any:  # fmt: skip
    """CFLA's server with its clients, one round a call of `train`, which begins with the models `first`."""
    from framework.client.client_ifca import ClientIFCA  # type: ignore[import-not-found]
    from framework.server.server_ifca import ServerIFCA  # type: ignore[import-not-found]

    class Network(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(network.build())

    descent = method.descent()
    common = {"device": "cpu", "seed": given.seed, "output_dir": str(outputs)}
    training = {
        "local_epochs": descent.epochs, "learning_rate": descent.learning_rate, "batch_size": descent.batch_size,
    }  # fmt: skip
    clients = []
    for client, test in zip(population.clients, population.tests, strict=True):
        own = TensorDataset(client.x, labels_of(client))
        theirs = ClientIFCA(client.id, own, common | training, str(outputs))
        # It would divide its data at random; both contestants have the scenario's division.
        theirs.train_loader = DataLoader(own, descent.batch_size, shuffle=True)
        theirs.test_loader = DataLoader(TensorDataset(*test), descent.batch_size)
        clients.append(theirs)
    torch.manual_seed(given.seed)
    server = ServerIFCA(Network(), None, common | {"fraction": 1.0, "rounds": 1, "num_clusters": given.clusters})
    server.set_clients(clients)
    for k, model in enumerate(first):
        start = Network()
        vector_to_parameters(model, start.parameters())
        server.cluster_centers[k] = {name: value.clone() for name, value in start.state_dict().items()}
    return server


def their_lenet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """CFLA's LeNet-5, for 1 x 28 x 28 and ten classes."""
    from framework.models.computer_vision import LeNet5V1  # type: ignore[import-not-found]

    made: nn.Module = LeNet5V1()
    return made


if __name__ == "__main__":
    main()
