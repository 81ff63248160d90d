"""Privacy budget of a client: what all its runs may spend together, what each was granted, and releases of a run.

A release are sums of clipped rows, with Gaussian noise. A client keeps an account of its releases in a run. It sends
nothing if they exceed the budget that the server first names in the run, or if that budget exceeds its own. A repeated
release has the same noise and costs nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core.client import LASTING, Client
from fedkin.core.client_array import Block
from fedkin.core.federation import Federation
from fedkin.core.files import FileError, file_lock, read_json, write_secret
from fedkin.core.seeds import ClientNoise, noise_for
from fedkin.privacy.gaussian import add_noise, gaussian_epsilon, gaussian_mu

ACCOUNT = "account.json"
"""The file: the epsilon spent at this delta, and every run's mu."""
_ROUNDED = 1 + 1e-6
"""Factor by which rounding may carry what was spent beyond a budget, which is the root of a sum of squares."""
_GRID = 2.0**19
"""Products of multiples of its inverse, added up to 2^15, fit the 53 bits of float64; features are at most 2^15."""

NAMES, SPENT, BUDGET = LASTING + "released", LASTING + "spent", LASTING + "budget"
"""In a client's state: names of the noise of its releases, uint8 ``(r, 32)``, squared mu of each ``(r,)``, and the
run's mu."""


@dataclass(frozen=True)
class _AccountFile:
    epsilon: float
    delta: float
    runs: dict[str, float]


@dataclass(frozen=True)
class Account:
    """Account of a client's privacy budget for all runs together, in a file in its private `folder`.

    A run is charged all that it may spend before it gets anything: otherwise too little might be left for its last
    exchange, and what it had spent would be lost. It is charged once, however far it comes, and for `epsilon_per_run`
    at most. Raises FedkinError if epsilon or delta is out of range.
    """

    folder: Path
    epsilon: float
    delta: float
    epsilon_per_run: float | None = None

    def __post_init__(self) -> None:
        gaussian_mu(self.epsilon, self.delta)

    def reserve(self, run: str, mu: float) -> bool:
        """Charge a run for `mu` of Gaussian differential privacy, and return whether the budget allows it.

        Raises FileError if the file cannot be read or written; then nothing may leave the client.
        """
        total = gaussian_mu(self.epsilon, self.delta)
        most = total if self.epsilon_per_run is None else min(total, gaussian_mu(self.epsilon_per_run, self.delta))
        if not 0.0 <= mu <= most * _ROUNDED:
            return False
        path = self.folder / ACCOUNT
        with file_lock(path.with_suffix(".lock"), waits=True):
            runs = read_json(path, _AccountFile, ", so nothing may leave the site").runs if path.exists() else {}
            if not all(0.0 <= charged < math.inf for charged in runs.values()):
                raise FileError(f"{path} is not as fedkin wrote it, so nothing may leave the site.")
            if mu <= runs.get(run, 0.0):
                return True  # also where others have been charged since
            runs[run] = mu
            spent = math.hypot(*runs.values())
            if spent > total * _ROUNDED:
                return False
            account = _AccountFile(round(gaussian_epsilon(spent, self.delta), 6), self.delta, runs)
            write_secret(path, f"{json.dumps(asdict(account), indent=2)}\n".encode())
        return True


def released(
    client: Client, exact: Sequence[Tensor], sensitivity: float, payload: Mapping[str, Any]
) -> list[Tensor] | None:
    """Add noise to sums, and charge the client's budget; return them, float64, or ``None`` if it does not suffice.

    A repeated release with the same noise costs nothing; any other is recorded, by the name of its noise. All sums
    together change by at most `sensitivity` in Euclidean length by one sample. The payload has the ``deviation`` of the
    noise, and the ``budget`` of the run as mu of Gaussian differential privacy; no later release can raise the first.
    """
    noise, name = noise_for(client.noise, exact)
    may = charged(client, name, sensitivity, payload)
    return add_noise(exact, sensitivity, payload["deviation"], noise) if may else None


