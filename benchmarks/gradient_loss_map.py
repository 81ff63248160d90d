"""Where similarity of gradients saves iterations: iterations to a purity of 0.9, with and without it, over a grid.

    python benchmarks/gradient_loss_map.py run RUNS --seeds 0 1 2
    python benchmarks/gradient_loss_map.py show RUNS

Runs are ordinary folders in RUNS and are resumed or skipped if they are there already. Both of a pair have the same
batches and the same first models: independent draws (start `own`), or ones a hundredth as far from the first of them
(`near`). A run ends when it has the purity, or after `--rounds`. A saving where only one of a pair has the purity
counts the other with all its rounds, so it is a bound.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

from fedkin.data.reading.sources import keep_read
from grid import records, run

RATES, BATCHES, BALANCES, SEEDS = (0.01, 0.03, 0.1), (32, 128), (0.0, 0.2), (0, 1, 2)
STARTS = {"own": "gradient-loss", "near": "near_start:NearStart"}
PURITY = 0.9


def main() -> None:
    """Run the grid, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--module", default="gradient-loss-mlp")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--balances", nargs="+", type=float, default=BALANCES)
    parser.add_argument("--starts", nargs="+", default=list(STARTS), choices=list(STARTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--set", nargs="*", default=[], help="more keys of the experiment, as of `fedkin run`")
    given = parser.parse_args()
    if given.what == "show":
        show(given)
        return
    keep_read()
    for seed, start, batch, rate, balance in product(
        given.seeds, given.starts, given.batches, given.rates, given.balances
    ):
        settings: dict[str, Any] = {
            "seed": seed,
            "data.source": given.data,
            "scenario.name": "missing-classes",
            "scenario.clients": given.clients,
            "method.module": given.module,
            "method.n_clusters": 4,
            "method.learning_rate": rate,
            "method.batch_size": batch,
            "method.balance": balance,
            "method.rounds": given.rounds,
            "evaluation.every": given.rounds,
            "evaluation.map": "none",
            "target.metric": "purity",
            "target.reach": PURITY,
            "target.stop": True,
            "engine.workers": 1,
        }
        run(folder(given.runs, start, rate, batch, balance, seed), STARTS[start], settings, given.set)


def show(given: argparse.Namespace) -> None:
    """Print a row per start, batch and rate: iterations of each seed without and with similarity, and the saving."""
    print(f"| start | batch | rate | {' | '.join(f'lambda {balance:g}' for balance in given.balances)} | fewer |")
    print("|---|---|---|" + "---|" * (len(given.balances) + 1))
    for start, batch, rate in product(given.starts, given.batches, given.rates):
        cells = [
            [reached(folder(given.runs, start, rate, batch, balance, seed), given.rounds) for seed in given.seeds]
            for balance in given.balances
        ]
        savings = [
            fewer(without, given_it, given.rounds) for without, given_it in zip(cells[0], cells[-1], strict=True)
        ]
        columns = [", ".join(text for text, _ in cell) for cell in cells]
        print(f"| {start} | {batch} | {rate:g} | {' | '.join(columns)} | {', '.join(savings)} |")


def reached(place: Path, rounds: int) -> tuple[str, int | None]:
    """Iterations until the purity, as text and number; in words the greatest purity where it was not reached."""
    known = records(place)[:rounds] if (place / "result.json").exists() else []
    purities = [step["metrics"]["purity"] for step in known]
    if not purities:
        return "–", None
    at = next((count for count, purity in enumerate(purities, 1) if purity >= PURITY), None)
    return (str(at), at) if at else (f"never ({max(purities):.2f})", None)


def fewer(without: tuple[str, int | None], given_it: tuple[str, int | None], rounds: int) -> str:
    """By how much the second number is lower than the first, in percent; a bound where one of them was not reached."""
    if "–" in (without[0], given_it[0]) or without[1] == given_it[1] is None:
        return "–"
    saving = 100 * (1 - (given_it[1] or rounds) / (without[1] or rounds))
    return f"{'' if without[1] and given_it[1] else '> ' if given_it[1] else '< '}{saving:.0f} %"


def folder(runs: Path, start: str, rate: float, batch: int, balance: float, seed: int) -> Path:
    """The run of one cell."""
    return runs / f"{start}-rate-{rate:g}-batch-{batch}-balance-{balance:g}-s{seed}"


if __name__ == "__main__":
    main()
