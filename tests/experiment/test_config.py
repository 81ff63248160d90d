from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.experiment import registry
from fedkin.experiment.config import load_config
from toy import Blobs, Toy

TOY = ("simulation.scenario=toy",)


@pytest.mark.usefixtures("toy")
def test_a_method_name_gives_a_complete_experiment() -> None:
    config = load_config("toy", TOY)
    assert config.method == Toy()
    assert config.scenario == Blobs("digits")
    assert config.tables["method"] == {
        "name": "toy",
        "rounds": 4,
        "rate": 0.5,
        "kind": "auto",
        "parts": "auto",
        "limit": 3,
        "widths": "none",
        "center": "origin",
        "pause": 0.0,
    }
    sections = ["method", "data", "federation", "device", "simulation", "evaluation", "tracking"]
    assert list(config.tables) == ["seed", *sections]
    assert config.tables["evaluation"] == {
        "every": 1, "common_test": True, "map": "tsne", "target": "none", "reach": "none", "stop": False
    }  # fmt: skip
    assert config.tables["tracking"]["to"] == []


@pytest.mark.usefixtures("toy")
def test_a_file_and_overrides_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'seed = 3\n[data]\nsource = "wine"\n[simulation]\nscenario = "toy"\n[method]\nname = "toy"\nrounds = 7\n'
    )
    config = load_config(path, ["method.rounds=9", "method.kind=mean", "method.widths=[3, 2]", "method.center=none"])
    assert (config.seed, config.data.source, config.scenario.data) == (3, "wine", "wine")
    assert config.method == Toy(rounds=9, kind="mean", widths=(3, 2), center=None)


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
    center=st.none() | st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: text != "none"),
)
def test_any_experiment_survives_being_written(seed, rate, parts, widths, center, tmp_path_factory) -> None:
    import tomli_w

    import toy

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.METHODS, "toy", toy.METHOD)
        given = {"rate": rate, "parts": parts, "widths": "none" if widths is None else widths}
        given["center"] = "none" if center is None else center
        path = tmp_path_factory.mktemp("config") / "config.toml"
        path.write_text(tomli_w.dumps({"seed": seed, "method": {"name": "toy", **given}}), encoding="utf-8")
        config = load_config(path)
        assert config.method == Toy(
            rate=rate, parts=parts, widths=None if widths is None else tuple(widths), center=center
        )
        path.write_text(config.to_toml(), encoding="utf-8")
        assert load_config(path) == config


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("method.seed=3", "Unknown key on the command line: 'method.seed'; did you mean 'seed'?"),
        ("federation.zzz=3", "Unknown key on the command line: 'federation.zzz'; the nearest of 12 are "),
        ("method.round=3", "Unknown key on the command line: 'method.round'; did you mean 'method.rounds'?"),
        ("simulation.heterogeneity=1", "'simulation.heterogeneity' on the command line"),
        ("devic.chunk=3", "Unknown key on the command line: 'devic'; did you mean 'device'?"),
        ("method.rounds=true", "'method.rounds' is True on the command line; it should be a valid integer."),
        ("method.rate=nan", "'method.rate' is nan on the command line; it should be a finite number."),
        ("method.widths=[1, 'a']", "'method.widths' is [1, 'a'] on the command line; it should be a valid integer."),
        ("method.rounds=0", "method.rounds must be at least 1, not 0."),
        ("seed=-1", "'seed' is -1 on the command line; it should be greater than or equal to 0."),
        ("data.drop=[wt, sat]", "'data.drop' is '[wt, sat]' on the command"),
        ("simulation.drop_rate=1", "'simulation.drop_rate' is 1 on the command line; it should be less than 1."),
        ("evaluation.every=0", "'evaluation.every' is 0 on the command line; it should be greater than 0."),
        ("evaluation.reach=nan", "'evaluation.reach' is nan on the command line; it should be a finite number."),
        ("evaluation.target=3", "'evaluation.target' is 3 on the command line; it should be a valid string."),
        (
            "evaluation.reached=1",
            "Unknown key on the command line: 'evaluation.reached'; did you mean 'evaluation.reach'?",
        ),
        ("tracking.name=''", "'tracking.name' is '' on the command line;"),
        ("device=3", "'device' is 3 on the command line; it should be a section, [device]."),
        ("engine.workers=1", "'engine' on the command line is of an earlier version; its options are in [device], "),
        ("method.name=tyo", "Unknown method 'tyo'; did you mean 'toy'?"),
        ("data.scaling=x", "'data.scaling' is 'x' on the command line; it should be 'auto', 'standard' or 'none'."),
        ('data.na_values=["\\N"]', '--set data.na_values=["\\N"] cannot be read,'),
        ("rounds", "--set takes section.key=value, such as method.local_epochs=30, not 'rounds'."),
    ],
)
def test_a_bad_value_gets_one_sentence(override: str, sentence: str) -> None:
    with pytest.raises(FedkinError) as caught:
        load_config("toy", [*TOY, override])
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


OPEN = "'federation.secure_sums' is true, but method '{}' needs more than sums over clients; these do not: "
ABLE = "kin-graph, ffcm with aggregation = 'mean' and start = 'uniform', fedavg, "
ABLE += "fedopt, ifca."


@pytest.mark.parametrize(
    "method",
    sorted(registry.METHODS.keys() - {"ffcm", "kin-graph", "fedavg", "fedopt", "ifca"}),
    ids=lambda method: method,
)
def test_secure_sums_are_refused_by_name_where_sums_are_not_enough(method: str) -> None:
    with pytest.raises(FedkinError) as caught:
        load_config(method, ["federation.secure_sums=true", "data.scaling=none"])
    assert str(caught.value) == OPEN.format(method) + ABLE
