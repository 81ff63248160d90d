"""Runs the toy experiment in children that are killed, until one comes to the end; prints how many were killed.

``main(ROUNDS, FOLDER, "writes")``: the Nth child, with FOLDER/N for its files, dies at its Nth write: before a file is
moved into place, or when half a line is appended. Another resumes after it; until there are no more writes.
``main(ROUNDS, FOLDER, SECONDS)``: every child dies so long after its start, a little later each time.
``main(ROUNDS, FOLDER, "random", KILLS, SEED)``: children die at random moments, until there were so many; those that
come to the end before leave FOLDER/0, FOLDER/1 and so on. Prints how many there are.
"""

import os
import random
import signal
import time
from pathlib import Path

import toy
from fedkin.cli import main as fedkin
from fedkin.experiment import registry

OPTIONS = ["--scenario", "toy", "--seed", "3", "--set", "simulation.drop_rate=0.2", "--set", "method.pause=0.01"]


def arguments(folder: Path, rounds: int) -> list[str]:
    if (folder / "config.toml").exists():
        return ["resume", str(folder)]
    return ["run", "toy", "--out", str(folder), *OPTIONS, "--set", f"method.rounds={rounds}"]


def start(folder: Path, rounds: int, writes: int | None = None) -> int:
    """A child that does the experiment, or kills itself at write number `writes`."""
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if writes is not None:
        replace, append, done = os.replace, os.write, []

        def counted(*names: str) -> None:
            done.append(names)
            if len(done) == writes:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*names)

        def halved(handle: int, content: bytes) -> int:
            done.append(handle)
            if len(done) == writes:
                append(handle, content[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return append(handle, content)

        os.replace, os.write = counted, halved
    try:
        fedkin(arguments(folder, rounds))
    except SystemExit as end:
        os._exit(end.code or 0)
    os._exit(1)


def ended(child: int) -> bool:
    """Wait for a child; whether it came to the end, rather than being killed."""
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "a child failed"
    return os.WIFEXITED(status)


def kill_at_every_write(folder: Path, rounds: int) -> int:
    kills = 0
    while not ended(start(folder / str(kills), rounds, writes=kills + 1)):
        assert ended(start(folder / str(kills), rounds))
        kills += 1
    return kills


def kill_at(folder: Path, rounds: int, seconds: float) -> int:
    kills = 0
    while True:
        child = start(folder, rounds)
        time.sleep(seconds * 1.2**kills)
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            return kills
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1


def kill_at_random(folder: Path, rounds: int, kills: int, rng: random.Random) -> int:
    began = time.perf_counter()
    assert ended(start(folder / "0", rounds))
    seconds, runs = time.perf_counter() - began, 1
    while kills:
        child = start(folder / str(runs), rounds)
        time.sleep(rng.uniform(0, 1.2 * seconds))
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            runs += 1
            continue
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills -= 1
    assert ended(start(folder / str(runs), rounds))
    return runs + 1


def main(rounds: int, folder: Path, how: str | float, kills: int = 0, seed: int = 0) -> None:
    registry.METHODS["toy"], registry.SCENARIOS["toy"] = toy.METHOD, toy.SCENARIO
    if how == "random":
        print(kill_at_random(folder, rounds, kills, random.Random(seed)))
    else:
        print(kill_at_every_write(folder, rounds) if how == "writes" else kill_at(folder, rounds, float(how)))
