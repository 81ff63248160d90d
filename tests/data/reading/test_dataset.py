import numpy as np
import pandas as pd
import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.dataset import encode_labels


@pytest.mark.parametrize(
    ("values", "indices", "classes"),
    [
        ([10, 9, 10], [1, 0, 1], ["9", "10"]),
        (["10", "9"], [1, 0], ["9", "10"]),
        (["dog", "cat", "dog"], [1, 0, 1], ["cat", "dog"]),
        ([2.0, 1.0], [1, 0], ["1", "2"]),
        (np.array([True, False]), [1, 0], ["False", "True"]),
        (np.array(["b", "a"], dtype=object), [1, 0], ["a", "b"]),
        ([-1, 1], [0, 1], ["-1", "1"]),
    ],
)
def test_labels_of_any_plain_type_become_indices(values, indices, classes):
    y, names = encode_labels(values, "It")
    assert y.tolist() == indices
    assert str(y.dtype) == "torch.int64"
    assert names == classes


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([2.0, 1.5], "It has labels that are fractions, such as"),
        ([1.0, np.nan], 'It lacks 1 of 2 labels; leave out these rows, or set label = "none" to use no labels.'),
        (pd.array(["a", None], dtype="string"), "It lacks 1 of 2 labels; leave out these rows"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(values, sentence):
    with pytest.raises(FedkinError) as error:
        encode_labels(values, "It")
    assert str(error.value).startswith(sentence)
