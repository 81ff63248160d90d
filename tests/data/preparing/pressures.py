"""Blood pressures of patients, some of which are a code."""

import numpy as np
import pandas as pd


def pressures(rows=60, seed=0):
    return np.random.default_rng(seed).normal(130, 12, rows).round(1)


def coded(code, every=10, **columns):
    values = pressures()
    values[::every] = code
    return pd.DataFrame({"pressure": values, **columns})
