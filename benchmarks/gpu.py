"""Everything that needs a GPU, in parts of at most ten minutes, in order of worth.

    python benchmarks/gpu.py list
    python benchmarks/gpu.py run [PART ...] [--device cuda] [--minutes 28] [--results benchmarks/gpu.jsonl]
    python benchmarks/gpu.py show [--results benchmarks/gpu.jsonl]

`run` runs the parts named, or all that the results file does not have of this device, until the minutes are over. Each
part is a process of its own, and a line of results as soon as it ends: commit, device, versions, seconds, and what it
measured or why it failed. `show` prints the lines as a table.

Parts are the tests of every method on the device; speeds of the device beside the processor and a plain loop there, and
the device's rate of matrix products; and CCFC at its paper's size. With ``--device cpu --tiny`` parts run at a small
size, which shows that they work and measures nothing. The papers' tables are those of ``fedkin reproduce --scale paper
--device cuda``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "gpu.jsonl"
LONGEST = 600.0
"""Seconds of a part at most."""
_GRACE = 20.0
"""Seconds to stop in."""

Values = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes
    ----------
    name, what : str
    command : callable
        From the device, and whether it is to be tiny, to what is run.
    """

    name: str
    what: str
    command: Callable[[str, bool], list[str]]


def speed(which: str) -> Callable[[str, bool], list[str]]:
    """A part of `gpu_speeds.py`."""
    script = str(ROOT / "benchmarks" / "gpu_speeds.py")
    return lambda device, tiny: [sys.executable, script, which, "--device", device, *(["--tiny"] if tiny else [])]


def ccfc_full(p: float, seed: int, remedies: bool = False) -> Callable[[str, bool], list[str]]:
    """CCFC at the paper's size, with views and losses of its authors' code; with what helps where clients differ."""
    settings: dict[str, object] = {
        "simulation.scenario": "own-class", "simulation.heterogeneity": p, "method.form": "code",
        "method.views": "pillow", "method.start": "own", "method.model_weight": 0.001, "evaluation.map": "none",
        "evaluation.every": 5,
    }  # fmt: skip
    settings |= {"method.decorrelation": 1} if remedies else {}
    small = {"simulation.fraction": 0.005, "method.pretrain_rounds": 1, "method.cluster_rounds": 1}

    def command(device: str, tiny: bool) -> list[str]:
        where = {"device.name": device, "device.tf32": str(device != "cpu").lower()}
        words = [
            word
            for key, value in (settings | where | (small if tiny else {})).items()
            for word in ("--set", f"{key}={value}")
        ]
        return [sys.executable, "-m", "fedkin", "run", "ccfc", "--data", "mnist", "--seed", str(seed), *words]

    return command


def tests(device: str, tiny: bool) -> list[str]:
    """Every method's training on the device, compared with the processor's; with the processor, on a stand-in."""
    few = ["-k", "stack or perceptron"] if tiny else []
    how = ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-n", "4"]
    return [sys.executable, "-m", "pytest", *how, "tests/on_elsewhere.py", "tests/networks_on_elsewhere.py", *few]


