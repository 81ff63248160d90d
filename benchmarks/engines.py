"""How fast is the local engine, compared with Flower's own simulation, pfl-research and plain PyTorch loops?

All contestants run the same FedAvg on the same synthetic images, each in its own process, one after another on the same
cores. In the regime ``overhead`` a client does five steps on a small perceptron, so that the time goes into everything
around training; in ``compute`` it trains a LeNet-5 for five epochs. Every round has its time; clients per second are
those of the later rounds, since the first one pays for starting (in Flower, for Ray).
In the contestants of a single process the images are in memory before the first round, as data are.
All start from the same model; the last one's loss on the same images shows that they have learned the same.

    python benchmarks/engines.py --regime overhead --flower-python flower/bin/python

Flower and pfl-research live in environments of their own with the same version of torch: ``python -m venv flower``,
then ``flower/bin/pip install torch "flwr[simulation]"``, and ``pip install torch pfl`` for ``--pfl-python``. Without
these options they are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from flower_fedavg.workload import REGIMES, Workload, write_data

CONTESTANTS = ("fedkin", "flower", "pfl", "plain-1", "plain-default", "plain-fused")
APPS = {"flower": "flower_fedavg.app", "pfl": "flower_fedavg.pfl_app"}
QUIET = {  # keeps Flower and Ray from reporting home and from installing packages
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Report = dict[str, Any]


def plain_loop(work: Workload, fused: bool = False) -> Report:
    """FedAvg by hand with one resident model; the ``seconds`` of its rounds and the last model's ``loss``."""
    torch.manual_seed(work.seed)
    work.read_all()
    model = work.first_model()
    everyone = {name: value.clone() for name, value in model.state_dict().items()}
    seconds = []
    for _ in range(work.rounds):
        start = perf_counter()
        sums = {name: torch.zeros_like(value) for name, value in everyone.items()}
        for client in range(work.clients):
            model.load_state_dict(everyone)
            _train(model, *work.client_data(client), work, fused)
            for name, value in model.state_dict().items():
                sums[name] += value
        everyone = {name: value / work.clients for name, value in sums.items()}
        seconds.append(perf_counter() - start)
    model.load_state_dict(everyone)
    return {"seconds": seconds, "loss": work.loss(model)}


def _train(model: nn.Module, x: Tensor, y: Tensor, work: Workload, fused: bool) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=work.learning_rate, fused=fused)
    rows: list[Tensor] = []
    for _ in range(work.local_steps):
        rows = rows or list(torch.randperm(len(x)).split(work.batch_size))
        batch = rows.pop(0)
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def local_engine(work: Workload) -> Report:
    """The same through fedkin, as its users write it."""
    # Not above: plain loops shall not carry fedkin in their memory.
    from fedkin.core import Client
    from fedkin.engines.local import LocalFederation
    from fedkin.methods.clients.fedavg import FedAvgMethod
    from fedkin.nn.modules import Classifier

    work.read_all()
    regime = REGIMES[work.regime]
    method = FedAvgMethod(
        module=regime.name,
        batch_size=work.batch_size,
        learning_rate=work.learning_rate,
        participation=1.0,
        rounds=work.rounds,
        **({"local_steps": regime.steps} if regime.steps else {"local_epochs": regime.epochs}),
    )
    fed = LocalFederation([Client(i, *work.client_data(i)) for i in range(work.clients)], work.seed)
    start_from = nn.utils.parameters_to_vector(work.first_model().parameters()).detach()
    state = replace(method.init(fed), models=start_from[None])
    seconds = []
    while not state.finished:
        start = perf_counter()
        state, record = method.step(fed, state)
        seconds.append(perf_counter() - start)
        if len(record.answered) != work.clients:
            raise RuntimeError(f"Only {len(record.answered)} of {work.clients} clients answered.")
    found = Classifier.of(state.module)
    return {"seconds": seconds, "loss": work.loss(found.module(state.models[0]))}


def in_processes(contestant: str, work: Workload, folder: Path, python: str, timeout: float) -> Report:
    """Run a contestant in processes of its own; return its report."""
    report, log = folder / "report.json", folder / "log.txt"
    report.unlink(missing_ok=True)
    given = json.dumps(asdict(work))
    command = [python, __file__, "--contestant", contestant, given, str(report)]
    if contestant in APPS:
        cores = str(len(os.sched_getaffinity(0)))
        command = [python, "-m", APPS[contestant], given, str(report), cores, str(folder)]
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    environment |= {**QUIET, "FLWR_HOME": str(folder / "home"), "PYTHONPATH": str(Path(__file__).resolve().parent)}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"Contestant {contestant} took more than {timeout:.0f} seconds and was ended.") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it has left behind
    if process.returncode or not report.exists():
        tail = "\n".join(log.read_text().splitlines()[-30:])
        raise SystemExit(f"Contestant {contestant} failed with exit status {process.returncode}:\n{tail}")
    report_of_run: Report = json.loads(report.read_text())
    return report_of_run


def summary(work: Workload, report: Report) -> Report:
    """One contestant's figures."""
    later = report["seconds"][1:]
    speed = work.clients * len(later) / sum(later)
    return {"clients_per_second": speed, "first": report["seconds"][0], "later": median(later), "loss": report["loss"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, and print one line of JSON with everything measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regime", choices=sorted(REGIMES), default="overhead")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10, help="at least 2, since the first one is set apart")
    parser.add_argument("--samples", type=int, default=600, help="images per client")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flower-python", type=Path, help="interpreter of an environment with flwr[simulation]")
    parser.add_argument("--pfl-python", type=Path, help="interpreter of an environment with pfl")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which a contestant is ended")
    parser.add_argument("--contestant", nargs=3, help=argparse.SUPPRESS)  # how this script calls itself
    options = parser.parse_args(arguments)
    if options.contestant:
        name, given, path = options.contestant
        if name != "plain-default" and name != "fedkin":
            torch.set_num_threads(1)
        work = Workload(**json.loads(given))
        report = local_engine(work) if name == "fedkin" else plain_loop(work, fused=name == "plain-fused")
        Path(path).write_text(json.dumps(report))
        return
    pythons = dict.fromkeys(CONTESTANTS, sys.executable) | {name: getattr(options, f"{name}_python") for name in APPS}
    for name in [name for name, python in pythons.items() if python is None]:
        print(f"'{name}' is left out: --{name}-python was not given.", file=sys.stderr)
        del pythons[name]
    with tempfile.TemporaryDirectory(prefix="engines-") as temporary:
        folder = Path(temporary)
        sizes = {name: getattr(options, name) for name in ("regime", "clients", "rounds", "samples", "seed")}
        work = Workload(data=str(folder / "images"), **sizes)
        write_data(work)
        reports = {
            name: in_processes(name, work, folder, str(python), options.timeout) for name, python in pythons.items()
        }
    results = {name: summary(work, report) for name, report in reports.items()}
    print(json.dumps({**sizes, "load": os.getloadavg()[0], "results": results}))


if __name__ == "__main__":
    main()
