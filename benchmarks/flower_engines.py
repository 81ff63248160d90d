"""Seconds of a round and bytes of a run, of the same work on every engine.

``python benchmarks/flower_engines.py FOLDER --methods fedavg ifca kfed``

FOLDER is new, and keeps the runs. Four clients with scikit-learn's digits are reached on the local engine, in Flower's
simulation, and as real SuperNodes with TLS and keys, all on this machine; one row per method and engine. Seconds are
the median over rounds, with the least and the greatest.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "deploy")]

OPTIONS = {
    "fedavg": ["--set", "method.rounds=6"],
    "ifca": ["--set", "method.rounds=6", "--set", "method.n_clusters=2"],
    "kfed": ["--set", "method.n_clusters=10"],
}


def main() -> None:
    """Run everything, and print a row for each."""
    from running import fedkin
    from test_deployment import DONE, digits, prepared, written

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", nargs="+", choices=OPTIONS, default=list(OPTIONS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    data = options.folder / "data"
    files = written(data, digits(4, clusters=2))
    rows = []
    for name in options.methods:
        for engine in ("local", "flower"):
            out = options.folder / f"{name}-{engine}"
            here = ["--data", str(data), "--scenario", "files", "--engine", engine, "--out", str(out)]
            fedkin("run", name, *here, *OPTIONS[name])
            rows.append(row(name, engine, out))
        with prepared(options.folder / f"{name}-real", files, name, *OPTIONS[name]) as deployed:
            deployed.hears(deployed.run(), DONE, 1800)
            rows.append(row(name, "real", deployed.app / "results"))
    print(
        "| method | engine | seconds of a round | to the clients | from them |",
        "|---|---|---|---|---|",
        *rows,
        sep="\n",
    )


def row(name: str, engine: str, run: Path) -> str:
    """A line of the table, of a finished run."""
    steps, records = (
        [json.loads(line) for line in (run / file).read_text().splitlines()]
        for file in ("timing.jsonl", "records.jsonl")
    )
    seconds = [step["seconds"] for step in steps if step["step"] > 0]
    spread = f"{median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f})"
    return f"| {name} | {engine} | {spread} | {records[-1]['sent']:,} | {records[-1]['received']:,} |"


if __name__ == "__main__":
    main()
