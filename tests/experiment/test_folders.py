"""Run folders with damaged files: whatever is asked of one, it does its work or says one sentence."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toy
from fedkin.core import FedkinError
from fedkin.experiment import registry
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import predict
from fedkin.experiment.revision import forget
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import CHECKPOINT, CONFIG, RECORDS, TIMING
from fuzzing import damaged_bytes, fuzzed

pytestmark = [pytest.mark.usefixtures("toy"), pytest.mark.filterwarnings("ignore")]
RESULTS = ["result.json", "models.safetensors"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.METHODS, "toy", toy.METHOD)
        patch.setitem(registry.SCENARIOS, "toy", toy.SCENARIO)
        folder = tmp_path_factory.mktemp("finished") / "run"
        execute(load_config("toy", ["simulation.scenario=toy", "method.rounds=3", "device.workers=1"]), folder)
        yield folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def ask_predict(folder: Path) -> None:
    (folder.parent / "new.csv").write_text("a,b\n1,2\n3,4\n")
    predict(folder, str(folder.parent / "new.csv"))


def is_used(ask: Callable[[Path], object], folder: Path) -> bool:
    """Whether a folder is used, rather than refused in a sentence."""
    try:
        ask(folder)
    except FedkinError:
        return False
    return True


USED: dict[Callable[[Path], object], set[str]] = {
    resume: {CONFIG, RECORDS, CHECKPOINT}, ask_predict: {"models.safetensors"}
}  # fmt: skip
"""What is used: with another byte a file with a checksum is refused, and so may be a text. The rest is not read."""


@pytest.mark.parametrize("ask", USED)
def test_a_damaged_folder_is_used_or_refused(ask: Callable[[Path], object], finished: Path, tmp_path: Path) -> None:
    names, folder = [CONFIG, RECORDS, TIMING, CHECKPOINT, *RESULTS, "labels/client-0.csv"], tmp_path / "run"
    whole, ends = {name: (finished / name).read_bytes() for name in names}, Counter[bool]()

    @fuzzed(16, len(USED))
    @given(st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), damaged_bytes(whole[name]))))
    def check(damage: tuple[str, bytes]) -> None:
        name, content = damage
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(finished, folder)
        (folder / name).write_bytes(content)
        used = is_used(ask, folder)
        ends[used] += 1
        assert used or name in USED[ask]
        assert not used or not name.endswith(".safetensors") or name not in USED[ask] or content == whole[name]

    check()
    assert ends[False]
    assert ends[True]


@pytest.mark.parametrize("section", ["seed", "method", "evaluation"])
def test_an_experiment_that_was_cut_off_or_is_of_another_version_is_refused(section: str, folder: Path) -> None:
    path = folder / "config.toml"
    text = path.read_text()
    head = f"[{section}]" if section != "seed" else "seed"
    for damaged in (text[: text.index(head)], text.replace(head, head.replace(section, "engine"))):
        path.write_text(damaged)
        with pytest.raises(FedkinError, match=r"config\.toml is damaged, or of another version of fedkin; "):
            resume(folder)


DAMAGED = ["{{{\n", "\x00\x01\n", "[1]\n", "null\n", '{"step": "x"}\n', '{"step": 1}\n', "[" * 100_000 + "\n"]


@pytest.mark.parametrize("line", DAMAGED, ids=range(len(DAMAGED)))
def test_broken_records_are_refused_by_line(line: str, folder: Path) -> None:
    path = folder / "records.jsonl"
    first, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, line, *rest]))
    before = path.read_bytes()
    with pytest.raises(FedkinError, match=r"Line 2 of \S*records\.jsonl is damaged"):
        resume(folder)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["forgotten.json", "result.json", "checkpoint.safetensors"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(name: str, folder: Path) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(FedkinError, match=r"no regular file|has not finished"):
        forget(folder, [1], folder.parent / "without")
    assert not (folder.parent / "without").exists()