PARTS = (
    Part("tests", "every method on the device, compared with the processor", tests),
    Part("rate", "matrix products per second, float32 and with TF32", speed("rate")),
    Part("fedcref", "FedCRef's first iteration of 25 clients, 784 columns", speed("fedcref")),
    Part("fedavg-lenet", "a round of FedAvg, 100 clients with LeNet-5", speed("fedavg-lenet")),
    Part("ccfc", "a round of CCFC's views, ten clients", speed("ccfc")),
    *(
        Part(
            f"ccfc/full-{p:g}-{seed}",
            f"CCFC on all of MNIST, p = {p:g}, seed {seed}",
            ccfc_full(p, seed),
        )
        for p, seed in product((0.0, 0.5, 1.0), range(3))
    ),
    *(
        Part(f"ccfc/remedies-{p:g}", f"the same with both remedies, p = {p:g}, seed 0", ccfc_full(p, 0, remedies=True))
        for p in (0.0, 0.5, 1.0)
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """List, run or show parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "run", "show"])
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=28.0, help="no part begins after these")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tiny", action="store_true", help="at a small size; measures nothing")
    given = parser.parse_args(arguments)
    names = {part.name for part in PARTS}
    if unknown := set(given.parts) - names:
        parser.error(
            f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(part.name for part in PARTS)}"
        )
    if given.what == "list":
        print("\n".join(f"{part.name:24}{part.what}" for part in PARTS))
    elif given.what == "show":
        print(table(lines_of(given.results)))
    else:
        run(given.parts, given.device, given.minutes, given.results, given.tiny)


def run(wanted: Sequence[str], device: str, minutes: float, results: Path, tiny: bool) -> None:
    """Run parts one after another, and append a line for each; those named, or all that are missing."""
    where, began = described(device), time.monotonic()
    done = {line["part"] for line in lines_of(results) if _counts(line, where["device"], tiny)}
    for part in PARTS:
        if part.name not in wanted and (wanted or part.name in done):
            continue
        left = 60 * minutes - (time.monotonic() - began)
        if left <= 0:
            print(f"{part.name}: no time is left", flush=True)
            break
        command = part.command(device, tiny)
        line = {"part": part.name, "tiny": tiny, "seeds": seeds_of(command), **where}
        line |= outcome(part, device, tiny, min(LONGEST, left))
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{part.name}: {line['failed'] or 'done'} in {line['seconds']:.0f} s", flush=True)


def seeds_of(command: Sequence[str]) -> list[int]:
    """The seeds of a part: that of its command, or as many as it asks `fedkin reproduce` for."""
    if "--seeds" in command:
        return list(range(int(command[command.index("--seeds") + 1])))
    return [int(command[command.index("--seed") + 1])] if "--seed" in command else [0]


def outcome(part: Part, device: str, tiny: bool, limit: float) -> Values:
    """What came of a part: its seconds, the values it printed, or why it failed and its last output."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    environment["FEDKIN_DEVICE"] = "" if device == "cpu" else device
    began = time.monotonic()
    process = subprocess.Popen(
        part.command(device, tiny),
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, failed = process.communicate(timeout=limit)[0], ""
    except subprocess.TimeoutExpired:
        printed, failed = _ended(process), f"not finished after {limit:.0f} s"
    if process.returncode and not failed:
        failed = f"ended with {process.returncode}"
    tail = printed.replace(str(ROOT), ".").replace(str(Path.home()), "~")[-2000:] if failed else ""
    last = printed.strip().splitlines()[-1] if printed.strip() else ""
    values = json.loads(last) if last.startswith("{") and not failed else {}
    return {"seconds": time.monotonic() - began, "failed": failed, "values": values, "output": tail}


def _counts(line: Values, device: str, tiny: bool) -> bool:
    """Whether a part is done by this line."""
    return not line["failed"] and line["device"] == device and line["tiny"] == tiny


def _ended(process: subprocess.Popen[str]) -> str:
    """What a part had printed when it and all that it had started were stopped; runs keep what they have."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=_GRACE)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def described(device: str) -> Values:
    """Commit, device and versions."""
    import torch

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "processor"
    return {
        "commit": commit.stdout.strip(), "device": f"{device}: {name}", "torch": torch.__version__,
        "python": platform.python_version(), "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def lines_of(results: Path) -> list[Values]:
    """The lines so far."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(lines: Sequence[Values]) -> str:
    """Markdown: the last line of each part and device."""
    last = {(line["device"], line["part"]): line for line in lines if not line["tiny"]}
    rows = ["| part | device | commit | seconds | measured |", "|---|---|---|---|---|"]
    for (device, part), line in last.items():
        values = ", ".join(f"{name} {value:.3g}" for name, value in line["values"].items())
        rows.append(
            f"| {part} | {device} | {line['commit']} | {line['seconds']:.0f} | {line['failed'] or values or 'passed'} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
