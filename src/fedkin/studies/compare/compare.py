"""Run a comparison of methods in its folder."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import all_problems
from fedkin.core.files import LOCK, folder_lock, read_json, write_atomically
from fedkin.experiment.config import Config
from fedkin.experiment.option_models import flat
from fedkin.experiment.run import check_machine
from fedkin.report import write_page
from fedkin.studies.compare import comparison_words
from fedkin.studies.compare.better_than_chance import ChanceTest
from fedkin.studies.compare.candidate_runs import CandidateRun, steps_of
from fedkin.studies.compare.candidates import Candidate, Selection, selection_of
from fedkin.studies.compare.comparison import PAGE, Comparison, ComparisonRow
from fedkin.studies.compare.comparison_page import page_of
from fedkin.studies.compare.comparison_terminal import shown
from fedkin.studies.compare.judging import CandidateScore, Judge
from fedkin.studies.compare.prepared_samples import prepared_samples
from fedkin.studies.compare.question import Question
from fedkin.studies.compare.ranking import ALIKE, chosen, chosen_by_truth, known_truth, score_of, truth_of
from fedkin.studies.compare.schedule import Schedule, ShowRun
from fedkin.studies.run_pool import RunWorker
from fedkin.studies.time_budget import TimeBudget, parsed_duration

PLAN, CLIENTS = "plan.json", "clients.json"
"""Files of the question, and of checksums of clients that were given in memory."""
_TRIED = (2, 20)
"""Numbers of clusters to look at settings with; one that some method does not take is no mistake of the user's."""
_KEPT, _MOST_KEPT = 0.1, 10.0
"""Part of the budget that is kept for scores and the page, and at most so many seconds."""


@dataclass(frozen=True)
class Options:
    """Options of a comparison.

    `methods` are names, or ``("all",)``; each has `seeds` runs, at least 1. `clusters` is their number, at least 2, if
    it is known. `budget` is wall-clock time, such as ``"10m"``. `by`, "score" or "truth", is the criterion of the
    ranking and the recommendation.
    """

    methods: tuple[str, ...] = ("all",)
    clusters: int | None = None
    seeds: int = 3
    budget: str = "10m"
    by: str = "score"

    def check(self) -> None:
        """Check that all options are in their range.

        Raises FedkinError, which names the first option that is not.
        """
        if self.clusters is not None and self.clusters < 2:
            raise FedkinError(f"--clusters is {self.clusters}; allowed: 2 or more clusters.")
        if self.seeds < 1:
            raise FedkinError(f"--seeds is {self.seeds}; allowed: 1 or more.")
        if self.by not in ("score", "truth"):
            raise FedkinError(f"--by is '{self.by}'; it should be score or truth.")
        parsed_duration(self.budget)


def compared(
    question: Question,
    options: Options,
    out: Path,
    show: ShowRun = shown,
    worker: RunWorker | None = None,
    began: float | None = None,
) -> Comparison:
    """Compare methods on the same clients; an interrupted comparison of the same question in `out` is resumed.

    `show` is as in `Schedule.show`. The `worker` makes the runs, and is left running; by default it is a new one. The
    budget starts at `began`, a time of ``time.monotonic()``; by default it is now.
    Raises FedkinError if an option is out of its range, no method suits the data, `out` holds anything else, or no run
    finished in the budget.
    """
    options.check()
    seconds = parsed_duration(options.budget)
    budget = TimeBudget(seconds, min(_KEPT * seconds, _MOST_KEPT), began)
    selection = selection_of(question.family, options.methods)
    config = _checked(question, selection, options)
    population = question.population(config)
    truth = population.truth if question.family == "samples" else population.clusters
    if options.by == "truth" and truth is None:
        raise FedkinError(f"--by truth needs a truth, and '{question.data}' has none; leave it out.")
    with nullcontext(worker) if worker else RunWorker() as at_work, ExitStack() as locked:
        if worker is None and not (out / PLAN).exists():
            at_work.begin()  # while the samples are prepared
        samples = prepared_samples(population, config.data.preparing, question.seed)
        if out.exists() and not out.is_dir():
            raise FedkinError(f"{out} is a file; give another --out.")
        locked.enter_context(folder_lock(out))
        _prepare(question, options, out)
        judge = Judge(question.family, samples, question.seed)
        score = truth_of if options.by == "truth" else score_of
        schedule = Schedule(
            question, selection, judge, options.clusters, options.seeds, out, budget, show, at_work, score
        )
        schedule.work()
        comparison = _comparison(schedule, options, config, samples.notes)
        comparison.write()
        write_page(out / PAGE, page_of(comparison))
    return comparison


