"""Runs of the toy method, and what they leave."""

from pathlib import Path

from fedkin.experiment.config import load_config
from fedkin.experiment.run import RunOutcome, execute

OPTIONS = ["simulation.scenario=toy", "seed=3", "simulation.drop_rate=0.2"]


def files(folder: Path) -> dict[str, bytes]:
    """Everything a run left that must not differ between two."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    del found["timing.jsonl"]
    return found


def run(folder: Path, *overrides: str) -> RunOutcome:
    return execute(load_config("toy", [*OPTIONS, *overrides]), folder)
