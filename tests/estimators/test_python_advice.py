"""Errors and notes of estimators advise what there is in Python, not options of a run."""

import numpy as np
import pandas as pd
import pytest

from fedkin import FedkinError, FedkinWarning, KinGraph
from fedkin.estimators.parameters import in_python
from workbooks import saved


def test_options_that_estimators_lack_are_those_of_pandas(tmp_path):
    rows = np.arange(30)
    commas = pd.DataFrame({"a": [f"{row + 1},125" for row in rows], "b": rows})
    with pytest.raises(FedkinError, match=r"read the files with pandas.read_csv\(..., decimal=','\) or thousands"):
        KinGraph().fit({"n": commas, "s": commas})
    (tmp_path / "n.csv").write_bytes("a,b\nK\xf6ln,1\nUlm,2\n".encode("latin-1"))
    with pytest.raises(FedkinError, match=r"read the files with pandas.read_csv\(..., encoding='cp1252'\), or what"):
        KinGraph().fit(tmp_path)
    book = saved(tmp_path / "b.xlsx", rows=[["a"], [1]], words=[["b"], [2]])
    with pytest.raises(FedkinError, match=r"; read it with pandas.read_excel\(..., sheet_name='rows'\) and give"):
        KinGraph().fit([book])


def test_wrong_cells_are_named_where_pandas_reads_them():
    words = pd.DataFrame({"a": [*map(str, np.arange(60) / 4), "unknown"], "b": np.arange(61)})
    with pytest.raises(FedkinError) as error:
        KinGraph().fit([words, words])
    assert "in na_values" not in str(error.value)
    assert "pandas.read_csv(..., na_values=[...]) and give the DataFrames" in str(error.value)


def test_notes_are_in_terms_of_python(tmp_path):
    for name in "ns":
        frame = pd.DataFrame({"v": np.arange(40) % 13 + 0.5, "w": np.arange(40) % 7, "class": np.arange(40) % 2})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.warns(FedkinWarning, match="or 'none'"):
        notes = KinGraph().fit(tmp_path).preparation_.notes
    assert any("name the labels with y, or 'none'" in note for note in notes)
    assert not any("data.label" in note for note in notes)
    assert in_python("pooled (data.min_members), it is") == "pooled, it is"