def _checked(question: Question, selection: Selection, options: Options) -> Config:
    """Check the experiments of all candidates, which differ in the method only, and return the first.

    Raises FedkinError, with a line for each method whose settings are not allowed, or if a tracker, the device or the
    engine is not there.
    """
    numbers = _TRIED if options.clusters is None else (options.clusters,)
    tried = [*selection.first(options.clusters), *selection.with_k(numbers, cheap=True)]
    tried += selection.with_k(numbers, cheap=False)
    configs: dict[str, Config] = {}
    problems: dict[str, str] = {}
    for candidate in tried:
        try:
            configs.setdefault(candidate.method, question.config(candidate, question.seed))
        except FedkinError as error:
            problems.setdefault(candidate.method, str(error))
    if refused := {text: name for name, text in problems.items() if name not in configs}:
        raise all_problems([f"{name}: {text}" if len(configs) else text for text, name in refused.items()])
    config = next(iter(configs.values()))
    check_machine(config)
    return config


def _prepare(question: Question, options: Options, out: Path) -> None:
    """Create `out` as this comparison's folder, or check that it is.

    Raises FedkinError if it holds another comparison, or anything else.
    """
    plan = {**asdict(question), "clusters": options.clusters}
    plan = json.loads(json.dumps(plan))
    there = [path.name for path in out.iterdir() if path.suffix != ".partial" and path.name != LOCK]
    if (out / PLAN).is_file():
        before = read_json(out / PLAN, dict[str, Any], "; remove the folder to compare again")
        for key in plan:
            if before.get(key) != plan[key]:
                name, there_is, given = _different(key, before.get(key), plan[key])
                raise FedkinError(
                    f"{out} holds another comparison: its {name} is {there_is}, not {given}; give another "
                    "--out, or remove the folder."
                )
        return
    if foreign := [name for name in there if name not in ("data", CLIENTS)]:
        raise FedkinError(f"{out} holds {foreign[0]}, which is not part of a comparison; give another --out.")
    write_atomically(out / PLAN, json.dumps(plan, indent=2, sort_keys=True) + "\n")


def _different(key: str, before: Any, given: Any) -> tuple[str, Any, Any]:
    """Return the first setting below a key of the plan that differs, and its values in both."""
    if not isinstance(before, dict) or not isinstance(given, dict):
        return key, before, given
    old, new = dict(flat(before)), dict(flat(given))
    path = next(path for path in {**old, **new} if old.get(path) != new.get(path))
    return f"method.{path}" if key == "settings" else path, old.get(path, "not set"), new.get(path, "not set")


def _comparison(schedule: Schedule, options: Options, config: Config, notes: tuple[str, ...]) -> Comparison:
    """Build the comparison from the runs that finished."""
    question, selection = schedule.question, schedule.selection
    verdicts = schedule.verdicts()
    if not verdicts:
        refusals = list(schedule.refused.values())
        if len({each.method for each in schedule.refused}) == len(selection.methods):
            raise FedkinError(f"No method suits '{question.data}': {refusals[0]}")
        why = f" ({refusals[0]})" if refusals else ""
        raise FedkinError(
            f"No run finished in the budget of {options.budget}{why}; the same with a larger budget resumes."
        )
    numbers = schedule.best()
    best = {candidate: verdicts[candidate] for candidate in numbers.values()}
    choose = chosen_by_truth if options.by == "truth" else chosen
    choice = choose(selection, best)
    take = choice.candidate if choice else None
    taken = best[take] if take else None
    hints, chance = _chance(schedule, verdicts, taken)
    finished = _without_rivals(selection, best, schedule.refused) if take else []
    doubts = _doubts(schedule, taken, chance, finished)
    why = "no method that finished may be recommended, or none found more than one cluster"
    if choice:
        why = comparison_words.reason(question.family, choice, best, options.by == "truth")
    score = truth_of if options.by == "truth" else score_of
    ranks = {each.method: score(question.family, verdict) for each, verdict in best.items()}
    lines = [_line(schedule, name, numbers.get(name), best) for name in selection.methods]
    lines.sort(key=lambda line: (not line.runs, not take or line.method != take.method, -ranks.get(line.method, -1.0)))
    return Comparison(
        question=question.description,
        family=question.family,
        lines=tuple(lines),
        recommended=take.method if take else None,
        reason=why,
        use=_use(schedule, take) if take else (),
        by=options.by,
        truth_gap=_gap(selection, best, take),
        seeds=options.seeds,
        budget=schedule.budget.seconds,
        spent=schedule.budget.spent,
        seed=question.seed,
        out=schedule.out,
        settings={key: value for key, value in config.tables.items() if key != "method"},
        warnings=(*hints, *doubts),
        confident=not doubts,
        better_than_chance=None if chance is None else chance.passed,
        chance_p=None if chance is None else chance.p,
        as_good=tuple(each.name for each in choice.undecided) if choice else (),
        notes=notes,
    )


