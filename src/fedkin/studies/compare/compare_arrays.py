"""`fedkin.compare`: compare methods from Python on arrays, tables, or anything that ``fedkin compare`` takes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedkin.core import FedkinError
from fedkin.core.aliases import checked_keywords
from fedkin.core.errors import require
from fedkin.core.files import folder_lock, make_private, read_json, stem_of, write_atomically, write_secret
from fedkin.data.inputs.federation_input import federation_input
from fedkin.data.prepare import load_agreeing_clients
from fedkin.data.reading.columns import as_text
from fedkin.data.reading.dataset import LABEL_NAMES, encode_labels
from fedkin.data.reading.dataset_names import expanded
from fedkin.data.reading.tables import as_frame
from fedkin.studies.compare.compare import CLIENTS, PLAN, Options, compared
from fedkin.studies.compare.compare_arguments import given_count, given_names, given_settings, said_in_python
from fedkin.studies.compare.comparison import Comparison
from fedkin.studies.compare.question import question_of
from fedkin.studies.time_budget import given_duration

if TYPE_CHECKING:
    import pandas as pd

    _Content: TypeAlias = "dict[str, Any] | pd.DataFrame | bytes"


@checked_keywords
def compare(
    clients: Any,
    y: Any = None,
    *,
    methods: str | Sequence[str] = "all",
    budget: str | float = "10m",
    n_clusters: int | None = None,
    question: str = "auto",
    seeds: int = 3,
    seed: int | None = None,
    by: str = "score",
    settings: str | Sequence[str] | Mapping[str, Any] = (),
    out: str | Path | None = None,
) -> Comparison:
    """Compare all suitable methods on some data, rank them with or without truth, and recommend one.

    Parameters
    ----------
    clients : str, Path, sequence, dict, or FederatedDataset
        What ``fedkin compare`` takes; or clients in any form that ``fit`` of estimators takes, in a list, in a dict by
        name, or as a ``FederatedDataset`` of Flower's. A table's column called ``label`` is taken for labels, and
        others as in files. While methods run, clients that are no path lie in a folder that only its owner can read.
    y : str, sequence or dict, optional
        The name of the column of labels; or one array per client, ``(n,)``, in order or by name. Methods that cluster
        samples are judged by them and do not see them; those that cluster clients learn from them.
    methods : str or sequence of str
        Names, also in one text with commas between them, or ``"all"``.
    budget : str or float
        Wall-clock time for all runs together: seconds, or a text such as ``"90s"``, ``"10m"`` or ``"2h"``.
    n_clusters : int, optional
        Number of clusters, if it is known.
    question : {"auto", "samples", "clients"}
        What is to be clustered; for arrays, samples by default.
    seeds : int
        Runs of each method.
    seed : int, optional
        Seed of the partition and of the first run of each method; by default that of an experiment's file, or 0.
    by : {"score", "truth"}
        Criterion of the ranking and the recommendation.
    settings : dict, str or sequence of str
        Keys of an experiment and their values, such as ``{"method.rounds": 10}``; those of ``method`` are for all
        methods that have them. Or ``"method.rounds=10"``, as ``--set`` takes it.
    out : str or Path, optional
        Output folder; by default one in ``comparisons/``. A comparison that it holds is resumed.

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
    with said_in_python():
        names = given_names(methods)
        common = given_settings(settings)
        number = None if n_clusters is None else given_count("n_clusters", n_clusters)
        options = Options(names, number, given_count("seeds", seeds), given_duration(budget), by)
        options.check()

        def compared_in(what: str, folder: Path | None, label: str | None) -> Comparison:
            given = [*common, *([] if label is None else [f"data.label={label}"])]
            asked = question_of(what, seed=seed, settings=given, asked=question, methods=names)
            return compared(asked, options, folder or Path("comparisons") / asked.name)

        if isinstance(clients, str | Path):
            if y is not None and not isinstance(y, str):
                raise FedkinError(
                    f"Labels were given beside '{clients}', which has its own; give arrays of both, or none."
                )
            return compared_in(str(clients), None if out is None else Path(out), y)
        folder = Path(out) if out is not None else Path("comparisons") / "arrays"
        contents, label = _files(clients, y)
        files = {name: _content(content, name) for name, content in contents.items()}
        _check_same({name: sha256(content).hexdigest() for name, content in files.items()}, folder)
        with _kept(files, folder) as data:
            return compared_in(str(data), folder, label)


