import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import FedkinError
from fedkin.nn import modules
from fedkin.nn.modules import build, choose


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    monkeypatch.setattr(modules, "_factories", dict(modules._factories))


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """A module `nets` of a user, made of the text it is called with."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text):
        monkeypatch.delitem(sys.modules, "nets", raising=False)
        (tmp_path / "nets.py").write_text(text)

    yield write
    sys.modules.pop("nets", None)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_what_is_chosen_can_be_built(shape):
    name = choose(shape)
    assert name == ("lenet5" if len(shape) == 3 and min(shape[1:]) >= 4 else "perceptron")
    with torch.device("meta"):
        build(name, shape, 3)


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        (":make", "", "cannot be imported, as 'package.module:name'"),
        ("absent_nets:make", "", "absent_nets:make' cannot be imported.*PYTHONPATH: ModuleNotFoundError"),
        ("nets:make", "", "PYTHONPATH: AttributeError: .*make"),
        ("nets:make", "def make(shape): pass", "fails on samples.*TypeError"),
        ("nets:make", "from torch import nn\ndef make(s, c): return nn.Linear(9, c)", "fails on samples of shape"),
        (
            "nets:make",
            "from torch import nn\ndef make(s, c): return nn.LSTM(4, c)",
            "into type tuple; it must be logits",
        ),
    ],
)
def test_what_is_no_model_ends_in_one_sentence(nets, path, text, sentence):
    nets(text)
    with pytest.raises(FedkinError, match=sentence) as caught:
        build(path, (4,), 3)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
