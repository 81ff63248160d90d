"""Attacks on the bit messages of a finished run of the method "embedding": reconstruction and membership inference.

The attacked messages are made from the clients' data with the run's encoder, and flipped anew for every flip
probability; the run's own messages are one such draw at its own probability.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.method import SendsBits
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.engines.local import one_thread
from fedkin.experiment.outputs import SavedResult, load_found
from fedkin.experiment.run_folder import run_config
from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.nn.encoder import Encoder
from fedkin.privacy.accounting import MEANINGFUL_EPSILON, delta_of, statement
from fedkin.privacy.randomised_response import binary, flipped, normalised
from fedkin.report.figures import PagePart, PageView, PictureTable, ResultTable, TableCell
from fedkin.report.page import write_page

JSON, PAGE = "attack.json", "attack.html"
PAPER: dict[float | None, float] = {None: 0.0175, 0.0: 0.7039, 0.05: 0.8040, 0.1: 0.9075, 0.15: 0.9811, 0.2: 1.0765}
"""Table II of Prigent et al. 2024: errors by flip probability, summed over eight images; of ``None`` codes are sent as
they are, without quantisation."""
LEVELS = tuple(PAPER)
Numbers = NDArray[np.floating]
Rows = list[list[str]]
"""Rows of a table as text, the headings first."""


@dataclass(frozen=True)
class KnownEncoder:
    """Encoder of a run as the attacker has it, and how the clients' codes are made, see `Encoder.codes`."""

    encoder: Encoder
    vector: Tensor
    batch_statistics: bool = False

    def codes(self, x: Tensor) -> Tensor:
        """Encode samples ``(n, *shape)`` as those of one client to codes ``(n, width)``."""
        return self.encoder.codes(self.vector, x, self.batch_statistics)

    def codes_one_by_one(self, x: Tensor) -> Tensor:
        """Encode samples ``(n, *shape)``, each as the only one of its class, to codes ``(n, width)``."""
        return torch.cat([self.codes(sample) for sample in x.split(1)]) if self.batch_statistics else self.codes(x)

    def decoded(self, codes: Tensor, probability: float | None, rng: torch.Generator) -> Tensor:
        """Decode codes, or bits made of them that are flipped with a `probability`, to samples ``(n, *shape)``.

        The attacker knows the minimum and the maximum of every code, for which bits of 0 and 1 stand.
        """
        if probability is not None:
            lowest, highest = codes.aminmax(dim=1, keepdim=True)
            codes = torch.where(flipped(binary(codes), probability, rng).bool(), highest, lowest)
        return self.encoder.decoded(self.vector, codes)


@dataclass(frozen=True)
class Reconstruction:
    """Result of reconstructing segments of one sample each: pictures ``(n, *shape)``, and mean squared errors ``(n,)``.

    `recognised` is the share of the reconstructions that are nearer to their own sample than to any other of the n; 1 /
    n by chance.
    """

    pictures: Tensor
    errors: Tensor
    recognised: float


def reconstructed(attacker: KnownEncoder, x: Tensor, probability: float | None, rng: torch.Generator) -> Reconstruction:
    """Attack segments of one sample each, of `x` ``(n, *shape)``, by reconstruction.

    `probability` is that of a flip; ``None`` for codes that are sent without binarisation.
    """
    pictures = attacker.decoded(attacker.codes_one_by_one(x), probability, rng)
    distances = torch.cdist(pictures.flatten(1).double(), x.flatten(1).double())
    right = distances.argmin(1) == torch.arange(len(x))
    return Reconstruction(pictures, (pictures - x).square().flatten(1).mean(1), float(right.double().mean()))


class Cases(NamedTuple):
    """Test cases of membership inference: pairs of a segment and a sample that may or may not be a member.

    Segments are bits, uint8 ``(n, width)``, not flipped, and `codes` those of the samples, float64 ``(n, width)`` in
    [0, 1]. `members`, bool ``(n,)``, says whether the sample is a member. `kinds`, int64 ``(n,)``, are equal for
    segments and samples from the same distribution. Cases of one of the `blocks`, int64 ``(n,)``, such as one client,
    are never split between fitting and testing.
    """

    segments: Tensor
    codes: Tensor
    members: Tensor
    kinds: Tensor
    blocks: Tensor