def _files(clients: Any, y: Any) -> tuple[dict[str, _Content], str | None]:
    """Return the array, table or file of every client by file name, and the name of the label column.

    Raises FedkinError if there is no client, or samples or labels cannot be used.
    """
    given = federation_input(clients, y, entrance="compare")
    named = isinstance(given.source, Mapping)
    if named:
        _check_names(given.source)
    width = len(str(len(given.labels)))
    keys = list(given.source) if named else list(range(len(given.source)))
    files: dict[str, _Content] = {}
    read_clients = load_agreeing_clients(given.source, given.column)
    for key, read, labels in zip(keys, read_clients, given.labels, strict=True):
        where, x = f"Client {key}", given.source[key]
        own = None if labels is None or given.label is not None else _plain(labels, where)
        if own is not None and own.shape != (len(read),):
            raise FedkinError(f"y of client {key} has the shape {own.shape}; it should be ({len(read)},).")
        name = key if named else f"client-{key:0{width}}"
        if isinstance(x, str | Path):
            ending = Path(x).name.removeprefix(stem_of(x)).lower()
            files[f"{name if named else stem_of(x)}{ending}"] = expanded(str(x)).read_bytes()
        elif (frame := as_frame(x)) is None:
            files[f"{name}.npz"] = {"x": read.x.numpy()} | ({} if own is None else {"y": own})
        else:
            files[f"{name}.parquet"] = _with_labels(frame, own, where)
    if len(files) < len(keys):
        raise FedkinError("Two clients' files have the same name; give clients in a dict by name.")
    return files, given.label


def _check_names(names: Sequence[Any]) -> None:
    """Check that the clients' names can be file names."""
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w .-]*", name):
            raise FedkinError(
                f"Client {name!r} cannot be the name of a file; allowed: letters, digits, '_', and inside the name "
                "spaces, '.' and '-'."
            )


def _with_labels(frame: pd.DataFrame, y: NDArray[Any] | None, where: str) -> pd.DataFrame:
    """Add the labels to a table as a column with the first of the usual names."""
    named = frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
    if y is None:
        return named
    if LABEL_NAMES[0] in named:
        raise FedkinError(f"{where} has a column '{LABEL_NAMES[0]}', and labels were given as y, too; leave one out.")
    return named.assign(**{LABEL_NAMES[0]: y})


def _plain(labels: Any, where: str) -> NDArray[Any]:
    """Convert labels to a NumPy array that files can store, names as fixed-width strings."""
    array = np.asarray(labels)
    if array.dtype != object or array.ndim != 1:
        return array
    y, classes = encode_labels(array, where)
    names: NDArray[np.str_] = np.array(classes)[y.numpy()]
    return names


def _check_same(sums: Mapping[str, str], folder: Path) -> None:
    """Raise FedkinError if a folder's comparison is of other clients, whose files have other checksums."""
    if not (folder / PLAN).exists():
        return
    known = read_json(folder / CLIENTS, dict[str, str], "; give another out") if (folder / CLIENTS).exists() else {}
    if extra := [name for name in known if name not in sums]:
        raise FedkinError(f"{folder} holds a comparison with {extra[0]}, too; give another out.")
    if len(known) < len(sums):
        raise FedkinError(f"{folder} holds a comparison of {len(known)} clients in memory; give another out.")
    for name, checksum in sums.items():
        if known[name] != checksum:
            raise FedkinError(f"{folder} holds a comparison with other samples of {Path(name).stem}; give another out.")


@contextmanager
def _kept(files: Mapping[str, bytes], folder: Path) -> Iterator[Path]:
    """Keep files in a folder within `folder` that only its owner can read, until the comparison has ended.

    What identifies them is written beside it. A comparison that is refused before it begins leaves nothing.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    data = folder / "data"
    make_private(data)
    try:
        with folder_lock(data):
            try:
                for name, content in files.items():
                    write_secret(data / name, content)
                sums = {name: sha256(content).hexdigest() for name, content in files.items()}
                write_atomically(folder / CLIENTS, json.dumps(sums, indent=2) + "\n")
                yield data
            finally:
                for name in files:
                    (data / name).unlink(missing_ok=True)
    finally:
        with suppress(OSError):
            data.rmdir()
        if not (folder / PLAN).exists():
            (folder / CLIENTS).unlink(missing_ok=True)
            for path in new:
                with suppress(OSError):  # where there is anything else
                    path.rmdir()


def _content(data: _Content, name: str) -> bytes:
    if isinstance(data, bytes):
        return data
    file = io.BytesIO()
    if isinstance(data, Mapping):
        np.savez(file, **data)
        return file.getvalue()
    require("A comparison of DataFrames", "pyarrow", "parquet")
    from pyarrow import ArrowException

    try:
        changed = {name: kept for name in data if (kept := _storable(own := data[name])) is not own}
        data.assign(**changed).to_parquet(file, index=False)
    except (TypeError, ValueError, OverflowError, ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise FedkinError(f"The table of {Path(name).stem} cannot be kept in a file ({reason}).") from error
    return file.getvalue()


def _storable(cells: pd.Series) -> pd.Series:
    """Convert a column that Parquet cannot store, such as mixed types and huge integers, to text."""
    import pandas as pd

    kind = cells.dtype
    if isinstance(kind, pd.SparseDtype):
        return pd.Series(cells.sparse.to_dense())
    if isinstance(kind, pd.CategoricalDtype) and isinstance(kind.categories, pd.IntervalIndex):
        return cells.cat.rename_categories([str(each) for each in kind.categories])
    if pd.api.types.is_object_dtype(kind) and pd.api.types.infer_dtype(cells, skipna=True) in (
        "mixed",
        "mixed-integer",
        "integer",
    ):
        return cells.map(as_text, na_action="ignore")
    return cells
