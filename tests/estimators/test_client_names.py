"""Clients that have names, or numbers for names, are asked for by them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import fedkin
from fedkin.core import FedkinError

X, Y = load_digits(return_X_y=True)
CLIENTS = [(X[at : at + 100], Y[at : at + 100]) for at in range(0, 600, 100)]
A = X[:30]


@pytest.mark.filterwarnings("ignore:.* clusters were asked for")
def test_clients_that_have_names_predict_by_them() -> None:
    named = {f"site {i}": client for i, client in enumerate(CLIENTS)}
    model = fedkin.IFCA(n_clusters=2, rounds=1, random_state=0).fit(named)
    x = CLIENTS[1][0]
    assert np.array_equal(model.predict(x, client="site 1"), model.predict(x, client=1))
    with pytest.raises(FedkinError, match=r"^Unknown client 'site 99'; allowed: site 0, site 1, "):
        model.predict(x, client="site 99")


def test_clients_with_numbers_for_names_predict_by_position_and_text() -> None:
    model = fedkin.OCFL(rounds=4, module="perceptron", random_state=0).fit(
        dict(zip((7, 9, 1, 0, 3, 2), CLIENTS, strict=True))
    )
    assert model.client_names_ == ["7", "9", "1", "0", "3", "2"]
    assert list(model.predict({9: A, 7: A})) == [9, 7]
    assert model.predict(A, client=0).tolist() == model.predict(A, client="7").tolist()
    assert model.client_labels_[4] == model.client_labels_["3"]
    said = "client is 9; numbers are positions, 0 to 5, in the order of fit; '9', in quotation marks"
    with pytest.raises(FedkinError, match=said):
        model.predict(A, client=9)
    with pytest.raises(IndexError, match=said):
        model.client_labels_[9]
    assert model.client_labels_[[0, 1]].shape == (2,)
