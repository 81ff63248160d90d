"""Tables of UCI in the ARFF files of a folder that ``FEDKIN_ARFF`` names, such as one of `renatopp/arff-datasets`.

The label is the column called class, or else the last; a ``?`` is an empty cell. Left out are files with fewer than 90
rows or more than 20,000, with one label or more than 30, and of tables that scikit-learn has, too.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from functools import cache, partial
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)", re.IGNORECASE)
_ROWS, _LABELS = (90, 20_000), (2, 30)
_ELSEWHERE = {"iris", "wine"}


def arff_sources() -> dict[str, Callable[[int], tuple[pd.DataFrame, NDArray[np.int64]]]]:
    """Every table by name, from a seed that does not matter; none without the folder."""
    folder = os.environ.get("FEDKIN_ARFF")
    paths = sorted(Path(folder).glob("*.arff")) if folder else []
    return {path.stem: partial(_table, path) for path in paths if path.stem not in _ELSEWHERE and _fits(path)}


def _fits(path: Path) -> bool:
    frame, label = _read(path)
    return _ROWS[0] <= len(frame) <= _ROWS[1] and _LABELS[0] <= frame[label].nunique() <= _LABELS[1]


def _table(path: Path, seed: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    frame, label = _read(path)
    frame = frame[frame[label].notna()].reset_index(drop=True)
    return frame, pd.factorize(frame.pop(label).astype(str), sort=True)[0].astype(np.int64)


@cache
def _read(path: Path) -> tuple[pd.DataFrame, str]:
    """Read a file; return its table and the name of the label."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("%")]
    begins = next(at for at, line in enumerate(lines) if line.lower().startswith("@data"))
    found = [match for line in lines[:begins] if (match := _ATTRIBUTE.match(line))]
    names = [match.group(1).strip("'\"") for match in found]
    cells = csv.reader(lines[begins + 1 :], quotechar="'", skipinitialspace=True)
    rows = [[cell.strip().strip("'\"") for cell in row] for row in cells if len(row) == len(names)]
    written = StringIO()
    pd.DataFrame(rows, columns=names).replace("?", "").to_csv(written, index=False)
    label = next((name for name in names if name.lower() == "class"), names[-1])
    return pd.read_csv(StringIO(written.getvalue())), label
