"""Ordered categories of which clients have different ones."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.reading.tables import frame_to_table
from fedkin.data.schema import in_one_order
from prepared_tables import federation, pooled

ALL = ["4", "5", "6", "8"]


def test_there_is_one_order_if_another_would_contradict_or_is_not_known():
    assert in_one_order([["4", "6", "8"], ALL]) == ("4", "5", "6", "8")
    assert in_one_order([["low", "mid"], ["mid", "high"]]) == ("low", "mid", "high")
    assert in_one_order([["low", "high"], ["low", "mid"]]) is None
    assert in_one_order([["low", "high"], ["high", "low"]]) is None
    assert in_one_order([["a", "b"], ["b", "a", "c"]]) is None
    assert in_one_order([[]]) == ()


def prepared(first, secure=False):
    """Prepare three clients' tables, of which the first one's cylinders have these levels."""
    rng = np.random.default_rng(0)
    cells = [rng.choice(["4", "6", "8"], 40), rng.choice(ALL, 40), rng.choice(ALL, 40)]
    tables = []
    for own, levels in zip(cells, (first, ALL, ALL), strict=True):
        cylinders = pd.Series(pd.Categorical(own, categories=levels, ordered=True))
        cylinders[7] = np.nan
        frame = pd.DataFrame({"cylinders": cylinders, "power": rng.normal(200, 30, 40)})
        tables.append(frame_to_table(frame, "It"))
    fed = federation(*tables)
    fed.secure_sums = secure
    return prepare(fed, PreparingOptions(scaling="standard", imputation="median")), pooled(fed)


@pytest.mark.parametrize("secure", [False, True])
def test_levels_that_another_client_has_in_the_same_order_are_those_of_both(secure):
    (own, x), (same, expected) = prepared(["4", "6", "8"], secure), prepared(ALL, secure)
    assert own.encoding.schema.columns[0].categories == tuple(ALL)
    for name in ("mean", "scale", "fill"):
        torch.testing.assert_close(getattr(own.encoding, name), getattr(same.encoding, name))
    np.testing.assert_allclose(x, expected, atol=1e-6)
    if not secure:
        assert torch.equal(own.reach, same.reach)


def test_levels_in_no_common_order_are_refused():
    with pytest.raises(FedkinError, match="has levels 8, 6, 4 at one client and 4, 5, 6, 8 at another; name them in"):
        prepared(["8", "6", "4"])
