"""Tables in other forms of Python than a DataFrame are answered with how to make one; arrays of objects are read."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import fedkin
from fedkin.core import FedkinError

TABLE = pd.DataFrame({"a": np.random.default_rng(0).normal(size=40), "b": np.arange(40) % 2 * 5.0})


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (TABLE.to_dict("records"), "a list of dicts; give {} as a DataFrame, pandas.DataFrame(rows)."),
        (TABLE.to_dict("list"), "a dict of columns; give {} as a DataFrame, pandas.DataFrame(columns)."),
        ({"a": TABLE["a"], "b": TABLE["b"].to_numpy()}, "a dict of columns; give {} as a DataFrame, pandas.DataFrame("),
        (TABLE.to_records(index=False), "a structured array; give {} as a DataFrame, pandas.DataFrame(rows)."),
        (load_iris(), "a Bunch; give {} DataFrame, as load_iris(as_frame=True).frame, or the pair (data, target)."),
    ],
)
def test_other_forms_are_answered_with_a_data_frame(form, sentence):
    its, it = ("their", "its") if "Bunch" in sentence else ("it", "it")
    with pytest.raises(FedkinError) as error:
        fedkin.KFed(n_clusters=2, random_state=0).fit([form, form])
    assert str(error.value).startswith(f"Clients 0 and 1 are {sentence.format(its)}")
    if "Bunch" in sentence or isinstance(form, dict):  # which predict takes for clients by name
        return
    model = fedkin.KFed(n_clusters=2, random_state=0).fit([TABLE, TABLE])
    with pytest.raises(FedkinError) as error:
        model.predict(form)
    assert str(error.value).startswith(f"The data to predict is {sentence.format(it)}")


def test_arrays_of_objects_that_are_numbers_are_read_as_such():
    objects, numbers = (
        fedkin.KFed(n_clusters=2, random_state=0).fit([own, own]) for own in (TABLE.to_numpy(object), TABLE.to_numpy())
    )
    assert (objects.labels_[0] == numbers.labels_[0]).all()
    assert (numbers.predict(TABLE.to_numpy(object)) == numbers.labels_[0]).all()
    holed = TABLE.to_numpy(object).copy()
    holed[3, 0] = None
    with pytest.raises(FedkinError, match="Client 0 has missing or infinite values in 1 of 40 samples"):
        fedkin.KFed(n_clusters=2).fit([holed, TABLE.to_numpy()])
    with pytest.raises(FedkinError, match="hold values of type object, but all must be real numbers"):
        fedkin.KFed(n_clusters=2).fit([TABLE.astype(str).to_numpy(object)] * 2)
