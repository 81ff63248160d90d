"""Folders of sites for tests."""

from pathlib import Path

import numpy as np


def sites(folder: Path, labelled: bool = True, count: int = 3, clusters: int = 2, samples: int = 30) -> str:
    """A folder with one ``.npz`` file per site, with samples of the same distant clusters, 3 at most; its path."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    centres = 8.0 * np.array([[0, 0], [1, 0], [0, 1]])
    for site in range(count):
        y = rng.integers(0, clusters, samples)
        x = rng.normal(size=(samples, 2)) + centres[y]
        np.savez(folder / f"{site}.npz", **({"x": x, "y": y} if labelled else {"x": x}))
    return str(folder)
