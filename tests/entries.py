"""Entries of one's own for tests: small, quick, and changed as a test needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w

from fedkin.studies.reproduce.entry import PaperEntry, load_entry


def tables(**changes: Any) -> dict[str, Any]:
    """Two rows by two columns on digits, of which one row has figures of a paper."""
    return {
        "title": "Clusters of digits",
        "source": "Table 1",
        "claim": "Clusters are found.",
        "measure": "nmi",
        "axis": "p",
        "run": {
            "data": {"source": "digits"},
            "simulation": {"scenario": "own-class", "fraction": 0.3},
            "evaluation": {"map": "none"},
        },
        "columns": [
            {"name": "p = 0", "at": 0.0, "set": {"simulation.heterogeneity": 0.0}},
            {"name": "p = 1", "at": 1.0, "set": {"simulation.heterogeneity": 1.0}},
        ],
        "rows": [
            {"name": "k-FED", "set": {"method.name": "kfed", "method.n_clusters": 10}, "paper": ["0.1", "0.9 ± 0.5"]},
            {"name": "k-means", "set": {"method.name": "kmeans", "method.n_clusters": 10}},
        ],
        "claims": [{"text": "More than nothing", "chain": ["k-FED | p = 1", "k-means | p = 0", 0.0], "margin": 1.0}],
        "scales": {
            "quick": {"seeds": [0], "core_seconds": 2.0, "differs": "A third of the data."},
            "paper": {"seeds": [0, 1, 2], "core_seconds": 20.0, "set": {"simulation.fraction": 1.0}},
        },
        **changes,
    }


def written(folder: Path, **changes: Any) -> Path:
    """A file with such an entry."""
    path = folder / "try.toml"
    path.write_text(tomli_w.dumps(tables(**changes)))
    return path


def entry(**changes: Any) -> PaperEntry:
    return PaperEntry.model_validate(tables(**changes))


def loaded(folder: Path, **changes: Any) -> PaperEntry:
    return load_entry(written(folder, **changes))
