"""Run folders with a damaged file: whatever is asked of one, it does its work or says one sentence."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import predict
from fedkin.experiment.run import execute, report, resume
from fedkin.experiment.run_folder import CHECKPOINT, CONFIG, RECORDS, TIMING
from fedkin.experiment.tracking import track
from fuzzing import damaged_bytes, fuzzed

pytestmark = [
    pytest.mark.usefixtures("toy"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]
RESULTS = ["result.json", "models.safetensors"]
LABELS = "labels/client-0.csv"


def ask_predict(folder: Path) -> None:
    (folder.parent / "new.csv").write_text("a,b\n1,2\n3,4\n")
    predict(folder, str(folder.parent / "new.csv"))


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A run that has ended."""
    config = load_config("toy", ["simulation.scenario=toy", "method.rounds=3", "device.workers=1"])
    execute(config, tmp_path / "finished")
    return tmp_path / "finished"


def asked(ask: Callable[[Path], object], folder: Path) -> bool:
    """Whether a folder is used, rather than refused."""
    try:
        ask(folder)
    except FedkinError as error:
        return _refused(error)
    return True


def _refused(error: FedkinError) -> bool:
    assert 0 < len(str(error)) < 5_000
    return False


def ask_track(folder: Path) -> None:
    (folder / "tracking.json").unlink(missing_ok=True)
    track(folder, ["tensorboard"], [f"tracking.folder={folder.parent / 'events'}"])


USED: dict[Callable[[Path], object], set[str]] = {
    report: {CONFIG, RECORDS, CHECKPOINT, *RESULTS},
    resume: {CONFIG, RECORDS, CHECKPOINT},
    ask_predict: {CONFIG, *RESULTS},
    ask_track: {CONFIG, RECORDS},
}
"""What is refused if a byte of it is another; what is not used, or written again, does not matter."""


@pytest.mark.parametrize("ask", USED)
def test_a_damaged_folder_is_used_or_refused(ask: Callable[[Path], object], finished: Path, tmp_path: Path) -> None:
    names, folder, ends = [CONFIG, RECORDS, TIMING, CHECKPOINT, *RESULTS, LABELS], tmp_path / "run", Counter[bool]()
    whole = {name: (finished / name).read_bytes() for name in names}

    @fuzzed(16, len(USED))
    @given(st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), damaged_bytes(whole[name]))))
    def check(damage: tuple[str, bytes]) -> None:
        name, content = damage
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(tmp_path / "events", ignore_errors=True)
        shutil.copytree(finished, folder)
        (folder / name).write_bytes(content)
        ends[used := asked(ask, folder)] += 1
        assert used == (name not in USED[ask] or content == whole[name])

    check()
    assert ends[False]
    assert ends[True]


@pytest.mark.parametrize(("right", "damaged"), [('"scale"', '"skale"'), ("__tensor__", "__tenser__"), ("{", "[")])
def test_a_result_whose_preparation_is_damaged_is_refused(right: str, damaged: str, finished: Path) -> None:
    (finished / "SHA256SUMS").unlink()
    path = finished / "result.json"
    before, preparation = path.read_text().split('"preparation"')
    path.write_text(before + '"preparation"' + preparation.replace(right, damaged))
    with pytest.raises(FedkinError, match="holds no result to predict with"):
        ask_predict(finished)
