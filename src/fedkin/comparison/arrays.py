"""`fedkin.compare`: a comparison from Python, of arrays or of anything the command takes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.comparison.compare import Options, compared
from fedkin.comparison.comparison import Comparison
from fedkin.comparison.question import question_of
from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.data.arrays import as_tensor


def compare(
    sites: str | Path | Sequence[Any],
    labels: Sequence[Any] | None = None,
    *,
    methods: str | Sequence[str] = "all",
    budget: str = "10m",
    clusters: int | None = None,
    question: str = "auto",
    seeds: int = 3,
    seed: int = 0,
    by: str = "score",
    settings: Sequence[str] = (),
    out: str | Path | None = None,
) -> Comparison:
    """Run the methods that suit some data, rank them, with or without truth, and recommend one.

    Parameters
    ----------
    sites : str, Path or sequence of array-like
        What ``fedkin compare`` takes; or one array, tensor or DataFrame per site, ``(n, features)`` or images
        ``(n, channels, height, width)``.
    labels : sequence of array-like, optional
        One array per site, ``(n,)``. Methods that group samples are judged by them and do not see them; those that
        group clients learn from them.
    methods : str or sequence of str
        Names, or ``"all"``.
    budget : str
        Wall-clock time for all runs together, such as ``"90s"``, ``"10m"`` or ``"2h"``.
    clusters : int, optional
        How many groups there are, if that is known.
    question : {"auto", "samples", "clients"}
        What belongs together; of arrays, samples by default.
    seeds : int
        Runs of each method.
    seed : int
        Of who holds what, and of the first runs.
    by : {"score", "truth"}
        What ranks and chooses.
    settings : sequence of str
        ``"section.key=value"``, as ``--set`` takes them.
    out : str or Path, optional
        Folder; by default one in ``comparisons/``. What is there is gone on with.

    Returns
    -------
    Comparison
        ``recommended`` and ``reason``; ``table``, a DataFrame; ``lines``, one per method; ``out``, with the runs and a
        page.

    Raises
    ------
    FedkinError
        If an argument is out of its range, no method suits the data, `out` holds anything else, or no run finished in
        the budget.
    """
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    folder = None if out is None else Path(out)
    if isinstance(sites, str | Path):
        if labels is not None:
            raise FedkinError(f"labels were given beside '{sites}', which has its own; give arrays of both, or none.")
        what = str(sites)
    else:
        folder = folder or Path("comparisons") / "arrays"
        what = _written(sites, labels, folder / "data")
    asked = question_of(what, seed=seed, settings=settings, asked=question, methods=names)
    options = Options(names, clusters, seeds, budget, by)
    return compared(asked, options, folder or Path("comparisons") / asked.name)


def _written(sites: Sequence[Any], labels: Sequence[Any] | None, folder: Path) -> str:
    """A folder with a file per site.

    Raises
    ------
    FedkinError
        If labels do not fit, or the folder holds other sites.
    """
    if labels is not None and len(labels) != len(sites):
        raise FedkinError(f"labels has {len(labels)} arrays for {len(sites)} sites; one for each is needed.")
    width = len(str(len(sites)))
    for i, x in enumerate(sites):
        arrays = {"x": as_tensor(x, f"Site {i}").numpy()}
        if labels is not None:
            arrays["y"] = np.asarray(labels[i])
            if arrays["y"].shape != arrays["x"].shape[:1]:
                shape = arrays["y"].shape
                raise FedkinError(f"labels of site {i} have shape {shape}; it should be ({len(arrays['x'])},).")
        _write(folder / f"site-{i:0{width}}.npz", arrays)
    if extra := sorted(path.name for path in folder.glob("*.npz"))[len(sites) :]:
        raise FedkinError(f"{folder} holds {extra[0]} of another comparison; give another out.")
    return str(folder)


def _write(path: Path, arrays: dict[str, Any]) -> None:
    if not path.exists():
        file = io.BytesIO()
        np.savez(file, **arrays)
        write_atomically(path, file.getvalue())
        return
    with np.load(path) as known:
        same = known.files == list(arrays) and all(np.array_equal(known[name], arrays[name]) for name in arrays)
    if not same:
        raise FedkinError(f"{path} holds other samples than are given now; give another out.")
