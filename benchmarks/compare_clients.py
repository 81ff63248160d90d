"""Does `compare` recommend the right method for clusters of clients? On the scenarios of `fedkin benchmark clients`.

    FEDKIN_DATA=... python benchmarks/compare_clients.py run OUT --seeds 0 1
    FEDKIN_DATA=... python benchmarks/compare_clients.py show OUT --seeds 0 1

The true clusters have no part in what is recommended, and neither have the other seeds. *Behind by ARI* is how far the
recommended method's clusters are behind the best ones of the same comparison, of methods that form clusters. *Behind
elsewhere* is how far its accuracy is behind the best method's with the other seeds, means over them, so that no method
is judged by the tests it was chosen on. Methods that are not given the number of clusters find it, or `compare` tries
several. A comparison is a folder in OUT and is reused; one that was stopped resumes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from fedkin.studies.benchmark import CLIENTS

ROUNDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--scenarios", nargs="+", default=[name for name, one in CLIENTS.items() if one.data is None])
    parser.add_argument("--methods", default="all", help="names with commas between them")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--budget", default="20m", help="of one comparison")
    given = parser.parse_args()
    if given.what == "show":
        show(given)
        return
    for seed in given.seeds:
        for scenario in given.scenarios:
            compared(given, scenario, seed)


def compared(given: argparse.Namespace, scenario: str, seed: int) -> None:
    """One comparison, by the command line; what it prints is kept as OUT/SCENARIO-SEED.json."""
    file = given.out / f"{scenario}-{seed}.json"
    if file.exists():
        return
    made = CLIENTS[scenario]
    settings = {f"scenario.{name}": value for name, value in made.settings.items() if name not in ("name", "clients")}
    settings["method.rounds"] = ROUNDS
    if made.changes:
        settings["simulation.step"] = ROUNDS // 2 + 1
    command = [
        sys.executable, "-m", "fedkin", "compare", str(made.settings["name"]), "--data", given.data,
        "--question", "clients", "--methods", given.methods, "--seeds", "1", "--seed", str(seed),
        "--budget", given.budget, "--json", "--out", str(given.out / f"{scenario}-{seed}"),
        *(["--clients", str(made.settings["clients"])] if "clients" in made.settings else []),
        *(word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")),
    ]  # fmt: skip
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    file.write_text(printed)


def show(given: argparse.Namespace) -> None:
    """Print a row per scenario, and the means."""
    print("| scenario | recommended | ARI | behind by ARI | accuracy | behind elsewhere |\n|---|---|---|---|---|---|")
    by_ari, elsewhere = [], []
    for scenario in given.scenarios:
        found = {
            seed: json.loads(file.read_text())
            for seed in given.seeds
            if (file := given.out / f"{scenario}-{seed}.json").exists()
        }
        rows = [row(found, seed) for seed in found]
        by_ari += [one["behind"] for one in rows if one["behind"] is not None]
        elsewhere += [one["elsewhere"] for one in rows if one["elsewhere"] is not None]
        cells = [", ".join(text(one[name]) for one in rows) for name in rows[0]] if rows else []
        print(f"| {' | '.join([scenario, *cells])} |")
    for what, values in (("ARI", by_ari), ("accuracy elsewhere", elsewhere)):
        if values:
            print(f"Behind by {what}: mean {mean(values):.3f}, at most {max(values):.3f}, {len(values)} comparisons")


def row(found: dict[int, dict[str, Any]], seed: int) -> dict[str, Any]:
    """What one comparison recommended, and how far that is behind the best."""
    lines = {name(line): line for line in found[seed]["lines"] if line["runs"]}
    taken = next(line for line in lines.values() if line["method"] == found[seed]["recommended"])
    ari = [line["ari"] for line in lines.values() if not line["role"] and line.get("ari") is not None]
    own = taken.get("ari")
    others = [accuracies(one) for other, one in found.items() if other != seed]
    shared = set(lines).intersection(*others) if others else set()
    means = {one: mean(known[one] for known in others) for one in shared}
    return {
        "recommended": name(taken), "ari": own, "behind": None if own is None or not ari else max(ari) - own,
        "accuracy": taken["accuracy"],
        "elsewhere": max(means.values()) - means[name(taken)] if name(taken) in means else None,
    }  # fmt: skip


def accuracies(found: dict[str, Any]) -> dict[str, float]:
    """Accuracy of each candidate of a comparison."""
    return {name(line): line["accuracy"] for line in found["lines"] if line["runs"]}


def name(line: dict[str, Any]) -> str:
    """A candidate: its method, and the number of clusters if it was given one."""
    return f"{line['method']} ({line['number_given']})" if line["number_given"] else str(line["method"])


def text(value: Any) -> str:
    """A cell's text."""
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
