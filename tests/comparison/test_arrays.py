from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.core import FedkinError

RNG = np.random.default_rng(0)
TRUTH = [RNG.integers(0, 2, 40) for _ in range(2)]
SITES = [RNG.normal(size=(40, 2)) + 9 * y[:, None] for y in TRUTH]
OPTIONS = {"methods": ["kfed", "kmeans"], "clusters": 2, "budget": "1h", "seeds": 1, "settings": ["engine.workers=1"]}


def test_arrays_are_compared_as_files_are(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = fedkin.compare(SITES, TRUTH, out=out, **OPTIONS)
    assert found.recommended == "kfed"
    assert found.table.loc[found.table["recommended"], "ari"].tolist() == [1.0]
    assert found.truth_gap == 0
    assert [path.name for path in sorted((out / "data").iterdir())] == ["site-0.npz", "site-1.npz"]
    again = fedkin.compare([pd.DataFrame(x, columns=["a", "b"]) for x in SITES], TRUTH, out=out, **OPTIONS)
    assert again.lines == found.lines
    by_folder = fedkin.compare(out / "data", out=out, **OPTIONS)
    assert by_folder.lines == found.lines
    with pytest.raises(FedkinError, match=r"site-0.npz holds other samples than are given now; give another out\."):
        fedkin.compare([x + 1 for x in SITES], TRUTH, out=out, **OPTIONS)
    with pytest.raises(FedkinError, match=r"site-0.npz holds other samples than are given now"):
        fedkin.compare(SITES, out=out, **OPTIONS)
    with pytest.raises(FedkinError, match=r"holds site-1.npz of another comparison; give another out\."):
        fedkin.compare(SITES[:1], TRUTH[:1], out=out, **OPTIONS)


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=r"labels has 1 arrays for 2 sites; one for each is needed\."):
        fedkin.compare(SITES, TRUTH[:1], out=tmp_path, **OPTIONS)
    with pytest.raises(FedkinError, match=r"labels of site 1 have shape \(7,\); it should be \(40,\)\."):
        fedkin.compare(SITES, [TRUTH[0], TRUTH[1][:7]], out=tmp_path / "new", **OPTIONS)
    with pytest.raises(FedkinError, match="labels were given beside 'blobs', which has its own"):
        fedkin.compare("blobs", TRUTH, **OPTIONS)
