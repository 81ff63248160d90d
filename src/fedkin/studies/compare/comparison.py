"""Result of a comparison: a row per method, and the recommended one."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any

from fedkin.core.files import write_atomically
from fedkin.experiment.label_files import as_csv
from fedkin.studies.compare.candidates import Candidate, Family, Role
from fedkin.studies.compare.judging import MEASURES, SCORE, TRUTH

if TYPE_CHECKING:
    import pandas as pd

JSON, CSV, PAGE = "comparison.json", "comparison.csv", "report.html"


@dataclass(frozen=True)
class ComparisonRow:
    """Row of a comparison: one method.

    Attributes
    ----------
    method : str
    number : int or None
        Number of clusters it was given.
    role : {"", "centralised", "synthetic", "baseline"}
        Centralised methods move the data, and synthetic ones copies; baselines form no clusters. The first two are not
        recommended.
    runs : int
        Number of finished runs.
    clusters : tuple of int
        Number of clusters in each run.
    measures, truth : dict
        Means over runs, see `fedkin.studies.compare.judging.CandidateScore`; `measures` includes ``consensus``, which
        is not used for ranking.
    clients : tuple of float or None
        Accuracy of each client's own model.
    bytes, seconds : float or None
        Traffic and computing time of a run, means over runs; ``None`` without a finished run.
    tried : tuple of int
        Numbers of clusters that it was tried with, if several.
    remark : str
        Remark, such as why no run has finished.
    folder : str
        Folder of its first run; empty if there is none.
    spread : float or None
        Standard error of the cohesion of samples' clusters.
    deviations : dict
        Standard deviations over runs, of the score and of agreement with the truth; empty with a single run.
    """

    method: str
    number: int | None
    role: Role
    runs: int
    clusters: tuple[int, ...]
    measures: dict[str, float]
    truth: dict[str, float]
    clients: tuple[float | None, ...]
    bytes: float | None
    seconds: float | None
    tried: tuple[int, ...]
    remark: str
    folder: str
    spread: float | None = None
    deviations: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the method, with the number of clusters it was given."""
        return Candidate(self.method, self.number).name

    @property
    def error(self) -> float | None:
        """Standard error of the score: of cohesion, or of the mean accuracy over clients; ``None`` if unknown."""
        known = [each for each in self.clients if each is not None]
        return self.spread if len(known) < 2 else stdev(known) / math.sqrt(len(known))


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of comparing methods on the same clients.

    Attributes
    ----------
    question : str
        What was asked.
    family : {"samples", "clients"}
    lines : tuple of ComparisonRow
        Rows in order of rank, the recommended one first; those without a finished run last.
    recommended : str or None
        Name of the recommended method; ``None`` if there is none.
    reason : str
        Reason of the recommendation, in a sentence.
    use : tuple of str
        Commands that run the recommended method alone and apply it.
    by : {"score", "truth"}
        Criterion of the ranking and the recommendation.
    truth_gap : float or None
        How much less the recommended method agrees with the truth than the best one, if there is a truth.
    seeds, budget, spent
        Runs asked of each method; seconds allowed and spent this time.
    seed : int
        Seed of the data and of the first runs.
    out : Path
        Folder of the comparison.
    settings : dict
        The experiment of all runs.
    warnings : tuple of str
        Reasons to doubt the recommended clusters, in sentences.
    confident : bool
        Whether all runs of the recommended method finished and agree (ARI 0.7 or more), it is better than chance or a
        guess, and there were others to compare with.
    better_than_chance : bool or None
        What that test said; ``None`` if it was not made.
    chance_p : float or None
        Probability of clusters that cohesive in data without clusters; ``None`` if not tested.
    as_good : tuple of str
        Methods, with their number of clusters if given, whose score is about that of the recommended one.
    notes : tuple of str
        How the data were read and prepared, in sentences.
    """

    question: str
    family: Family
    lines: tuple[ComparisonRow, ...]
    recommended: str | None
    reason: str
    use: tuple[str, ...]
    by: str
    truth_gap: float | None
    seeds: int
    budget: float
    spent: float
    seed: int
    out: Path
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    confident: bool = True
    as_good: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    better_than_chance: bool | None = None
    chance_p: float | None = None

    def __repr__(self) -> str:
        methods = ", ".join(line.name for line in self.lines)
        found = f"{self.recommended} is recommended" if self.recommended else "none is recommended"
        return f"<Comparison of {methods}: {found}; see its table, and {self.out / PAGE}>"

    @property
    def score(self) -> str:
        """Name of the measure that ranks methods without truth."""
        return SCORE[self.family]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures without truth that any method has, the score first."""
        return tuple(name for name in MEASURES if any(name in line.measures for line in self.lines))

    @property
    def truth(self) -> tuple[str, ...]:
        """Names of the measures of agreement with the truth, if there is one."""
        return tuple(name for name in TRUTH[self.family] if any(name in line.truth for line in self.lines))

    @property
    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row per method, in order of rank, and the columns of ``comparison.csv``.

        Measures are means over runs. ``accuracy_std``, ``ari_std`` and so on are their standard deviations over runs,
        missing with a single run; ``accuracy_error`` is the standard error over clients, ``cohesion_error`` that over
        samples.
        """
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict of plain values per method; ``None`` where something is not known."""
        return [
            {
                "method": line.method,
                "number_given": line.number,
                "recommended": line.method == self.recommended,
                "role": line.role,
                "runs": line.runs,
                "clusters": sum(line.clusters) / len(line.clusters) if line.clusters else None,
                **{name: line.measures.get(name) for name in self.measures},
                f"{self.score}_error": line.error,
                **{name: line.truth.get(name) for name in self.truth},
                **{f"{name}_std": line.deviations.get(name) for name in (self.score, *self.truth)},
                "megabytes": None if line.bytes is None else line.bytes / 1e6,
                "seconds": line.seconds,
                "remark": line.remark,
                "run": line.folder,
            }
            for line in self.lines
        ]

    def to_json(self) -> str:
        """Return the whole comparison as JSON text."""
        return json.dumps({**asdict(self), "out": str(self.out)}, indent=2, sort_keys=True) + "\n"

    def write(self) -> None:
        """Write ``comparison.json`` and ``comparison.csv``; raises FedkinError if a file cannot be written."""
        rows = self.rows()
        write_atomically(self.out / CSV, as_csv([list(rows[0]), *(list(row.values()) for row in rows)]))
        write_atomically(self.out / JSON, self.to_json())
