"""SDA-FC and PPFC-GAN in tables 1 and 2 of CCFC, from the same networks of the clients.

    python benchmarks/generative_table.py RUNS --data mnist -p 0 0.25 0.5 0.75 1 --capacity 0.25 --epochs 25
    python benchmarks/clustering_table.py show RUNS

Nearly all the work is training the clients' generative networks, and until they make samples the methods do the same.
So they are trained once, by SDA-FC with k-means, and SDA-FC with fuzzy c-means and PPFC-GAN go on from its checkpoint
of before the synthesis. Runs are ordinary folders in RUNS, named as clustering_table.py names its own; those that are
there already are skipped, and one that was stopped goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core.payload import load_tree, save_tree
from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.experiment.config import load_config
from fedkin.experiment.run import resume
from fedkin.experiment.run_folder import CHECKPOINT, CONFIG, RECORDS, TIMING
from grid import overrides, records, run

LABELS = ("sda-fc-kmeans", "sda-fc-fuzzy", "ppfc-gan")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the networks of each heterogeneity, then run every method from them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", nargs="+", default=["mnist"])
    parser.add_argument(
        "--heterogeneity", "-p", "--shares", dest="shares", nargs="+", default=["0", "0.25", "0.5", "0.75", "1"]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--capacity", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--server-epochs", type=int, default=50, help="of PPFC-GAN's network, alone and with clusters")
    parser.add_argument("--set", nargs="*", default=[], help="more keys of the experiment, as of `fedkin run`")
    given = parser.parse_args(arguments)
    for seed in given.seeds:
        for data in given.data:
            for share in given.shares:
                settings = {
                    "seed": seed, "data.source": data, "scenario.name": "own-class",
                    "scenario.heterogeneity": float(share),
                    "evaluation.map": "none", "method.capacity": given.capacity, "method.epochs": given.epochs,
                }  # fmt: skip
                server = {f"method.{phase}_epochs": given.server_epochs for phase in ("pretrain", "cluster")}
                folders = [given.runs / f"{data}-{label}-p{share}-a0-s{seed}" for label in LABELS]
                kmeans, fuzzy, ppfc = folders
                trained = kmeans.with_name(f"trained-{kmeans.name}")
                run(kmeans, "sda-fc", settings, given.set, _Keep(kmeans, trained, given.epochs))
                _go_on(trained, fuzzy, "sda-fc", {**settings, "method.clustering": "fuzzy"}, given.set)
                _go_on(trained, ppfc, "ppfc-gan", {**settings, **server}, given.set)
                for folder in folders:
                    found = records(folder)[-1]["metrics"]
                    print(f"{folder.name}: NMI {found['nmi']:.3f}, kappa {found['kappa']:.3f}", flush=True)


class _Keep(Progress):
    """Copies the run in `folder` to `to` once its clients have trained for `epochs`."""

    def __init__(self, folder: Path, to: Path, epochs: int) -> None:
        self.folder, self.to, self.epochs = folder, to, epochs

    def step(self, line: RecordLine, timing: Timing) -> None:
        """See `Progress`; the step is on disk."""
        if line["step"] == self.epochs:
            shutil.rmtree(self.to, ignore_errors=True)
            shutil.copytree(self.folder, self.to)


def _go_on(trained: Path, folder: Path, method: str, settings: Mapping[str, Any], more: Sequence[str]) -> None:
    """Run `method` in `folder` from where the run in `trained` stands."""
    if (folder / "result.json").exists():
        return
    config = load_config(method, [*overrides(settings), *more])
    tree: dict[str, Any] = load_tree(trained / CHECKPOINT)
    kind = config.method.state_type
    fields = {field.name for field in dataclasses.fields(kind)}
    tree["state"] = kind(**{name: value for name, value in tree["state"].items() if name in fields}).tree()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in (RECORDS, TIMING):
        shutil.copy(trained / name, folder)
    save_tree(folder / CHECKPOINT, tree)
    (folder / CONFIG).write_text(config.to_toml())
    resume(folder)


if __name__ == "__main__":
    main()
