import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import fedkin.nn
from fedkin.core.errors import FedkinError
from fedkin.nn import MODELS, build, choose, modules, register
from fedkin.nn.networks import Dropout

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
ROW = re.compile(r"^\| `([\w-]+)` \|.*\| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)


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


def linear(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))


def test_names_are_listed_without_torch():
    program = "import sys; from fedkin.nn import MODELS; sys.exit('torch' in sys.modules or not MODELS)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_every_name_has_a_line_and_a_factory():
    assert list(MODELS) == list(modules._factories)[: len(MODELS)]  # others may have been registered since
    assert all(line.endswith(".") and "\n" not in line for line in MODELS.values())


def test_the_package_offers_what_it_says():
    assert dir(fedkin.nn) == ["MODELS", "build", "choose", "loss_of", "register"]
    assert all(hasattr(fedkin.nn, name) for name in dir(fedkin.nn))
    with pytest.raises(AttributeError, match="'bild'"):
        fedkin.nn.bild  # noqa: B018


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_built_for_grey_and_colour(name):
    with torch.device("meta"):
        for shape in ((1, 28, 28), (3, 32, 32)):
            module = build(name, shape, 7)
            assert all(layer.training for layer in module.modules())
            assert all(p.requires_grad and p.dtype == torch.float32 for p in module.parameters())


def test_the_pages_table_is_true():
    rows = {
        name: (grey, colour) for name, grey, colour in ROW.findall(PAGE.read_text().partition("## Autoencoders")[0])
    }
    assert list(rows) == list(MODELS)
    with torch.device("meta"):
        for name, printed in rows.items():
            modules = (build(name, shape, 10) for shape in ((1, 28, 28), (3, 32, 32)))
            assert printed == tuple(f"{sum(p.numel() for p in module.parameters()):,}" for module in modules), name


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_what_is_chosen_can_be_built(shape):
    name = choose(shape)
    assert name == ("lenet5" if len(shape) == 3 and min(shape[1:]) >= 4 else "perceptron")
    with torch.device("meta"):
        build(name, shape, 3)


def test_unknown_names_get_the_nearest():
    with pytest.raises(FedkinError, match="Unknown model 'lenet'; did you mean 'lenet5'"):
        build("lenet", (1, 8, 8), 3)


@pytest.mark.parametrize(("shape", "classes"), [((), 3), ((0,), 3), ((1, 8, 0), 3), ((4,), 0)])
def test_empty_shapes_and_no_classes_are_refused(shape, classes):
    with pytest.raises(FedkinError, match="all must be 1 or more"):
        build("perceptron", shape, classes)


def test_a_registered_model_is_built_with_its_lazy_layers_made():
    register("mine", linear)
    module = build("mine", [2, 3], 4)
    assert [tuple(p.shape) for p in module.parameters()] == [(4, 6), (4,)]
    assert module.training


def test_a_name_belongs_to_one_factory():
    register("mine", linear)
    register("mine", linear)
    with pytest.raises(FedkinError, match="'mine' exists already"):
        register("mine", lambda shape, classes: linear(shape, classes))
    with pytest.raises(FedkinError, match="'lenet5' exists already"):
        register("lenet5", linear)


@pytest.mark.parametrize("name", ["", "auto", "nets:mine"])
def test_names_that_mean_something_else_are_refused(name):
    with pytest.raises(FedkinError, match="cannot be registered"):
        register(name, linear)


def test_what_cannot_be_called_is_no_factory():
    with pytest.raises(FedkinError, match="not a function"):
        register("mine", 3)


def test_a_model_has_something_to_train():
    register("fixed", lambda shape, classes: nn.Flatten())
    with pytest.raises(FedkinError, match=r"^Model 'fixed' has no parameters, so there is nothing to train\.$"):
        build("fixed", (2,), 2)


def test_dropout_of_a_registered_model_is_replaced():
    register("mine", lambda shape, classes: nn.Sequential(nn.Dropout(0.3), linear(shape, classes)))
    module = build("mine", (4,), 2)
    assert isinstance(module[0], Dropout)
    assert module[0].p == 0.3


def test_building_leaves_batch_statistics_untouched():
    register("mine", lambda shape, classes: nn.Sequential(nn.BatchNorm1d(shape[0]), linear(shape, classes)))
    assert build("mine", (4,), 2)[0].num_batches_tracked == 0


def test_a_dotted_path_leads_to_a_factory(nets):
    nets("from torch import nn\ndef make(shape, classes):\n    return nn.Linear(shape[0], classes)\n")
    assert build("nets:make", (5,), 2).weight.shape == (2, 5)


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        (":make", "", "is no dotted path"),
        ("nets:", "", "is no dotted path"),
        ("absent_nets:make", "", "'absent_nets' cannot be imported.*PYTHONPATH: ModuleNotFoundError"),
        ("nets:make", "1 / 0", "'nets' cannot be imported.*ZeroDivisionError: division by zero"),
        ("nets:make", "", "module 'nets' has no 'make'"),
        ("nets:make", "make = 3", "is of type int, not a function"),
        ("nets:make", "def make(shape): pass", "cannot be made for samples.*TypeError"),
        ("nets:make", "def make(shape, classes): return 3", "of type int, not a torch.nn.Module"),
        ("nets:make", "from torch import nn\ndef make(s, c): return nn.Linear(9, c)", "fails on samples of shape"),
        ("nets:make", "from torch import nn\ndef make(s, c): return nn.Linear(4, c + 1)", r"\(2, 4\); it must be"),
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


def test_a_factory_may_refuse_in_its_own_words(nets):
    nets("from fedkin.core import FedkinError\ndef make(s, c): raise FedkinError('Only cats, please.')\n")
    with pytest.raises(FedkinError, match=r"^Only cats, please\.$"):
        build("nets:make", (4,), 3)
