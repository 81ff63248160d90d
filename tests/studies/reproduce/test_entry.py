import re
from pathlib import Path
from typing import Any

import pytest

import entries
from fedkin.core import FedkinError
from fedkin.studies.reproduce.entry import chosen, load_entry, names_of_entries


def test_an_entry_is_read(tmp_path: Path) -> None:
    entry = entries.loaded(tmp_path)
    assert [row.name for row in entry.rows] == ["k-FED", "k-means"]
    assert entry.cells == {f"{row} | p = {p}" for row in ("k-FED", "k-means") for p in (0, 1)}
    assert entry.scales.paper.seeds == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"titel": "x"}, "'titel' in .* is no known key"),
        ({"measure": 3}, "'measure' is 3 in .*; it should be a valid string"),
        ({"better": "bigger"}, "'better' is 'bigger' in .*"),
        ({"rows": []}, "'rows' is .* in .*a list of at least 1 item"),
        ({"measure": None}, "does not say what to measure in 'k-FED | p = 0'"),
        ({"columns": [{"name": "p"}, {"name": "p"}]}, "Two columns of .* are called 'p'"),
        ({"columns": [{"name": "p"}]}, "Row 'k-FED' of .* has 2 figures of the paper for 1 columns"),
        ({"claims": [{"text": "x", "chain": ["k-FED | p = 0", "k-FED | p = 2"]}]}, "Unknown cell in a claim"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    tables = {key: value for key, value in entries.tables(**changes).items() if value is not None}
    path = tmp_path / "try.toml"
    path.write_text(entries.tomli_w.dumps(tables))
    with pytest.raises(FedkinError, match=re.escape("try.toml")) as caught:
        load_entry(path)
    assert re.search(sentence.replace("|", r"\|"), str(caught.value))
    assert "\n" not in str(caught.value)


def test_scales_and_figures_are_checked(tmp_path: Path) -> None:
    scales = entries.tables()["scales"]
    quick = {**scales["quick"], "rows": ["k-mean"]}
    with pytest.raises(FedkinError, match=r"Unknown row in 'scales.quick' of .*did you mean 'k-means'"):
        entries.loaded(tmp_path, scales={**scales, "quick": quick})
    del quick["seeds"]
    with pytest.raises(FedkinError, match=r"'scales.quick.seeds' has no default; give it in"):
        entries.loaded(tmp_path, scales={**scales, "quick": quick})
    with pytest.raises(FedkinError, match=r"'about 0.9' is not a figure"):
        entries.loaded(tmp_path, rows=[{"name": "k-FED", "paper": ["about 0.9", ""]}])


def test_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=r"Cannot read .*none\.toml"):
        load_entry(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = ")
    with pytest.raises(FedkinError, match="is not a TOML file"):
        load_entry(tmp_path / "bad.toml")


def test_names_stand_for_entries(tmp_path: Path) -> None:
    names = names_of_entries()
    assert list(chosen("all")) == names
    assert all(name.startswith("fedcref/") for name in chosen("fedcref"))
    assert list(chosen(names[0])) == [names[0]]
    (tmp_path / "own.toml").touch()
    assert chosen(str(tmp_path / "own.toml")) == {"own": tmp_path / "own.toml"}
    with pytest.raises(FedkinError, match="Unknown entry 'fedcref/table-66'; did you mean"):
        chosen("fedcref/table-66")


def test_a_measure_of_a_columns_place_needs_one(tmp_path: Path) -> None:
    columns, rows = [{"name": "p = 0"}], [{"name": "k-FED", "set": {"method.name": "kfed"}}]
    with pytest.raises(FedkinError, match=r"measures 'ari@\{at\}' in column 'p = 0', which has no 'at' to put in\.$"):
        entries.loaded(tmp_path, measure="ari@{at}", columns=columns, rows=rows, claims=[])
