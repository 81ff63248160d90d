"""Parameters that every estimator has beside the options of its method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch


@dataclass(frozen=True)
class EstimatorOptions:
    """Parameters of every estimator beside its method's; `device` only where the method trains networks.

    Attributes
    ----------
    scaling : {"auto", "standard", "none"}
        How samples are scaled: "auto" keeps data in [0, 1] as they are, divides columns in one unit, such as pixels, by
        one scale, and standardises others, with statistics that clients send, where a few values far from all others
        count as a limit; "standard" standardises all columns, without limits.
    drop : list of str
        Columns of DataFrames that are left out.
    id : str
        The column of DataFrames that names rows and is no feature; "auto" to recognise it, "none" if there is none.
    categorical : list of str
        Columns whose values are names, also where they are numbers.
    ordinal : dict of str to list of str, or None
        By column, its levels in order, from the lowest.
    lacking : {"drop", "impute"}
        What happens to a column that a client lacks or that is mostly empty.
    imputation : {"neighbours", "median"}
        What empty cells take: the mean of the five most similar rows of the same client, or the median or most frequent
        value of all clients, as empty cells of new rows always do, and with an ``epsilon``.
    indicator : bool
        Whether a column with empty cells gets an indicator column for them.
    random_state : int, RandomState or None
        Seed; the same number gives the same result.
    device : str or torch.device
        Where networks compute: "cpu", what torch calls a GPU, such as "cuda", or "auto", a GPU if there is one.
    verbose : bool
        Whether to show progress on stderr.
    """

    scaling: Literal["auto", "standard", "none"] = "auto"
    drop: Sequence[str] = ()
    id: str = "auto"
    categorical: Sequence[str] = ()
    ordinal: Mapping[str, Sequence[str]] | None = None
    lacking: Literal["drop", "impute"] = "drop"
    imputation: Literal["neighbours", "median"] = "neighbours"
    indicator: bool = False
    random_state: int | np.random.RandomState | None = None
    device: str | torch.device = "cpu"
    verbose: bool = False
