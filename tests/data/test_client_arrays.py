"""Many clients as one array, as users give them: from memory, files and groups, to `fit` and `predict`."""

import numpy as np
import pytest
import torch

import fedkin
from fedkin.core import FedkinError


def rows():
    x = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
    return 3 * x + np.repeat([[20.0], [0.0], [-20.0]], 30, axis=0).astype(np.float32)[np.arange(90) * 7 % 90]


@pytest.mark.parametrize("model", [fedkin.KFed(n_clusters=3), fedkin.FFCM(n_clusters=3), fedkin.KinGraph(n_clusters=3)])
def test_an_array_is_fitted_and_predicted_as_its_clients_in_a_list(model):
    """Scaling, names, memberships and the notebook's page included."""
    sizes, model = [20, 40, 30], model.set_params(random_state=0)
    single = model.fit(np.split(rows(), np.cumsum(sizes)[:-1]))
    wanted, predicted = single.to_frame(), np.concatenate(single.predict([rows()]))
    array = fedkin.client_array(rows(), np.cumsum([0, *sizes]))
    memberships = np.concatenate(getattr(single, "memberships_", [[]]))
    for _ in range(2):  # the first fit leaves nothing behind
        frame = model.fit(array).to_frame()
        assert frame.drop(columns="confidence").equals(wanted.drop(columns="confidence"))
        np.testing.assert_allclose(frame["confidence"], wanted["confidence"], atol=1e-4)
    np.testing.assert_allclose(np.concatenate(getattr(model, "memberships_", [[]])), memberships, atol=1e-4)
    assert list(map(len, model.predict(array))) == sizes
    assert np.array_equal(np.concatenate(model.predict(array)), predicted)
    with pytest.raises(fedkin.FedkinError, match="no plot 'map'"):
        model.plot("map")
    with pytest.raises(FedkinError):
        model.update(array)


def test_groups_name_clients_and_a_cut_is_that_of_the_same_clients_in_a_dict():
    array = fedkin.client_array(torch.from_numpy(rows()), groups=np.arange(90) % 3)
    how = {"random_state": 0, "broadcast_nodes": False}
    cuts = [fedkin.KinGraph(**how).fit(data).cut(2) for data in (array, {i: rows()[i::3] for i in range(3)})]
    assert cuts[0].to_frame().equals(cuts[1].to_frame())


def test_a_file_is_mapped_and_never_written_to(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(10, dtype=np.float32).reshape(5, 2))
    clients = fedkin.client_array(np.load(path, mmap_mode="c"), [0, 2, 3, 5])
    before = path.read_bytes()
    clients[0].x.zero_()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("x", "how"),
    [
        (np.full((3, 2), np.inf, np.float32), {"offsets": [0, 3]}), (np.zeros((3, 2)), {"offsets": "offsets.npy"}),
        (np.zeros((3, 2)), {}), (np.zeros((3, 2)), {"groups": [0, None, 1]}),
    ],
)  # fmt: skip
def test_rows_that_are_not_finite_or_not_divided_are_refused(x, how):
    with pytest.raises(FedkinError):
        fedkin.client_array(x, **how)