def _use(schedule: Schedule, take: Candidate) -> tuple[str, ...]:
    """Return commands that apply the recommended method; of clients in memory, which no file holds, its first run."""
    if not (schedule.out / CLIENTS).exists():
        return comparison_words.use(schedule.question, take)
    run = CandidateRun(take, schedule.question.seed).folder(schedule.out)
    return (f"fedkin predict {shlex.quote(str(run))} NEW.csv",) if schedule.question.family == "samples" else ()


def _without_rivals(
    selection: Selection, best: Mapping[Candidate, CandidateScore], refused: Mapping[Candidate, str]
) -> list[str]:
    """Return the methods that finished if there was no choice among them, though others could have finished."""
    there = sorted(each.method for each in best)
    missing = {*selection.methods} - {*there} - {each.method for each in refused}
    single = len(there) == 1 or all(selection.role(name) == "baseline" for name in there)
    return there if single and missing else []


def _chance(
    schedule: Schedule, verdicts: dict[Candidate, CandidateScore], taken: CandidateScore | None
) -> tuple[list[str], ChanceTest | None]:
    """Return a hint on the recommended clusters of samples, and the test against chance; nothing of clients."""
    judge = schedule.judge
    if taken is None or schedule.question.family == "clients":
        return [], None
    column = judge.explaining_column(taken)
    return [comparison_words.one_column(column)] if column is not None else [], judge.chance(verdicts.values())


def _doubts(
    schedule: Schedule, taken: CandidateScore | None, chance: ChanceTest | None, finished: list[str]
) -> list[str]:
    """Return the reasons for which a recommendation is without confidence; `finished` are methods without rivals."""
    if taken is None:
        return []
    doubts = [] if chance is None or chance.passed else [comparison_words.by_chance(chance)]
    runs, stability = len(taken.clusters), taken.measures.get("stability")
    accuracy, guess = taken.measures.get("accuracy"), schedule.judge.guessed_accuracy()
    if accuracy is not None and guess is not None and accuracy <= guess:
        doubts.append(comparison_words.by_guess(accuracy, guess))
    if runs < schedule.seeds:
        doubts.append(comparison_words.not_all_ran(runs, schedule.seeds))
    if stability is not None and stability < ALIKE:
        doubts.append(comparison_words.seeds_differ(stability))
    return [*doubts, *([comparison_words.alone(finished)] if finished else [])]


def _line(
    schedule: Schedule, name: str, taken: Candidate | None, best: dict[Candidate, CandidateScore]
) -> ComparisonRow:
    """Build a method's row; without a finished run it says where it stopped and why."""
    tried = [each for each in schedule.candidates() if each.method == name]
    shown_one = taken or (tried[0] if tried else Candidate(name))
    verdict = best.get(shown_one)
    finished = schedule.finished()
    runs = finished.get(shown_one, [])
    first = CandidateRun(shown_one, schedule.question.seed).folder(schedule.out)
    others = {each.method: finished[each] for each in best if each != shown_one}
    agreed = schedule.judge.consensus(runs, others) if runs else None
    refusal = next((schedule.refused[each] for each in tried if each in schedule.refused), None)
    numbers = sorted({each.number for each in tried if each.number is not None and each in finished})
    role = schedule.selection.role(name)
    return ComparisonRow(
        method=name,
        number=shown_one.number,
        role=role,
        runs=len(runs),
        clusters=verdict.clusters if verdict else (),
        measures={**(verdict.measures if verdict else {}), **({} if agreed is None else {"consensus": agreed})},
        truth=verdict.truth if verdict else {},
        clients=verdict.clients if verdict else (),
        bytes=verdict.bytes if verdict else None,
        seconds=verdict.seconds if verdict else None,
        tried=tuple(numbers) if len(numbers) > 1 else (),
        remark=comparison_words.remark(
            role, len(runs), steps_of(first), None if runs else refusal, schedule.began(shown_one)
        ),
        folder=str(first) if first.exists() else "",
        spread=verdict.spread if verdict else None,
        deviations=verdict.deviations if verdict else {},
    )


def _gap(selection: Selection, best: dict[Candidate, CandidateScore], take: Candidate | None) -> float | None:
    """Return how much less the recommended candidate agrees with the truth than the best one."""
    known = known_truth(selection, best)
    return max(known.values()) - known[take] if take in known else None
