"""The guide on tables shows what its commands do on the four hospitals; skipped without them."""

import html
import os
import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from fedkin.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "your-tables.md").read_text()


@pytest.fixture
def hospitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which ``heart`` is the folder of the guide's four hospitals."""
    data = Path(os.environ.get("FEDKIN_DATA", "")) / "heart"
    if not data.is_dir():
        pytest.skip("FEDKIN_DATA names no folder with the hospitals")
    shutil.copytree(data, tmp_path / "heart")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def guide() -> list[str]:
    """The blocks of the guide on tables that are commands on the hospitals, or what these say."""
    return re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def notes() -> list[str]:
    """Of these, what is said on standard error: a question, what is refused, and what looks wrong."""
    return [block for block in guide() if block.startswith("fedkin: ")]


def test_the_guide_on_hospitals_says_what_its_commands_do(hospitals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its commands as they stand there, its sentences in what they print, and its lines in what they write."""
    commands = [block for block in guide() if block.startswith("fedkin ")]
    assert [shlex.split(command)[1] for command in commands] == ["cluster", "cluster", "predict"]
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main(shlex.split(command)[1:])
        assert not end.value.code, command
    said, noted = capsys.readouterr()
    assert notes()[0] in noted
    sentences, measured = (block for block in guide() if block.startswith("Cluster "))
    assert sentences in said
    assert measured in said
    page = html.unescape((hospitals / "runs" / "heart" / "report.html").read_text())
    assert all(sentence in page for sentence in sentences.splitlines())
    labels = next(block for block in guide() if block.startswith("row,"))
    assert (hospitals / "runs/heart/labels/budapest.csv").read_text().startswith(labels)
    of_new = labels.rpartition(",")[0]  # the confidence is another, where empty cells take another value
    assert (hospitals / "new.csv").read_text().startswith(of_new)


def test_the_guide_on_hospitals_shows_what_looks_wrong_as_it_is_told(
    hospitals: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cleveland, budapest = (hospitals / "heart" / f"{name}.csv" for name in ("cleveland", "budapest"))
    rows = pd.read_csv(cleveland)
    rows.loc[:7, "cholesterol"] = 9999
    rows.to_csv(cleveland, index=False)
    rows = pd.read_csv(budapest)
    rows.assign(max_heart_rate=rows["max_heart_rate"] / 60, sex=rows["sex"].str[0]).to_csv(budapest, index=False)
    with pytest.raises(SystemExit) as end:
        main(shlex.split(guide()[0])[1:])
    assert not end.value.code
    said = capsys.readouterr().err
    assert all(line in said.splitlines() for line in notes()[2].splitlines()), said
