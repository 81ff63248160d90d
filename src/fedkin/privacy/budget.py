"""Privacy budget of a client: what all its runs may spend together, and what each of them was granted."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from fedkin.core.files import FileError, file_lock, read_json, write_secret
from fedkin.privacy.gaussian import gaussian_epsilon, gaussian_mu

ACCOUNT = "account.json"
"""The file: the epsilon spent at this delta, and every run's mu."""
_LOCK = "account.lock"
_ROUNDING = 1e-6


@dataclass(frozen=True)
class _AccountFile:
    epsilon: float
    delta: float
    runs: dict[str, float]


@dataclass(frozen=True)
class Account:
    """Account of a client's privacy budget for all runs together, in a file in its private `folder`.

    A run is charged all that it may spend before it gets anything: otherwise too little might be left for its last
    exchange, and what it had spent would be lost. It is charged once, however far it comes. Raises FedkinError if
    epsilon or delta is out of range.
    """

    folder: Path
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        gaussian_mu(self.epsilon, self.delta)

    def reserve(self, run: str, mu: float) -> bool:
        """Charge a run for `mu` of Gaussian differential privacy, and return whether the budget allows it.

        Raises
        ------
        FileError
            If the file cannot be read or written; then nothing may leave the client.
        """
        if not 0.0 <= mu < math.inf:
            return False
        with file_lock(self.folder / _LOCK, waits=True):
            runs = self._runs()
            if mu <= runs.get(run, 0.0):
                return True
            runs[run] = mu
            spent = math.hypot(*runs.values())
            if spent > gaussian_mu(self.epsilon, self.delta) * (1 + _ROUNDING):
                return False
            account = _AccountFile(round(gaussian_epsilon(spent, self.delta), 6), self.delta, runs)
            write_secret(self.folder / ACCOUNT, f"{json.dumps(asdict(account), indent=2)}\n".encode())
        return True

    def _runs(self) -> dict[str, float]:
        path = self.folder / ACCOUNT
        if not path.exists():
            return {}
        runs = read_json(path, _AccountFile, ", so nothing may leave the site").runs
        if not all(0.0 <= mu < math.inf for mu in runs.values()):
            raise FileError(f"{path} is not as fedkin wrote it, so nothing may leave the site.")
        return runs
