"""`fedkin.compare`: a comparison from Python, of arrays or of anything the command takes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.data.reading.arrays import as_tensor
from fedkin.data.reading.dataset import encode_labels
from fedkin.studies.compare.compare import PLAN, Options, compared
from fedkin.studies.compare.comparison import Comparison
from fedkin.studies.compare.question import question_of


def compare(
    clients: str | Path | Sequence[Any],
    labels: Sequence[Any] | None = None,
    *,
    methods: str | Sequence[str] = "all",
    budget: str = "10m",
    clusters: int | None = None,
    question: str = "auto",
    seeds: int = 3,
    seed: int | None = None,
    by: str = "score",
    settings: Sequence[str] = (),
    out: str | Path | None = None,
) -> Comparison:
    """Run the methods that suit some data, rank them, with or without truth, and recommend one.

    Parameters
    ----------
    clients : str, Path or sequence of array-like
        What ``fedkin compare`` takes; or one array, tensor or DataFrame per client, ``(n, features)`` or images
        ``(n, channels, height, width)``.
    labels : sequence of array-like, optional
        One array per client, ``(n,)``. Methods that cluster samples are judged by them and do not see them; those that
        cluster clients learn from them.
    methods : str or sequence of str
        Names, or ``"all"``.
    budget : str
        Wall-clock time for all runs together, such as ``"90s"``, ``"10m"`` or ``"2h"``.
    clusters : int, optional
        How many clusters there are, if that is known.
    question : {"auto", "samples", "clients"}
        What belongs together; of arrays, samples by default.
    seeds : int
        Runs of each method.
    seed : int, optional
        Of who holds what, and of the first runs; by default that of an experiment's file, or 0.
    by : {"score", "truth"}
        What ranks and chooses.
    settings : sequence of str
        ``"section.key=value"``, as ``--set`` takes them.
    out : str or Path, optional
        Folder; by default one in ``comparisons/``. A comparison that is there is resumed.

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
    options = Options(names, clusters, seeds, budget, by)
    options.check()

    def compared_in(what: str, folder: Path | None) -> Comparison:
        asked = question_of(what, seed=seed, settings=settings, asked=question, methods=names)
        return compared(asked, options, folder or Path("comparisons") / asked.name)

    if isinstance(clients, str | Path):
        if labels is not None:
            raise FedkinError(f"labels were given beside '{clients}', which has its own; give arrays of both, or none.")
        return compared_in(str(clients), None if out is None else Path(out))
    folder = Path(out) if out is not None else Path("comparisons") / "arrays"
    new = [path for path in (folder / "data", folder) if not path.exists()]
    written = _write(_files(clients, labels), folder / "data")
    try:
        return compared_in(str(folder / "data"), folder)
    except FedkinError:
        if not (folder / PLAN).exists():
            for path in written:
                path.unlink()
            for path in new:
                with suppress(OSError):  # where there is anything else
                    path.rmdir()
        raise


def _files(clients: Sequence[Any], labels: Sequence[Any] | None) -> dict[str, dict[str, Any]]:
    """The arrays of every client, by the name of their file.

    Raises
    ------
    FedkinError
        If there is no client, or samples or labels cannot be used.
    """
    if len(clients) == 0:
        raise FedkinError("clients is empty; a comparison needs 2 or more.")
    if labels is not None and len(labels) != len(clients):
        raise FedkinError(f"labels has {len(labels)} arrays for {len(clients)} clients; one for each is needed.")
    width = len(str(len(clients)))
    files = {}
    for i, x in enumerate(clients):
        files[f"client-{i:0{width}}.npz"] = arrays = {"x": as_tensor(x, f"Client {i}").numpy()}
        if labels is not None:
            arrays["y"] = _plain(labels[i], f"Client {i}")
            if arrays["y"].shape != arrays["x"].shape[:1]:
                shape = arrays["y"].shape
                raise FedkinError(f"labels of client {i} have shape {shape}; it should be ({len(arrays['x'])},).")
    return files


def _plain(labels: Any, where: str) -> NDArray[Any]:
    """Labels as an array that a file can hold, which Python's own strings in one of pandas are not."""
    array = np.asarray(labels)
    if array.dtype != object or array.ndim != 1:
        return array
    y, classes = encode_labels(array, where)
    names: NDArray[np.str_] = np.array(classes)[y.numpy()]
    return names


def _write(files: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the files that are not there yet, and return their paths.

    Raises
    ------
    FedkinError
        If the folder holds other clients; nothing is written then.
    """
    known = sorted(path.name for path in folder.glob("*.npz"))
    if extra := [name for name in known if name not in files]:
        raise FedkinError(f"{folder} holds {extra[0]} of another comparison; give another out.")
    if (folder.parent / PLAN).exists() and len(known) < len(files):
        raise FedkinError(f"{folder} holds the {len(known)} clients of another comparison; give another out.")
    for name in known:
        _check_same(folder / name, files[name])
    new = [folder / name for name in files if name not in known]
    for path in new:
        file = io.BytesIO()
        np.savez(file, **files[path.name])
        write_atomically(path, file.getvalue())
    return new


def _check_same(path: Path, arrays: Mapping[str, Any]) -> None:
    with np.load(path) as known:
        same = known.files == list(arrays) and all(np.array_equal(known[name], arrays[name]) for name in arrays)
    if not same:
        raise FedkinError(f"{path} holds other samples than are given now; give another out.")