@dataclass(frozen=True)
class Membership:
    """Success of membership inference.

    `advantage` is the true positive rate less the false positive rate, in [-1, 1]; 0 by chance. Score and threshold are
    chosen on one half of the cases and tested on the other, and vice versa (two-fold cross-validation). `margin` is two
    standard errors of it, as if cases were independent.
    """

    advantage: float
    margin: float
    cases: int


@dataclass(frozen=True)
class Sent:
    """Message of a client, with member and non-member samples to test on it.

    `bits` are uint8 ``(segments, width)``, before any flip. `members` and `fresh` are the client's samples, and others
    of the same distribution; `places` are the segments of both, or ``None`` if unknown: the attacker then takes the
    likeliest. `kind` is equal for clients with data of the same distribution.
    """

    bits: Tensor
    members: Tensor
    fresh: Tensor
    places: tuple[Tensor, Tensor] | None
    kind: int


def as_sent(attacker: KnownEncoder, messages: Sequence[Sent], per_segment: int, rng: torch.Generator) -> Cases:
    """Make test cases from the messages of the run's clients.

    At most `per_segment` members are tried with each segment, and as many others. Raises FedkinError if no client has
    both members and fresh samples for a segment.
    """
    cases: list[Cases] = []
    for block, sent in enumerate(messages):
        segments = len(sent.bits)
        for place in range(segments) if sent.places else (None,):
            sides = (sent.members, sent.fresh)
            if place is not None and sent.places:
                sides = (sides[0][sent.places[0] == place], sides[1][sent.places[1] == place])
            maximum = min(map(len, sides))
            count = min(per_segment * (segments if place is None else 1), maximum)
            if not count:
                continue
            taken = maximum if attacker.batch_statistics else count
            drawn = [x[torch.randperm(len(x), generator=rng)[:taken]] for x in sides]
            # Both sides in one batch: statistics of batches of different sizes would give the side away.
            codes = normalised(attacker.codes(torch.cat(drawn)))
            codes = torch.cat([codes[:count], codes[len(drawn[0]) :][:count]])
            if place is None:
                placed = torch.cdist(codes.round(), sent.bits.double(), p=1).argmin(1)
            else:
                placed = torch.full((2 * count,), place)
            members = torch.tensor([True, False]).repeat_interleave(count)
            kinds, blocks = sent.kind * segments + placed, torch.full((2 * count,), block)
            cases.append(Cases(sent.bits[placed], codes, members, kinds, blocks))
    if not cases:
        raise FedkinError("No client has samples of a segment both in its data and held out, so nothing can be tried.")
    return Cases(*(torch.cat(parts) for parts in zip(*cases, strict=True)))


def measured(cases: Cases, probability: float, rng: torch.Generator) -> Membership:
    """Measure the success of membership inference if every bit is flipped with `probability`.

    Scores are the log-likelihood ratio of the bits, made of this sample alone against segments of its kind, and the
    covariance of bits and codes, each centred on the mean of their kind: that of members and others together favours
    neither.
    """
    bits = flipped(cases.segments, probability, rng).double()
    # How often a bit is 1 in segments of this kind; flips pull it towards one half.
    usual = _by_kind(cases.segments.double(), cases.kinds)
    usual = usual * (1 - probability) + (1 - usual) * probability
    sure = 0.02  # no bit is taken for more certain than this, however seldom it was seen
    wrong, likely = max(probability, sure), usual.clamp(sure, 1 - sure)
    from_sample = torch.where(bits == cases.codes.round(), math.log(1 - wrong), math.log(wrong))
    surprise = (from_sample - torch.where(bits == 1, likely, 1 - likely).log()).mean(1)
    likeness = ((bits - usual) * (cases.codes - _by_kind(cases.codes, cases.kinds))).mean(1)
    scores: list[Numbers] = [np.asarray(surprise), np.asarray(likeness)]
    truth, first = cases.members.numpy(), (cases.blocks % 2 == 0).numpy()
    predicted = np.zeros(len(truth), dtype=bool)
    for fit in (first, ~first):
        fits = [_threshold(score[fit], truth[fit]) for score in scores]
        best = int(np.argmax([advantage for _, advantage in fits]))
        predicted[~fit] = scores[best][~fit] >= fits[best][0]
    rates = float(predicted[truth].mean()), float(predicted[~truth].mean())
    error = math.sqrt(sum(rate * (1 - rate) / side.sum() for rate, side in zip(rates, (truth, ~truth), strict=True)))
    return Membership(rates[0] - rates[1], 2 * error, len(truth))


