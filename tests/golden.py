"""Golden runs: every method on two small data sets, in this process.

What a change must keep is seen on one machine, bit for bit: record the runs before it, compare them after it.

    PYTHONPATH=tests python tests/golden.py record before.json
    PYTHONPATH=tests python tests/golden.py compare before.json

Names of methods may follow. `golden.json` has what is the same on every machine, for `test_golden.py`;
``PYTHONPATH=tests python tests/golden.py summarise`` writes it anew where results change for a reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from sklearn.datasets import load_digits

import hostile
from fedkin.core import Client, Federation
from fedkin.core.payload import pack
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method
from fedkin.experiment.run_folder import restore_checkpoint, snapshot

EVERYWHERE = Path(__file__).with_name("golden.json")
SEED, CLIENTS = 3, 6
CORNERS = torch.tensor([[9.0, 1, 1, 9, 1, 5], [1, 9, 1, 1, 9, 5], [1, 1, 9, 9, 9, 5]])
"""Not in [0, 1], so that clients also scale."""


def corners(n: int = CLIENTS) -> list[Client]:
    """Return `n` clients around three corners; those with an odd number call them by other names."""
    rng = torch.Generator().manual_seed(7)
    made = []
    for i in range(n):
        truth = torch.arange(24 + i) % 3
        x = CORNERS[truth] + 0.5 * torch.randn(len(truth), 6, generator=rng)
        made.append(Client(i, x, truth if i % 2 else (truth + 1) % 3))
    return made


def digits() -> list[Client]:
    """Clients with images ``(1, 8, 8)`` of the digits 0 to 2; those with an odd number call them by other names."""
    data = load_digits(n_class=3)
    x, truth = torch.from_numpy(data.images).float()[:, None] / 16, torch.from_numpy(data.target)
    rows = [slice(i, 20 * CLIENTS, CLIENTS) for i in range(CLIENTS)]
    return [Client(i, x[kept], (truth[kept] + (i % 2 == 0)) % 3) for i, kept in enumerate(rows)]


DATA: dict[str, Callable[[], list[Client]]] = {"corners": corners, "digits": digits}
CASES = [(name, data) for name in hostile.SMALL for data in DATA if name != "ladd" or data == "digits"]
"""Methods with their settings in `hostile.SMALL`, and data; LADD takes images alone."""


def method_of(name: str) -> Any:
    settings = {**hostile.SMALL[name], **({"n_clusters": 3} if "n_clusters" in hostile.SMALL[name] else {})}
    return checked_method(registry.resolve("method", name.split()[0]), settings)


def finish(name: str, fed: Federation) -> dict[str, Any]:
    """Run a method to its end."""
    method = method_of(name)
    prepare(fed)
    state = method.init(fed)
    while not state.finished:
        state, record = method.step(fed, state)
        faults = record_faults(record.values, method.record_type)
        assert not faults, faults
    return {"result": method.result(state), "exchange": fed.exchange}


def record_faults(values: Mapping[str, Any], kind: Any) -> list[str]:
    """The names of a record's values that are not as its method's type says."""
    kinds, faults = get_type_hints(kind), []
    for name, value in values.items():
        if is_typeddict(kinds.get(name)):
            faults += record_faults(value, kinds[name])
            continue
        try:
            TypeAdapter(kinds[name]).validate_python(value, strict=True)
        except (KeyError, ValidationError) as error:
            faults.append(f"{name}: {error}")
    return faults


def finish_in_pieces(name: str, data: str) -> dict[str, Any]:
    """Run a method so that each step begins from a checkpoint, in a federation that knows nothing else."""
    method, fed = method_of(name), LocalFederation(DATA[data](), SEED)
    prepare(fed)
    state = method.init(fed)
    while not state.finished:
        tree = snapshot(fed, state)
        fed = LocalFederation([Client(i, client.x, client.y) for i, client in fed.clients.items()], SEED)
        state = restore_checkpoint(fed, method.state_type, tree)
        state, _ = method.step(fed, state)
    return {"result": method.result(state), "exchange": fed.exchange}


def straight(name: str, data: str) -> dict[str, Any]:
    """Run a method in this process."""
    return finish(name, LocalFederation(DATA[data](), SEED))


def digest(outcome: dict[str, Any]) -> str:
    """Every byte of a result."""
    tensors, text = pack(outcome)
    sums = hashlib.sha256(text.encode())
    for key in sorted(tensors):
        sums.update(f"{key}{tensors[key].dtype}{tuple(tensors[key].shape)}".encode())
        sums.update(np.ascontiguousarray(tensors[key].numpy()).tobytes())
    return sums.hexdigest()


def summary(outcome: dict[str, Any]) -> dict[str, Any]:
    """What is the same on every machine: labels and counts, and of each tensor its shape and root mean square."""
    tensors = pack(outcome)[0]
    whole = {key: tensor.tolist() for key, tensor in tensors.items() if not tensor.is_floating_point()}
    sizes = {
        key: [*tensor.shape, float(f"{float(tensor.double().square().nanmean().sqrt()):.4g}")]
        for key, tensor in tensors.items()
        if tensor.is_floating_point() and tensor.numel()
    }
    result = outcome["result"]
    return {"n_clusters": result["n_clusters"], "exchange": outcome["exchange"], "whole": whole, "sizes": sizes}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record", "compare", "summarise"])
    parser.add_argument("file", type=Path, nargs="?", default=EVERYWHERE)
    parser.add_argument("methods", nargs="*")
    options = parser.parse_args(arguments)
    cases = [(name, data) for name, data in CASES if not options.methods or name.split()[0] in options.methods]
    of = summary if options.command == "summarise" else digest
    outcomes = {f"{name}, {data}": of(straight(name, data)) for name, data in cases}
    if options.command != "compare":
        lines = [f"{json.dumps(case)}: {json.dumps(outcome)}" for case, outcome in outcomes.items()]
        options.file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    before = json.loads(options.file.read_text())
    changed = [case for case in outcomes if outcomes[case] != before.get(case)]
    print(*changed, f"{len(outcomes) - len(changed)} of {len(outcomes)} runs are the same, bit for bit.", sep="\n")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
