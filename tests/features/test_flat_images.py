"""Images whose pixels are columns are recognised, and what only looks like them is not."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.features.gradients import flat_images
from fedkin.report.measures import method_remarks

PIXELS, DIGITS = load_digits(return_X_y=True)
SIDE = 10


def rows(x):
    return torch.from_numpy(np.asarray(x, dtype=np.float32))


def curves(rng):
    """Smooth curves of a hundred points."""
    at = np.linspace(0, 1, SIDE**2)
    peaks = np.stack([np.exp(-((at - centre) ** 2) / 0.005) for centre in np.linspace(0, 1, 9)])
    return rng.normal(size=(300, 9)) @ peaks + 0.05 * rng.normal(size=(300, SIDE**2))


OTHERS = {
    "numbers": lambda rng: rng.normal(size=(300, SIDE**2)),
    "answers": lambda rng: rng.normal(size=(300, 1)) + 0.3 * rng.normal(size=(300, SIDE**2)),
    "curves": curves,
    "walks": lambda rng: np.cumsum(rng.normal(size=(300, SIDE**2)), 1),
    "constants": lambda _: np.ones((300, SIDE**2)),
    "no square": lambda rng: np.cumsum(rng.normal(size=(300, 90)), 1),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_columns_are_none(kind):
    for seed in range(3):
        assert flat_images(rows(OTHERS[kind](np.random.default_rng(seed)))[None]) == [False]


def test_kin_graph_finds_digits_in_a_table_as_in_images():
    parts = np.array_split(np.random.default_rng(0).permutation(len(PIXELS)), 2)
    frame = pd.DataFrame(PIXELS, columns=[f"pixel_{i}" for i in range(64)])
    model = fedkin.KinGraph(random_state=0).fit([frame.iloc[part] for part in parts])
    assert adjusted_rand_score(np.concatenate([DIGITS[part] for part in parts]), np.concatenate(model.labels_)) > 0.75
    assert len(model.predict(frame[:5])) == 5
    lines = [{"values": record} for record in model.records_]
    assert method_remarks(lines)[0].startswith("The columns look like the pixels of square images")
