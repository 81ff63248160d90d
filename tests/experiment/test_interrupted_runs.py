"""Runs that are killed, stopped, or start where another is at work."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import forked
import killing
from fedkin.core import FedkinError, Payload, Task
from fedkin.core.files import write_atomically
from fedkin.core.payload import load_tree
from fedkin.data.columns import moments
from fedkin.engines.local import LocalFederation
from fedkin.experiment.run import resume
from toy import Blobs, Toy
from toy_runs import files, run

pytestmark = pytest.mark.usefixtures("toy")


TESTS = Path(__file__).parents[1]


def killed(folder: Path, *how: str | int | float) -> int:
    """A number that killing.py prints; what it runs is in ``folder/killed``."""
    rounds, *more = how
    program = forked.Program(TESTS, folder / "log", killing.main, rounds, folder / "killed", *more)
    code, printed, errors = program.ended()
    assert code == 0, errors
    return int(printed)


def test_killed_at_any_write_a_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "whole", "method.pause=0.01", "method.rounds=2")
    kills = killed(tmp_path, 2, "writes")
    assert kills > 1 + 2 + 3 * 2 + 3
    for number in range(kills):
        assert files(tmp_path / "killed" / str(number)) == files(tmp_path / "whole"), f"killed at write {number + 1}"


def test_killed_at_many_moments_a_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "whole", "method.pause=0.01", "method.rounds=4")
    assert killed(tmp_path, 4, 0.02) > 3
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


@pytest.mark.parametrize("room", [4, 5, 6, 9])
def test_a_full_disk_stops_a_run_that_then_resumes(room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the first step's record or timing is half appended, before its checkpoint is in place, and later."""
    run(tmp_path / "whole")
    replace, write = os.replace, os.write

    def full() -> bool:
        nonlocal room
        room -= 1
        return room < 0

    def replace_or_fail(*names: Path) -> None:
        if full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(*names)

    def write_or_fail(handle: int, content: bytes) -> int:
        if full():
            write(handle, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_or_fail)
        patch.setattr(os, "write", write_or_fail)
        with pytest.raises(FedkinError, match="No space left on device"):
            run(tmp_path / "full")
    assert not list((tmp_path / "full").rglob("*.partial"))
    resume(tmp_path / "full")
    assert files(tmp_path / "full") == files(tmp_path / "whole")


def test_a_refused_start_leaves_the_folder_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise FedkinError("Not today.")

    with monkeypatch.context() as patch:
        patch.setattr(Toy, "init", refuse)
        with pytest.raises(FedkinError, match="Not today"):
            run(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run(tmp_path / "run")


def test_what_came_while_it_waited_to_start_is_not_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(tmp_path / "whole").folder
    monkeypatch.setattr("fedkin.experiment.run.Progress", lambda: shutil.copytree(whole, tmp_path / "run"))
    with pytest.raises(FedkinError, match="is not an empty folder"):
        run(tmp_path / "run")
    assert files(tmp_path / "run") == files(whole)


def test_two_that_start_together_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "whole")
    build, refusals = Blobs.build, []

    def meanwhile(*arguments: object) -> object:
        with monkeypatch.context() as patch:
            patch.setattr("fedkin.experiment.run.check_empty", lambda *_: None)  # it looked when nothing was there yet
            with ThreadPoolExecutor() as threads:
                refusals.append(str(threads.submit(run, tmp_path / "run").exception()))
        return build(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Blobs, "build", meanwhile)
    run(tmp_path / "run")
    assert len(refusals) == 1
    assert "Another process is at work in" in refusals[0]
    assert files(tmp_path / "run") == files(tmp_path / "whole")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FedkinError("Not today."), OSError(13, "Permission denied")])
@pytest.mark.parametrize("where", ["fedkin.experiment.run.open_federation", "fedkin.experiment.run.prepare_data"])
def test_stopped_before_it_begins_it_leaves_nothing(
    error: BaseException, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by a simulation that does not start, when its nodes have said already who they are."""

    def stop(*_: object) -> None:
        write_atomically(tmp_path / "new" / "run" / "clients" / "0" / "identity", "a token")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(where, stop)
        with pytest.raises(type(error)):
            run(tmp_path / "new" / "run")
    assert list(tmp_path.iterdir()) == []
    run(tmp_path / "new" / "run")


LIAR, LIE = 1, "'scaled' is not what it should be"
HONEST = ["simulation.clients=5", "simulation.drop_rate=0"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that a client is asked to do, which lies of its samples as a run begins."""
    real, asked = LocalFederation.deliver, list[str]()

    def deliver(
        fed: LocalFederation, task: Task, payloads: Mapping[int, Payload]
    ) -> Iterator[tuple[int, Payload | str]]:
        asked.extend(task.name for client in payloads if client == LIAR)
        for client, reply in real(fed, task, payloads):
            lies = client == LIAR and task is moments and isinstance(reply, dict)
            yield client, {**reply, "scaled": "perhaps"} if lies else reply

    monkeypatch.setattr(LocalFederation, "deliver", deliver)
    return asked


@pytest.mark.filterwarnings(f"ignore:Client {LIAR} is left out of the run")
def test_who_was_left_out_stays_so_when_the_run_resumes(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = run(tmp_path / "whole", *HONEST).records
    assert set(asked) == {moments.name}
    assert [record["missing"] for record in records] == [{str(LIAR): LIE}] * 4
    with monkeypatch.context() as patched:
        patched.setenv("TOY_INTERRUPT", "2")
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", *HONEST)
    asked.clear()
    resume(tmp_path / "run")
    assert asked == []
    assert load_tree(tmp_path / "run" / "checkpoint.safetensors")["left_out"] == {str(LIAR): LIE}
    assert files(tmp_path / "run") == files(tmp_path / "whole")
