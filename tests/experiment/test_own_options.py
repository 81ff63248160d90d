"""Methods of one's own whose options, functions or predictions do not fit are refused in a sentence."""

import sys
from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.experiment.config import load_config

SOURCE = """
from dataclasses import dataclass
from typing import Literal

import torch
from fedkin.methods.samples.kfed import KFedMethod


def having(**options):
    made = type("Made", (KFedMethod,), {"__annotations__": {k: v for k, (v, _) in options.items()},
                "__module__": __name__, **{k: v for k, (_, v) in options.items()}})
    return dataclass(frozen=True)(made)


Called = having(name=(str, "x"))
Complex = having(z=(complex, 1j))
Tensors = having(z=(torch.Tensor | None, None))
Nothing = having(z=(int, None))
Word = having(z=(Literal["a", "b"], "c"))
Predicts = having(predict=(int, 3))


@dataclass(frozen=True)
class Floats(KFedMethod):
    @staticmethod
    def predict(result, x):
        return KFedMethod.predict(result, x).float()


@dataclass(frozen=True)
class Distances(KFedMethod):
    @staticmethod
    def predict(result, x):
        return torch.zeros(len(x), 3)


@dataclass(frozen=True)
class Arrays(KFedMethod):
    @staticmethod
    def predict(result, x):
        return KFedMethod.predict(result, x).numpy()
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_options_of_mine.py").write_text(SOURCE)
    monkeypatch.delitem(sys.modules, "own_options_of_mine", raising=False)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Called", r"has an option called 'name', a name that fedkin uses itself; call it otherwise\.$"),
        ("Tensors", r"has an option of a type that a file cannot hold"),
        ("Nothing", r"^'method.z' is None by default; it should be a valid integer\.$"),
        ("Word", r"^'method.z' is 'c' by default; it should be 'a' or 'b'\.$"),
        ("Predicts", r"has an option called 'predict', a name that fedkin uses itself"),
    ],
)
def test_what_no_experiment_can_have_is_refused_at_loading(name: str, sentence: str) -> None:
    with pytest.raises(FedkinError, match=sentence):
        load_config(f"own_options_of_mine:{name}")
