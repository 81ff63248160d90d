"""Lets the tests of this folder import its modules; the data of four sites."""

import sys
from pathlib import Path

import numpy as np
import pytest

import planted

sys.path.append(str(Path(__file__).parent))

CLUSTERS = [0, 1, 0, 1]
NAMES = np.array([f"class {label}" for label in range(planted.CLASSES)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file for each of four sites."""
    (tmp_path / "data").mkdir()
    for client in planted.clients(CLUSTERS, planted.OPPOSITE):
        np.savez(tmp_path / "data" / f"site-{client.id}.npz", x=3 * client.x.numpy() + 9, y=NAMES[client.y.numpy()])
    return tmp_path / "data"