def released_of_block(
    block: Block, exact: Sequence[Tensor], sensitivity: float, payload: Mapping[str, Any]
) -> list[Tensor]:
    """Do `released` for many clients, of sums ``(clients, ...)``; those that send nothing are `Block.declined`."""
    if block.client is not None:
        noisy = released(block.client, [part[0] for part in exact], sensitivity, payload)
        block.declined[:] = noisy is None
        return [part[None] for part in noisy or exact]
    rngs = []
    for place, client in enumerate(block.clients()):
        block.declined[place] = not charged(client, noise_for(client.noise, [])[1], sensitivity, payload)
        rngs += [] if block.declined[place] else [client.rng]
        block.array.keep_of(client)
    return add_noise([part[~block.declined] for part in exact], sensitivity, payload["deviation"], ClientNoise(rngs))


def charged(client: Client, name: bytes, sensitivity: float, payload: Mapping[str, Any]) -> bool:
    """Charge a client for a release whose noise has this `name`, see `released`; return whether it may be sent."""
    names = client.state.get(NAMES, torch.zeros(0, len(name), dtype=torch.uint8))
    spent = client.state.get(SPENT, torch.zeros(0, dtype=torch.float64))
    row = torch.tensor(list(name), dtype=torch.uint8)
    if not bool((names == row).all(1).any()):
        mu = sensitivity / payload["deviation"] if payload["deviation"] > 0 else math.inf
        spent = torch.cat([spent, spent.new_tensor([mu**2])])
        budget = min(float(payload["budget"]), float(client.state.get(BUDGET, math.inf)))
        # Charged before anything leaves, so that a site that is killed has paid; written so that NaN allows nothing.
        if not math.sqrt(float(spent.sum())) <= budget * _ROUNDED or not client.reserve(budget):
            return False
        client.state.setdefault(BUDGET, spent.new_tensor(budget))
        client.state[NAMES], client.state[SPENT] = torch.cat([names, row[None]]), spent
    return True


def noise_source(fed: Federation) -> str:
    """Return what the noise of a run follows from, for its record.

    Clients in this process are simulated, and whoever knows the run's seed can subtract their noise. That of a real
    site follows from a secret.
    """
    return "the run's seed" if fed.clients else "the sites' secrets"


def clipped(rows: Tensor) -> Tensor:
    """Clip rows to length 1 and round them towards 0: float64 ``(n, width)``, multiples of 2^-19.

    Sums of up to 2^15 products of such numbers are exact, in any order. So whatever is computed from a row, sums and
    which point is nearest, depends neither on other rows nor on the processor: rounding depends on their number, by
    which one row could change what others contribute. Numbers that are not finite, which noise cannot hide, become 0.
    """
    finite = rows.double().nan_to_num(0.0, 0.0, 0.0)
    bounded = on_grid(finite / finite.abs().amax(1, keepdim=True).clamp_min(1.0))
    return on_grid(bounded / bounded.square().sum(1, keepdim=True).sqrt().clamp_min(1.0))


def on_grid(numbers: Tensor) -> Tensor:
    """Round float64 numbers towards 0 to multiples of 2^-19, which makes no row longer."""
    rounded: Tensor = (numbers * _GRID).trunc() / _GRID
    return rounded


def sum_products(batches: Iterable[Tensor], width: int) -> Tensor:
    """Return the exact sum of outer products of `clipped` rows ``(n, width)``, in batches: float64 ``(width, width)``.

    Rows of several clients are ``(clients, n, width)``, and so many are the sums.
    """
    total = torch.zeros(width, width, dtype=torch.int64)
    for rows in batches:
        total = total + (rows.mT @ rows * _GRID**2).long()
    return total.double() / _GRID**2


def place(rows: Tensor, directions: Tensor) -> Tensor:
    """Return `clipped` rows along directions ``(width, rank)``, exactly; directions are clipped to length 1, too."""
    return rows @ clipped(directions.T).T


def nearest_points(rows: Tensor, points: Tensor) -> Tensor:
    """Return the nearest of `points` to each row ``(n, width)``, ties to the first: int64 ``(n,)``.

    Rows are float64, rounded to the grid, and points are clipped to length 1. No result depends on other rows.
    """
    rows, points = on_grid(rows), clipped(points)
    squares = rows.square().sum(1, keepdim=True) + points.square().sum(1) - 2 * rows @ points.T
    return squares.min(1).indices
