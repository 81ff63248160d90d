"""New samples in files, which are read as the run's own were."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from fedkin.core import FedkinError
from fedkin.experiment import prediction
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data = 3", "data is 3 in {}; it should be a section of options."),
        ("[data]\ndecimal = 7", "{} cannot be used: decimal is 7; allowed: '.', ',' and 'auto'."),
        ("[data]\nencoding = []", "{} cannot be used: encoding is []; it should name one of text, such as 'utf-8'"),
        ("[data]\nna_values = {a = {b = 1}}", "{} cannot be used: na_values['a'] has {'b': 1}; it should have texts"),
        ("[data", "{} is not a TOML file: "),
    ],
)
def test_a_damaged_file_of_how_rows_are_read_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    for name in ("north", "south"):
        rows = "\n".join(f"{7 * at % 40},{at % 2}" for at in range(40))
        (tmp_path / "sites" / f"{name}.csv").write_text(f"a,b\n{rows}\n")
    execute(load_config("kfed", [f"data.source={tmp_path / 'sites'}", "method.n_clusters=2"]), tmp_path / "run")
    damaged = tmp_path / "run" / "reading.toml"
    damaged.write_text(text)
    with pytest.raises(FedkinError) as error:
        prediction.predict(tmp_path / "run", str(tmp_path / "sites" / "north.csv"))
    assert str(error.value).startswith(sentence.replace("{}", str(damaged), 1))


def test_files_are_predicted_as_the_runs_were_read_and_clients_by_name(tmp_path: Path) -> None:
    """With a decimal comma, and by the file's name."""
    rng = np.random.default_rng(0)
    (tmp_path / "sites").mkdir()
    for name in ("north", "south"):
        rows = [f"{1.5 + 9 * (i % 2) + rng.normal():.2f};{rng.normal():.2f};{i % 2}" for i in range(40)]
        (tmp_path / "sites" / f"{name}.csv").write_text("a;b;ill\n" + "\n".join(rows).replace(".", ",") + "\n")
    data = [f"data.source={tmp_path / 'sites'}", "data.label=ill", "scenario.name=files"]
    execute(load_config("ifca", [*data, "method.rounds=1", "method.n_clusters=2"]), tmp_path / "run")
    source = str(tmp_path / "sites" / "south.csv")
    text = prediction.predict(tmp_path / "run", source, client="south.csv")
    assert text == prediction.predict(tmp_path / "run", source, client=1)
    assert text == prediction.predict(tmp_path / "run", source, client="1", decimal=",")
    assert len(rows_of(text)) == 41
    with pytest.raises(FedkinError, match=r"has no client west; allowed: 0 to 1, or north, south"):
        prediction.predict(tmp_path / "run", source, client="west")
    (tmp_path / "new.csv").write_text("a;b\n1,125;2,500\n")
    one = prediction.predict(tmp_path / "run", str(tmp_path / "new.csv"), client=1)
    assert one == prediction.predict(tmp_path / "run", str(tmp_path / "new.csv"), client=1, decimal=",")
    assert len(rows_of(one)) == 2
