"""A new row alone is read as the column that it belongs to, however little it shows by itself."""

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.core import FedkinError

RNG = np.random.default_rng(0)
ROWS = 60
TABLE = pd.DataFrame(
    {
        "a": np.arange(ROWS) % 3 * 4 + RNG.normal(size=ROWS),
        "card": RNG.choice(["Y", "N"], ROWS),
        "wait": [f"{hour}:{at:02}" for at, hour in enumerate(RNG.integers(0, 24, ROWS))],
        "price": [f"{price:,.2f}" for price in RNG.uniform(200, 3_000_000, ROWS)],
        "share": [f"{share}%" for share in RNG.integers(1, 90, ROWS)],
        "test": RNG.choice(["+", "-"], ROWS),
    }
)


@pytest.mark.parametrize("as_file", [True, False])
def test_each_row_alone_is_as_among_all(tmp_path, as_file):
    model = fedkin.KFed(n_clusters=3, random_state=0).fit([TABLE.iloc[:35], TABLE.iloc[25:]])
    together = model.preparation_.apply(TABLE)
    for at in range(20):
        row = TABLE.iloc[[at]]
        if as_file:
            row.to_csv(path := tmp_path / "row.csv", index=False)
        alone = model.preparation_.apply(path if as_file else row)
        assert alone[0].tolist() == pytest.approx(together[at].tolist(), abs=1e-6)


def test_what_is_something_else_is_refused_as_before():
    model = fedkin.KFed(n_clusters=3, random_state=0).fit([TABLE.iloc[:35], TABLE.iloc[25:]])
    for name, cell, held in (("card", "maybe", "truth values"), ("wait", "soon", "numbers"), ("price", "x", "numbers")):
        with pytest.raises(
            FedkinError, match=f"holds categories such as '{cell}'; in the clients' tables it holds {held}"
        ):
            model.predict(TABLE.iloc[[0]].assign(**{name: cell}))


def test_other_words_for_truth_values_are_known():
    model = fedkin.KFed(n_clusters=3, random_state=0).fit([TABLE.iloc[:35], TABLE.iloc[25:]])
    row = TABLE.iloc[[0]]
    for cell, own in (("yes", "Y"), ("n", "N"), ("No", "N")):
        assert model.preparation_.apply(row.assign(card=cell)).tolist() == (
            model.preparation_.apply(row.assign(card=own)).tolist()
        )