def _by_kind(values: Tensor, kinds: Tensor) -> Tensor:
    """Return for every row of `values` the mean over the rows of its kind."""
    _, places, counts = kinds.unique(return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), values.shape[1], dtype=values.dtype).index_add_(0, places, values)
    means: Tensor = (sums / counts[:, None])[places]
    return means


def _threshold(scores: Numbers, truth: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold of greatest advantage, half way to the next lower score, and the advantage."""
    values = np.unique(scores)
    sides = [np.sort(scores[truth]), np.sort(scores[~truth])]
    above = [1.0 - np.searchsorted(side, values) / len(side) for side in sides]
    best = int(np.argmax(above[0] - above[1]))
    return float(values[max(0, best - 1) : best + 1].mean()), float(above[0][best] - above[1][best])


# Attacks on a finished run.


@dataclass(frozen=True)
class AttackInputs:
    """Finished run under attack: its result, encoder and seed, and the flip probabilities of its clients.

    Clients and tests of the `population` are scaled as in the run; `clusters` has the hidden one of each client, one
    for all where there are none.
    """

    saved: SavedResult
    encoder: KnownEncoder
    population: Population
    clusters: list[int]
    seed: int
    flips: list[float]

    @property
    def levels(self) -> list[float | None]:
        """Flip probabilities to attack: ``None`` (codes without binarisation), the paper's, and the run's own."""
        return [None, *sorted({level for level in LEVELS if level is not None} | set(self.flips))]

    def rng(self, *path: int | str) -> torch.Generator:
        """Return a random generator derived from the run's seed and `path`."""
        return derive_generator(self.seed, "attack", *path)


def attack(folder: Path, out: Path | None = None) -> str:
    """Attack the messages of the run in `folder`; write ``attack.json`` and ``attack.html``, and return a short table.

    The run is a finished one of the method "embedding". Its data are read again. Files are written to `out`, by default
    the run's folder. Raises FedkinError if there is no such run, it is one of another method, its scenario holds out no
    samples, or a file cannot be written.
    """
    inputs = _inputs(folder)
    how, width = inputs.saved.result, inputs.encoder.encoder.width
    separate = how["form"] == "classes" and how["normalise"] == "segment"
    with one_thread():
        pictures, reconstruction = _reconstruction(inputs)
        tree = {
            "run": folder.resolve().name,
            "flips": inputs.flips,
            "statements": [statement(flip, how["segments"] * width, width, separate).tree() for flip in inputs.flips],
            "reconstruction": reconstruction,
            "membership": _membership(inputs),
        }
    place = out or folder
    write_atomically(place / JSON, json.dumps(tree, indent=2, sort_keys=True) + "\n")
    write_page(place / PAGE, page_of(tree, pictures))
    return f"{as_text(tree)}\nReport: {place / PAGE}"


def _inputs(folder: Path) -> AttackInputs:
    saved = load_found(folder)
    if not isinstance(saved.method, SendsBits) or "flip" not in saved.result:
        raise FedkinError(
            f"{folder} is a run of '{saved.name}', whose clients send no bits to attack; give one of 'embedding'."
        )
    config = run_config(folder)
    population = config.scenario.build(config.data_seed).prepared(saved.preparation)
    if not any(len(y) for _, y in population.tests):
        hint = "; 'simulation.test_fraction' sets how many" if hasattr(config.scenario, "test_fraction") else ""
        raise FedkinError(
            f"The scenario '{config.simulation.scenario}' of {folder} holds out no samples to compare members "
            f"with{hint}."
        )
    for client in population.clients:
        client.x = saved.preparation.of(client)
    method: Any = config.method
    flips, result = sorted(set(method.flips or [saved.result["flip"]])), saved.result
    attacker = KnownEncoder(Encoder.of(result["encoder"]), result["vector"], bool(result["batch_statistics"]))
    hidden = population.clusters
    clusters = [0] * len(population.clients) if hidden is None else hidden.tolist()
    return AttackInputs(saved, attacker, population, clusters, config.seed, flips)


def _reconstruction(inputs: AttackInputs) -> tuple[list[tuple[str, str, Numbers]], dict[str, Any]]:
    """Attack by reconstruction at every flip probability, and return pictures (of images only) and errors.

    Up to 200 held-out samples of all clients are drawn; eight are shown, one of each class first.
    """
    x, y = (torch.cat([test[part] for test in inputs.population.tests]) for part in (0, 1))
    drawn = torch.randperm(len(x), generator=inputs.rng("samples"))[:200]
    x, classes = x[drawn], y[drawn].tolist()
    firsts = sorted(classes.index(label) for label in set(classes))
    shown = [*firsts, *(place for place in range(len(classes)) if place not in firsts)][:8]
    rows, levels = [("originals", 0.0, x[shown])], []
    for level in inputs.levels:
        result = reconstructed(inputs.encoder, x, level, inputs.rng("alone", str(level)))
        error = float(result.errors.mean())
        rows.append((_level_name(level), error, result.pictures[shown]))
        levels.append({"flip": level, "error": error, "recognised": result.recognised})
    guess = float((x - x.mean(0)).square().mean())
    summary = {"levels": levels, "samples": len(x), "guess": guess}
    return (_visible(inputs, rows) if x.ndim == 4 else []), summary


def _visible(inputs: AttackInputs, rows: Sequence[tuple[str, float, Tensor]]) -> list[tuple[str, str, Numbers]]:
    """Undo the scaling of images for display: black is the originals' minimum and white their maximum."""
    scaling, around = inputs.saved.preparation.scaling, (1, -1, 1, 1)
    assert scaling is not None  # tables have no pictures
    unscaled = [x * scaling.scale.view(around) + scaling.mean.view(around) for _, _, x in rows]
    lowest, highest = (0.0, 1.0) if scaling.mode == "unit" else map(float, unscaled[0].aminmax())
    pictures = []
    for (name, error, _), x in zip(rows, unscaled, strict=True):
        unit = ((x - lowest) / max(highest - lowest, 1e-9)).clamp(0, 1)
        images = unit[:, 0] if x.shape[1] == 1 else unit[:, :3].movedim(1, -1)
        pictures.append((name, f"{error:.4f}", images.numpy()))
    return pictures


def _sent(inputs: AttackInputs) -> list[Sent]:
    """Make the unflipped messages of at most 50 clients, evenly spaced over all clients."""
    population, saved = inputs.population, inputs.saved
    count = min(50, len(population.clients))
    messages = []
    for position in (number * len(population.clients) // count for number in range(count)):
        client, (x, y) = population.clients[position], population.tests[position]
        unseen = Client.unseen(client.x, client.y, inputs.rng("client", client.id))
        places = (client.y, y) if saved.result["form"] == "classes" and client.y is not None else None
        bits = saved.method.true_bits(unseen, saved.result)
        messages.append(Sent(bits, client.x, x, places, inputs.clusters[position]))
    return messages


def _membership(inputs: AttackInputs) -> list[dict[str, Any]]:
    """Attack messages as sent by membership inference, by flip probability."""
    cases = as_sent(inputs.encoder, _sent(inputs), 4, inputs.rng("members"))
    rows, width = [], inputs.encoder.encoder.width
    for level in inputs.levels:
        if level is not None:
            result = asdict(measured(cases, level, inputs.rng("flips", "sent", str(level))))
            epsilon = statement(level, width, width).tree()["epsilon_sample"]
            rows.append({"flip": level, "epsilon": epsilon, "bound": delta_of(0.0, level, width), **result})
    return rows


# The results in words, on the terminal and as a page; `tree` is what ``attack.json`` holds.


def verdict(tree: Mapping[str, Any]) -> str:
    """Compare the guarantee with what the attacks achieve, at the lowest flip probability in the run."""
    flip, epsilon = min(tree["flips"]), _weakest(tree)
    noise = f"With every bit flipped with probability {100 * flip:g} %" if flip else "Without noise"
    if epsilon is None:
        guarantee = "there is no privacy guarantee"
    elif epsilon > MEANINGFUL_EPSILON:
        guarantee = f"there is no meaningful guarantee (ε = {epsilon:,.0f} for all samples of a client)"
    else:
        guarantee = f"a message guarantees ε = {epsilon:.3g} for all samples of a client"
    membership = _level(tree["membership"], flip)
    sure = membership["advantage"] - membership["margin"]
    if sure > 0:
        success = f"messages reveal {'' if sure > 0.1 else 'a little of '}who took part"
    else:
        success = "membership inference from messages is no better than chance"
    return f"{noise}, {guarantee}. In practice {success} (advantage {_advantage(membership)})."


def headlines(tree: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the headline numbers of the verdict: label, value and explanation."""
    flip, reconstruction, epsilon = min(tree["flips"]), tree["reconstruction"], _weakest(tree)
    weak = epsilon is None or epsilon > MEANINGFUL_EPSILON
    recognised = 100 * _level(reconstruction["levels"], flip)["recognised"]
    advantage = _advantage(_level(tree["membership"], flip))
    return [
        ("ε of a client", _epsilon(epsilon), "of all its samples" + (", no meaningful guarantee" if weak else "")),
        ("Advantage", advantage, "of membership inference; 0 is chance, 1 certainty"),
        (
            "Recognised",
            f"{recognised:.1f} %",
            f"of samples alone in their class; chance {100 / reconstruction['samples']:.1f} %",
        ),
    ]


def _weakest(tree: Mapping[str, Any]) -> float | None:
    """Return the greatest epsilon of a client's samples in the run; ``None`` if one has no guarantee."""
    epsilons = [statement["epsilon_client"] for statement in tree["statements"]]
    return None if None in epsilons or not epsilons else max(epsilons)


def _level(levels: Sequence[Mapping[str, Any]], flip: float) -> Mapping[str, Any]:
    return next(level for level in levels if level["flip"] == flip)


def _advantage(membership: Mapping[str, Any]) -> str:
    return f"{round(membership['advantage'], 2) + 0.0:.2f} ± {membership['margin']:.2f}"


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:,.2f}"


def _level_name(flip: float | None) -> str:
    return "no quantisation" if flip is None else f"P = {100 * flip:g} %"


_NOTES = (
    "ε bounds the logarithm of the likelihood ratio of a message under two data sets. Above 1 it promises little, "
    "above 10 next to nothing.",
    "Reconstruction is of segments made from a single sample, the worst case. The attacker has the decoder and knows "
    "the minimum and the maximum of every code. Recognised: nearer to its own sample than to any other one tried.",
    "The paper's numbers are of other autoencoders and sums over eight images, so only ratios compare.",
    "Membership: the advantage is the true positive rate less the false positive rate of an attacker that has the "
    "encoder, the sample and all messages. Score and threshold are chosen on one half of the cases and tried on the "
    "other; ± is two standard errors. The bound is of any attacker where one sample changes all bits of a segment.",
    "All of this covers the messages only, not the encoder that clients train, nor the training that follows.",
)


def page_of(tree: Mapping[str, Any], pictures: Sequence[tuple[str, str, Numbers]]) -> PageView:
    """Build the page; `pictures` are originals, then reconstructions by level, with their errors, or none."""
    guarantees = "The smaller ε, the less a message reveals about the samples it was made from; see the notes."
    errors = "Mean squared errors: the larger, the less is revealed; compare them with that of a guess."
    members = "0 is chance, 1 is certainty; noise and more samples per client lower it."
    samples = f"Reconstruction of {tree['reconstruction']['samples']} samples"
    strips = PictureTable(
        "Originals and reconstructions", "The same samples at every level of noise.",
        ("level of noise", "pictures", "error"), pictures,
    )  # fmt: skip
    subject = "What the bits that clients send reveal, by the probability P with which each is flipped."
    return PageView(
        title=f"Attacks on {tree['run']}",
        lead=f"{verdict(tree)}\n{subject}",
        summary=headlines(tree),
        parts=[
            PagePart("privacy", "Privacy guarantees", figures=[_table("Guarantees", guarantees, _guarantees(tree))]),
            PagePart("reconstruction", "Reconstruction", figures=[_table(samples, errors, _errors(tree))]),
            *([PagePart("pictures", "Reconstructed samples", figures=[strips])] if pictures else []),
            PagePart("membership", "Membership inference", figures=[_table("Advantage", members, _members(tree))]),
            PagePart("notes", "Notes", notes=_NOTES),
        ],
    )


def as_text(tree: Mapping[str, Any]) -> str:
    """Write the verdict and the two tables of numbers for a terminal."""
    return (
        f"{sentence_text(verdict(tree), elsewhere=110)}\n\nReconstruction\n{table_text(_errors(tree))}\n\n"
        f"Membership (advantage)\n{table_text(_members(tree), left=(0, 1))}"
    )


def _table(title: str, caption: str, rows: Rows) -> ResultTable:
    (corner, *columns), *below = rows
    return ResultTable(
        title, caption, corner, columns, [(name, [TableCell(text) for text in texts]) for name, *texts in below]
    )


def _errors(tree: Mapping[str, Any]) -> Rows:
    reconstruction = tree["reconstruction"]
    base = _level(reconstruction["levels"], 0.0)["error"]

    def ratio(part: float, whole: float = base) -> str:
        return f"{part / whole:.2f}" if whole else "–"

    rows = [["", "error", "of P = 0 %", "paper, of P = 0 %", "recognised"]]
    for level in reconstruction["levels"]:
        paper = ratio(PAPER[level["flip"]], PAPER[0.0]) if level["flip"] in PAPER else ""
        error, recognised = level["error"], 100 * level["recognised"]
        rows.append([_level_name(level["flip"]), f"{error:.4f}", ratio(error), paper, f"{recognised:.1f} %"])
    guess, chance = reconstruction["guess"], 100 / reconstruction["samples"]
    return [*rows, ["the mean of all as a guess", f"{guess:.4f}", ratio(guess), "", f"{chance:.1f} %"]]


def _members(tree: Mapping[str, Any]) -> Rows:
    rows = [["", "ε of a segment", "advantage", "bound"]]
    for level in tree["membership"]:
        bound = f"{level['bound']:.3f}"
        rows.append([_level_name(level["flip"]), _epsilon(level["epsilon"]), _advantage(level), bound])
    return rows


def _guarantees(tree: Mapping[str, Any]) -> Rows:
    names = {
        "epsilon_bit": "ε of one bit",
        "epsilon_sample": "ε of adding or removing one sample",
        "epsilon_replaced": "ε of replacing one sample",
        "epsilon_client": "ε of all samples of a client",
        "epsilon_client_delta": "the same with δ",
    }
    statements = tree["statements"]
    return [
        ["bound", *(_level_name(statement["flip"]) for statement in statements)],
        *([words, *(_epsilon(statement[name]) for statement in statements)] for name, words in names.items()),
        ["δ", *(f"{statement['delta']:g}" for statement in statements)],
        ["bits of a message", *(f"{statement['bits']:,}" for statement in statements)],
        ["bits of a segment", *(f"{statement['width']:,}" for statement in statements)],
    ]
