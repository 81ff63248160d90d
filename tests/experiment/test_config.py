"""Experiments as files, settings and methods of one's own declare them, and what is refused in one sentence."""

import sys
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.experiment import registry
from fedkin.experiment.config import load_config
from toy import METHOD, Blobs, Toy

TOY = ("simulation.scenario=toy",)
OF_OWN = """
from dataclasses import dataclass
from typing import Literal

import torch
from fedkin.methods.samples.kfed import KFedMethod


def having(**options):
    made = type("Made", (KFedMethod,), {"__annotations__": {k: v for k, (v, _) in options.items()},
                "__module__": __name__, **{k: v for k, (_, v) in options.items()}})
    return dataclass(frozen=True)(made)


Called = having(name=(str, "x"))
Tensors = having(z=(torch.Tensor | None, None))
Word = having(z=(Literal["a", "b"], "c"))
"""


@pytest.mark.usefixtures("toy")
def test_a_method_name_gives_a_complete_experiment() -> None:
    config = load_config("toy", TOY)
    assert (config.method, config.scenario) == (Toy(), Blobs("digits"))
    assert config.tables["method"] == {
        "name": "toy", "rounds": 4, "rate": 0.5, "kind": "auto", "parts": "auto", "limit": 3, "center": "origin",
        "pause": 0.0, "variant": "fedkin",
    }  # fmt: skip
    sections = ["method", "data", "federation", "device", "simulation", "evaluation"]
    assert list(config.tables) == ["seed", *sections]


@pytest.mark.usefixtures("toy")
def test_a_file_and_overrides_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'seed = 3\n[data]\nsource = "wine"\n[simulation]\nscenario = "toy"\n[method]\nname = "toy"\nrounds = 7\n'
    )
    config = load_config(path, ["method.rounds=9", "method.kind=mean", "method.widths=[3, 2]"])
    assert (config.seed, config.data.source, config.scenario.data) == (3, "wine", "wine")
    assert config.method == Toy(rounds=9, kind="mean", widths=(3, 2))


@pytest.mark.parametrize("method", list(registry.METHODS))
def test_defaults_of_every_method_survive_being_written(method: str, tmp_path: Path) -> None:
    config = load_config(method)
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    assert load_config(path) == config


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**62),
    rate=st.floats(allow_nan=False, allow_infinity=False),
    parts=st.integers() | st.just("auto"),
    widths=st.none() | st.lists(st.integers(0, 99)),
    center=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_any_experiment_survives_being_written(seed, rate, parts, widths, center, tmp_path_factory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.METHODS, "toy", METHOD)
        options = {"rate": rate, "parts": parts, "center": center}
        options |= {} if widths is None else {"widths": widths}
        path = tmp_path_factory.mktemp("config") / "config.toml"
        path.write_text(tomli_w.dumps({"seed": seed, "method": {"name": "toy", **options}}), encoding="utf-8")
        config = load_config(path)
        widths = None if widths is None else tuple(widths)
        assert config.method == Toy(rate=rate, parts=parts, widths=widths, center=center)
        path.write_text(config.to_toml(), encoding="utf-8")
        assert load_config(path) == config


KEY = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlz"
    "dHAyNTYAAABBBIdDw+s7fBft4h6QKziAStYoMKsc7XLErW4dKso9HeTtOtJAbcfA499BLVVaO9xDqRNEtpJ4UYDH+Od4VoOlOhw="
)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("method.seed=3", "Unknown key in the settings: 'method.seed'; did you mean 'seed'?"),
        ("federation.zzz=3", "Unknown key in the settings: 'federation.zzz'; allowed: "),
        ("devic.chunk=3", "Unknown key in the settings: 'devic'; did you mean 'device'?"),
        ("method.rounds=true", "'method.rounds' is True in the settings; it should be a valid integer."),
        ("method.rate=nan", "'method.rate' is nan in the settings; it should be a finite number."),
        ("method.widths=[1, 'a']", "'method.widths' is [1, 'a'] in the settings; it should be a valid integer."),
        ("method.rounds=0", "method.rounds must be at least 1, not 0."),
        ("device=3", "'device' is 3 in the settings; it should be a section, [device]."),
        ("method.name=tyo", "Unknown method 'tyo'; did you mean 'toy'?"),
        ("rounds", "A setting is section.key=value, such as method.local_epochs=30, not 'rounds'."),
        ("federation.clients=['a', 'b', 'a']", "'federation.clients' lists 'a' twice."),
        (f"federation={{clients = ['a'], keys = {{b = '{KEY}'}}}}", "'federation.keys' has a key of 'b', which"),
        (f"federation.keys={{a = '{KEY}', b = '{KEY} of b'}}", "'federation.keys' has one key for 'a' and 'b';"),
        ("federation={clients = ['a'], sites = 2}", "'federation.sites' is 2, but [federation] lists 1 clients."),
    ],
)
def test_a_bad_value_gets_one_sentence(override: str, sentence: str) -> None:
    with pytest.raises(FedkinError) as caught:
        load_config("toy", [*TOY, override])
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", registry.METHODS)
def test_secure_sums_are_refused_where_sums_are_not_enough(method: str) -> None:
    options = ["federation.secure_sums=true", "data.scaling=none"]
    if method in ("kin-graph", "fedavg", "fedopt", "ifca"):
        assert load_config(method, options).federation.secure_sums
        return
    with pytest.raises(FedkinError, match="takes more than sums" if method == "ffcm" else "needs more than sums"):
        load_config(method, options)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Called", r"has an option called 'name', a name that fedkin uses itself; call it otherwise\.$"),
        ("Tensors", r"has an option of a type that a file cannot hold"),
        ("Word", r"^'method.z' is 'c' by default; it should be 'a' or 'b'\.$"),
    ],
)
def test_options_of_ones_own_that_no_experiment_can_have_are_refused(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_options_of_mine.py").write_text(OF_OWN)
    monkeypatch.delitem(sys.modules, "own_options_of_mine", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FedkinError, match=sentence):
        load_config(f"own_options_of_mine:{name}")
