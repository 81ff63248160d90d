"""Whether a comparison recommends well: the truth of what it recommends beside that of the best it could have.

    python benchmarks/compare_truth.py OUT --seeds 0 1 2 3 4 --budget 10m

compares on three federations, one line each as soon as it is there: samples of digits and of blobs, partitioned by
class, and clients of digits in three clusters of labels. The truth has no part in what is recommended. A comparison
that was stopped is resumed, and a finished one is not made again. Needs no network.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fedkin.studies.compare import Comparison, Options, compared, question_of
from grid import spread

FEDERATIONS = ("digits", "blobs", "label-clusters")
"""What is compared: data, partitioned by class, and a scenario."""
HEADINGS = ("federation", "seed", "recommended", "its ARI", "best by ARI", "its ARI", "behind", "methods finished", "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--federations", nargs="+", choices=FEDERATIONS, default=list(FEDERATIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], help="Of who holds what.")
    parser.add_argument("--runs", type=int, default=3, help="Seeds of each method.")
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--methods", nargs="+", default=["all"])
    parser.add_argument("--set", nargs="+", default=[], dest="settings")
    given = parser.parse_args()
    print(_row(HEADINGS), _row(["---"] * len(HEADINGS)), sep="\n", flush=True)
    for name in given.federations:
        gaps = []
        for seed in given.seeds:
            question = question_of(name, seed=seed, settings=given.settings, methods=given.methods)
            options = Options(tuple(given.methods), seeds=given.runs, budget=given.budget)
            found = compared(question, options, given.out / f"{name}-{seed}")
            gaps.append(found.truth_gap or 0.0)
            print(_row([name, str(seed), *_cells(found)]), flush=True)
        print(f"\n{name}: {spread(gaps, 3)} behind the best, at most {max(gaps):.3f}\n", flush=True)


def _cells(found: Comparison) -> list[str]:
    lines = {line.method: line for line in found.lines}
    able = [line for line in found.lines if line.role in ("", "baseline") and "ari" in line.truth]
    best = max(able, key=lambda line: line.truth["ari"])
    taken = lines[found.recommended or ""]
    return [
        taken.name,
        f"{taken.truth['ari']:.3f}",
        best.name,
        f"{best.truth['ari']:.3f}",
        f"{found.truth_gap:.3f}",
        f"{sum(line.runs == found.seeds for line in found.lines)} of {len(found.lines)}",
        f"{found.spent:.0f}",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
