"""Run folders whose files are damaged: one sentence, or a warning where nothing depends on the file."""

import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import toy
from fedkin.core import FedkinError
from fedkin.experiment import registry
from fedkin.experiment.config import load_config
from fedkin.experiment.forgetting import forget, plan_forgetting
from fedkin.experiment.run import execute, report, resume

pytestmark = pytest.mark.usefixtures("toy")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.METHODS, "toy", toy.METHOD)
        patch.setitem(registry.SCENARIOS, "toy", toy.SCENARIO)
        folder = tmp_path_factory.mktemp("finished") / "run"
        execute(load_config("toy", ["simulation.scenario=toy"]), folder)
        yield folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.mark.parametrize(
    "section", ["seed", "method", "data", "federation", "device", "simulation", "evaluation", "tracking"]
)
def test_an_experiment_that_was_cut_off_is_refused(section: str, folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()
    path = folder / "config.toml"
    text = path.read_text()
    assert section in tomllib.loads(text)
    path.write_text(text[: text.index(f"[{section}]" if section != "seed" else "seed")])
    with pytest.raises(FedkinError, match=r"config\.toml is damaged: "):
        resume(folder)


DAMAGED = ["{{{\n", "\x00\x01\n", "[1]\n", "null\n", '{"step": "x"}\n', '{"step": 1}\n', "[" * 100_000 + "\n"]


@pytest.mark.parametrize("line", DAMAGED, ids=range(len(DAMAGED)))
def test_broken_records_are_refused_by_line(line: str, folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()
    path = folder / "records.jsonl"
    first, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, line, *rest]))
    before = path.read_bytes()
    for ask in (resume, report):
        with pytest.raises(FedkinError, match=r"Line 2 of \S*records\.jsonl is damaged"):
            ask(folder)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["SHA256SUMS", "forgotten.json", "result.json", "records.jsonl", "checkpoint.safetensors"]
)
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(name: str, folder: Path) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(FedkinError, match=r"no regular file, but a pipe|has not finished"):
        forget(plan_forgetting(folder, [1]), folder.parent / "without")
    assert not (folder.parent / "without").exists()
