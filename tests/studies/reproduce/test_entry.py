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


def test_names_stand_for_entries(tmp_path: Path) -> None:
    names = names_of_entries()
    assert list(chosen("all")) == names
    assert all(name.startswith("fedcref/") for name in chosen("fedcref"))
    assert list(chosen(names[0])) == [names[0]]
    (tmp_path / "own.toml").touch()
    assert chosen(str(tmp_path / "own.toml")) == {"own": tmp_path / "own.toml"}
    with pytest.raises(FedkinError, match="Unknown entry 'fedcref/table-66'; did you mean"):
        chosen("fedcref/table-66")
