"""What a comparison found: a line per method, and which one to take."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any

from fedkin.core.files import write_atomically
from fedkin.studies.compare.candidates import Family, Role
from fedkin.studies.compare.judging import MEASURES, SCORE, TRUTH

if TYPE_CHECKING:
    import pandas as pd

JSON, CSV, PAGE = "comparison.json", "comparison.csv", "report.html"


@dataclass(frozen=True)
class ComparisonRow:
    """One method.

    Attributes
    ----------
    method : str
    number : int or None
        Number of clusters it was given.
    role : {"", "centralised", "synthetic", "baseline"}
        Centralised methods move the data, and synthetic ones copies; baselines form no clusters. The first two are not
        recommended.
    runs : int
        Finished.
    clusters : tuple of int
        How many each run found.
    measures, truth : dict
        Means over runs, see `fedkin.studies.compare.judging.CandidateScore`; ``consensus`` among the former, which
        ranks nothing.
    clients : tuple of float or None
        Accuracy of each client's own model.
    bytes, seconds : float or None
        Of a run, means; ``None`` without a finished run.
    tried : tuple of int
        Numbers of clusters it was tried with, if several.
    remark : str
        What to know, such as why it has not finished.
    folder : str
        Of its first run; empty if there is none.
    spread : float or None
        Standard error of the cohesion of samples' clusters.
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

    @property
    def name(self) -> str:
        """The method, and the number of clusters it was given."""
        return self.method if self.number is None else f"{self.method}, {self.number} clusters"

    @property
    def error(self) -> float | None:
        """Standard error of what ranks it: of cohesion, or of the mean accuracy over clients; ``None`` if unknown."""
        known = [each for each in self.clients if each is not None]
        return self.spread if len(known) < 2 else stdev(known) / math.sqrt(len(known))


@dataclass(frozen=True)
class Comparison:
    """Methods compared on the same clients.

    Attributes
    ----------
    question : str
        What was asked.
    family : {"samples", "clients"}
    lines : tuple of Line
        The best first, by what ranks them; those without a finished run last.
    recommended : str or None
        Name of the method to take; ``None`` if there is none.
    reason : str
        Why, in a sentence.
    use : tuple of str
        Commands that run it alone and apply it.
    by : {"score", "truth"}
        What ranked the lines and chose.
    truth_gap : float or None
        How much worse than the best that could be recommended the chosen one agrees with the truth, if there is one.
    seeds, budget, spent
        Runs asked of each method; seconds allowed and spent this time.
    seed : int
        Of the data and of the first runs.
    out : Path
        Where it all is.
    settings : dict
        The experiment of all runs.
    warnings : tuple of str
        What to know before the clusters are believed, in sentences.
    confident : bool
        Whether the best clusters are better than chance, as far as that was tested.
    chance_p : float or None
        Probability of as cohesive clusters of samples without any; ``None`` where that was not tested.
    as_good : tuple of str
        Methods, with the number of clusters that they were given, whose score is about that of the recommended one.
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
    chance_p: float | None = None

    @property
    def score(self) -> str:
        """Name of the measure that ranks without truth."""
        return SCORE[self.family]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that need no truth and are known of any method, the score first."""
        return tuple(name for name in MEASURES if any(name in line.measures for line in self.lines))

    @property
    def truth(self) -> tuple[str, ...]:
        """Names of agreements with the truth, where there is one."""
        return tuple(name for name in TRUTH[self.family] if any(name in line.truth for line in self.lines))

    @property
    def table(self) -> pd.DataFrame:
        """A row per method, in order of rank, by the columns of ``comparison.csv``."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Plain values per method; ``None`` where something is not known."""
        return [
            {
                "method": line.method,
                "number_given": line.number,
                "recommended": line.method == self.recommended,
                "role": line.role,
                "runs": line.runs,
                "clusters": sum(line.clusters) / len(line.clusters) if line.clusters else None,
                **{name: line.measures.get(name) for name in self.measures},
                **({"cohesion_error": line.spread} if self.family == "samples" else {}),
                **{name: line.truth.get(name) for name in self.truth},
                "megabytes": None if line.bytes is None else line.bytes / 1e6,
                "seconds": line.seconds,
                "remark": line.remark,
                "run": line.folder,
            }
            for line in self.lines
        ]

    def to_json(self) -> str:
        """All of it as JSON text."""
        return json.dumps({**asdict(self), "out": str(self.out)}, indent=2, sort_keys=True) + "\n"

    def write(self) -> None:
        """Write ``comparison.json`` and ``comparison.csv``.

        Raises
        ------
        FedkinError
            If a file cannot be written.
        """
        text = io.StringIO()
        rows = self.rows()
        table = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_atomically(self.out / CSV, text.getvalue())
        write_atomically(self.out / JSON, self.to_json())
