"""Sentences name options as the door of the running code does."""

import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.core import FedkinError
from fedkin.core.errors import FILE, PYTHON, SHELL, Door, at_door, option, setting
from fedkin.experiment.config import apply_setting
from shell import fedkin as run


@pytest.mark.parametrize(
    ("door", "form"),
    [(FILE, 'set label = "outcome"'), (SHELL, """give --set 'data.label="outcome"'"""), (PYTHON, "set y='outcome'")],
)
def test_each_door_has_its_own_form(door: Door, form: str) -> None:
    with at_door(door):
        assert setting("label", "outcome") == form
    assert setting("label", "outcome") == 'set label = "outcome"'  # a file's, outside of any door


VALUES = [
    ("drop", ["a b", 'say "so"', "it's", "it's O'"]),
    ("na_values", {"chol level": [-9, "none, known"], "b": [0.5]}),
    ("decimal", ","),
    ("id", "'"),
    ("federation.forgotten", [3, "north"]),
]


@pytest.mark.parametrize(("key", "value"), VALUES)
def test_what_is_advised_can_be_typed(key: str, value: Any) -> None:
    """The shell's form comes out of the shell as the value, and a file's is TOML."""
    with at_door(SHELL):
        how, given = shlex.split(option(key, value))
    tables: dict[str, Any] = {}
    path = apply_setting(tables, given)
    section, _, name = path.partition(".")
    assert (how, tables[section][name]) == ("--set", value)
    assert path == (key if "." in key else f"data.{key}")
    read = tomllib.loads(option(key, value))
    assert (read["federation"]["forgotten"] if "." in key else read[key]) == value


def frame() -> pd.DataFrame:
    rows = np.arange(40.0)
    return pd.DataFrame({"x": np.where(rows > 38, 1e300, rows), "z": rows % 7})


def test_one_sentence_at_three_doors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made deep inside, and in Python also in a worker's thread."""
    frame().to_csv(tmp_path / "a.csv", index=False)
    assert run("run", "kfed", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out")) == 2
    assert """give --set 'data.drop=["x"]'.""" in capsys.readouterr().err
    with pytest.raises(FedkinError, match=r"set drop=\['x'\]\."):
        fedkin.KFed(n_clusters=2).fit([frame()])
    long = pd.DataFrame({"t": ["y" * 501] * 40, "z": range(40)})
    with pytest.raises(FedkinError, match=r"set drop=\['t'\]\."):
        fedkin.KFed(n_clusters=2).fit([long, long.assign(z=range(40, 80))])
