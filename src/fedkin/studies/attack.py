"""Attacks on the bit messages of a finished run of the method "embedding": reconstruction and membership inference.

The attacked messages are made from the clients' data with the run's encoder, and flipped anew for every flip
probability; the run's own messages are one such draw at its own probability.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
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
from fedkin.nn.encoder import Encoder
from fedkin.privacy.accounting import MEANINGFUL_EPSILON, delta_of, statement
from fedkin.privacy.randomised_response import binary, flipped, normalised
from fedkin.report.figures import PagePart, PageView, PictureTable, ResultTable, TableCell
from fedkin.report.page import write_page
from fedkin.studies.pages import page_text

JSON, PAGE = "attack.json", "attack.html"
PAPER: dict[float | None, float] = {None: 0.0175, 0.0: 0.7039, 0.05: 0.8040, 0.1: 0.9075, 0.15: 0.9811, 0.2: 1.0765}
"""Table II of Prigent et al. 2024: errors by flip probability, summed over eight images; of ``None`` codes are sent as
they are, without quantisation."""
LEVELS = tuple(PAPER)
Numbers = NDArray[np.floating]


class KnownEncoder(NamedTuple):
    """Encoder of a run as the attacker has it, and how the clients' codes are made, see `Encoder.codes`."""

    encoder: Encoder
    vector: Tensor
    batch_statistics: bool = False

    def codes(self, x: Tensor) -> Tensor:
        """Encode samples ``(n, *shape)`` as those of one client to codes ``(n, width)``."""
        return self.encoder.codes(self.vector, x, self.batch_statistics)


def reconstruct(
    attacker: KnownEncoder, x: Tensor, probability: float | None, rng: torch.Generator
) -> tuple[Tensor, float, float]:
    """Reconstruct segments of one sample each, of `x` ``(n, *shape)``: pictures, mean squared error, share recognised.

    `probability` is that of a flip; ``None`` for codes that are sent without binarisation. The attacker knows the
    minimum and the maximum of every code, for which bits of 0 and 1 stand. Recognised are pictures nearer to their own
    sample than to any other of the n; 1 / n by chance.
    """
    # With statistics of a batch each sample is encoded as the only one of its class.
    batches = x.split(1) if attacker.batch_statistics else [x]
    codes = torch.cat([attacker.codes(batch) for batch in batches])
    if probability is not None:
        lowest, highest = codes.aminmax(dim=1, keepdim=True)
        codes = torch.where(flipped(binary(codes), probability, rng).bool(), highest, lowest)
    pictures = attacker.encoder.decoded(attacker.vector, codes)
    right = torch.cdist(pictures.flatten(1).double(), x.flatten(1).double()).argmin(1) == torch.arange(len(x))
    error = (pictures - x).square().flatten(1).mean(1).mean()
    return pictures, float(error), float(right.double().mean())


class Sent(NamedTuple):
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


def cases_of(attacker: KnownEncoder, messages: Sequence[Sent], per_segment: int, rng: torch.Generator) -> Cases:
    """Make test cases from messages: at most `per_segment` members of each segment, and as many others.

    Raises FedkinError if no client has both members and fresh samples for a segment.
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


def membership(cases: Cases, probability: float, rng: torch.Generator) -> dict[str, Any]:
    """Measure the success of membership inference if every bit is flipped with `probability`.

    The `advantage` is the true positive rate less the false positive rate, in [-1, 1]; 0 by chance. Score and threshold
    are chosen on one half of the cases and tested on the other, and vice versa (two-fold cross-validation). `margin` is
    two standard errors of it, as if the `cases`, whose number is given, were independent.

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
    scores = [surprise.numpy(), likeness.numpy()]
    truth, first = cases.members.numpy(), (cases.blocks % 2 == 0).numpy()
    predicted = np.zeros(len(truth), dtype=bool)
    for fit in (first, ~first):
        thresholds = [_threshold(score[fit], truth[fit]) for score in scores]
        best = int(np.argmax([advantage for _, advantage in thresholds]))
        predicted[~fit] = scores[best][~fit] >= thresholds[best][0]
    rates = float(predicted[truth].mean()), float(predicted[~truth].mean())
    error = math.sqrt(sum(rate * (1 - rate) / side.sum() for rate, side in zip(rates, (truth, ~truth), strict=True)))
    return {"advantage": rates[0] - rates[1], "margin": 2 * error, "cases": len(truth)}


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


def attack(folder: Path, out: Path | None = None) -> str:
    """Attack the messages of the run in `folder`; write ``attack.json`` and ``attack.html``, and return a short text.

    The run is a finished one of the method "embedding". Its data are read again. Files are written to `out`, by default
    the run's folder. Raises FedkinError if there is no such run, it is one of another method, its scenario holds out no
    samples, or a file cannot be written.
    """
    saved, config = load_found(folder), run_config(folder)
    how, method = saved.result, config.method
    if not isinstance(saved.method, SendsBits) or "flip" not in how:
        raise FedkinError(
            f"{folder} is a run of '{saved.name}', whose clients send no bits to attack; give one of 'embedding'."
        )
    population = config.scenario.build(config.data_seed).prepared(saved.preparation)
    if not any(len(y) for _, y in population.tests):
        raise FedkinError(
            f"The scenario '{config.simulation.scenario}' of {folder} holds out no samples to compare members with; "
            "'simulation.test_fraction' of scenarios that have it sets how many."
        )
    flips: list[float] = sorted(set(getattr(method, "flips", None) or [how["flip"]]))
    noise = sorted({level for level in LEVELS if level is not None} | set(flips))
    attacker = KnownEncoder(Encoder.of(how["encoder"]), how["vector"], bool(how["batch_statistics"]))
    width = attacker.encoder.width
    with one_thread():
        pictures, reconstruction = _reconstruction(attacker, population, saved, [None, *noise], config.seed)
        sent = _messages(population, saved, config.seed)
        cases, rows = cases_of(attacker, sent, 4, _rng(config.seed, "members")), []
        for level in noise:
            guarantee = {"epsilon": statement(level, width, width)["epsilon_sample"]}
            success = membership(cases, level, _rng(config.seed, "flips", "sent", str(level)))
            rows.append({"flip": level, "bound": delta_of(0.0, level, width), **guarantee, **success})
    separate = how["form"] == "classes" and how["normalise"] == "segment"
    tree = {
        "run": folder.resolve().name,
        "flips": flips,
        "statements": [statement(flip, how["segments"] * width, width, separate) for flip in flips],
        "reconstruction": reconstruction,
        "membership": rows,
    }
    place, page = out or folder, page_of(tree, pictures)
    write_atomically(place / JSON, json.dumps(tree, indent=2, sort_keys=True) + "\n")
    write_page(place / PAGE, page)
    return f"{page_text(page, ('reconstruction', 'membership'))}\nReport: {place / PAGE}"


def _rng(seed: int, *path: int | str) -> torch.Generator:
    return derive_generator(seed, "attack", *path)


def _reconstruction(
    attacker: KnownEncoder, population: Population, saved: SavedResult, levels: Sequence[float | None], seed: int
) -> tuple[list[tuple[str, str, Numbers]], dict[str, Any]]:
    """Attack by reconstruction at every flip probability, and return pictures (of images only) and errors.

    Up to 200 held-out samples of all clients are drawn; eight are shown, one of each class first.
    """
    x, y = (torch.cat([test[part] for test in population.tests]) for part in (0, 1))
    drawn = torch.randperm(len(x), generator=_rng(seed, "samples"))[:200]
    x, classes = x[drawn], y[drawn].tolist()
    firsts = sorted(classes.index(label) for label in set(classes))
    shown = [*firsts, *(place for place in range(len(classes)) if place not in firsts)][:8]
    rows, figures = [("originals", 0.0, x[shown])], []
    for level in levels:
        made, error, recognised = reconstruct(attacker, x, level, _rng(seed, "alone", str(level)))
        rows.append((_level_name(level), error, made[shown]))
        figures.append({"flip": level, "error": error, "recognised": recognised})
    pictures = []
    scaling, around = saved.preparation.encoding, (1, -1, 1, 1)
    if x.ndim == 4:  # black is the originals' minimum and white their maximum
        unscaled = [row * scaling.scale.view(around) + scaling.mean.view(around) for _, _, row in rows]
        lowest, highest = (0.0, 1.0) if scaling.mode == "unit" else map(float, unscaled[0].aminmax())
        for (name, error, _), row in zip(rows, unscaled, strict=True):
            unit = ((row - lowest) / max(highest - lowest, 1e-9)).clamp(0, 1)
            images = unit[:, 0] if row.shape[1] == 1 else unit[:, :3].movedim(1, -1)
            pictures.append((name, f"{error:.4f}", images.numpy()))
    guess = float((x - x.mean(0)).square().mean())
    return pictures, {"levels": figures, "samples": len(x), "guess": guess}


def _messages(population: Population, saved: SavedResult, seed: int) -> list[Sent]:
    """Make the unflipped messages of at most 50 clients, evenly spaced over all clients."""
    clients, messages = len(population.clients), []
    count = min(50, clients)
    for position in (number * clients // count for number in range(count)):
        client, (x, y) = population.clients[position], population.tests[position]
        client.x = saved.preparation.of(client)
        unseen = Client.unseen(client.x, client.y, _rng(seed, "client", client.id))
        places = (client.y, y) if saved.result["form"] == "classes" and client.y is not None else None
        bits = saved.method.true_bits(unseen, saved.result)
        kind = 0 if population.clusters is None else int(population.clusters[position])
        messages.append(Sent(bits, client.x, x, places, kind))
    return messages


# The results in words and tables; `tree` is what ``attack.json`` holds.


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
    success = _level(tree["membership"], flip)
    sure = success["advantage"] - success["margin"]
    words = f"messages reveal {'' if sure > 0.1 else 'a little of '}who took part"
    words = words if sure > 0 else "membership inference from messages is no better than chance"
    return f"{noise}, {guarantee}. In practice {words} (advantage {_advantage(success)})."


def _weakest(tree: Mapping[str, Any]) -> float | None:
    """Return the greatest epsilon of a client's samples in the run; ``None`` if one has no guarantee."""
    epsilons = [statement["epsilon_client"] for statement in tree["statements"]]
    return None if None in epsilons or not epsilons else max(epsilons)


def _level(levels: Sequence[Mapping[str, Any]], flip: float) -> Mapping[str, Any]:
    return next(level for level in levels if level["flip"] == flip)


def _advantage(success: Mapping[str, Any]) -> str:
    return f"{round(success['advantage'], 2) + 0.0:.2f} ± {success['margin']:.2f}"


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:,.2f}"


def _level_name(flip: float | None) -> str:
    return "no quantisation" if flip is None else f"P = {100 * flip:g} %"


_NOTES = (
    "ε above 1 promises little, above 10 next to nothing.",
    "Reconstruction is of segments made from a single sample, the worst case, by an attacker with the decoder. "
    "Recognised: nearer to its own sample than to any other one tried. The paper's numbers are of other autoencoders "
    "and sums over eight images, so only ratios compare.",
    "Membership: the advantage is the true positive rate less the false positive rate of an attacker that has the "
    "encoder, the sample and all messages; ± is two standard errors. The bound is of any attacker where one sample "
    "changes all bits of a segment.",
    "All of this covers the messages only, not the encoder that clients train, nor the training that follows.",
)


def page_of(tree: Mapping[str, Any], pictures: Sequence[tuple[str, str, Numbers]]) -> PageView:
    """Build the page; `pictures` are originals, then reconstructions by level, with their errors, or none."""
    errors, flip = tree["reconstruction"], min(tree["flips"])
    base, chance = _level(errors["levels"], 0.0)["error"], 100 / errors["samples"]
    recognised = 100 * _level(errors["levels"], flip)["recognised"]
    rows = [(_level_name(level["flip"]), level["error"], 100 * level["recognised"], PAPER.get(level["flip"]))
            for level in errors["levels"]]  # fmt: skip
    rows.append(("the mean of all as a guess", errors["guess"], chance, None))
    reconstructions = [
        [name, f"{error:.4f}", f"{error / base:.2f}" if base else "–",
         "" if paper is None else f"{paper / PAPER[0.0]:.2f}", f"{share:.1f} %"]
        for name, error, share, paper in rows
    ]  # fmt: skip
    members = [
        [_level_name(level["flip"]), _epsilon(level["epsilon"]), _advantage(level), f"{level['bound']:.3f}"]
        for level in tree["membership"]
    ]
    strips = PictureTable(
        "Originals and reconstructions", "The same samples at every level of noise.",
        ("level of noise", "pictures", "error"), pictures,
    )  # fmt: skip
    tables = {
        "reconstruction": _table(
            f"Reconstruction of {errors['samples']} samples", "Mean squared errors: the larger, the less is revealed.",
            ["", "error", "of P = 0 %", "paper, of P = 0 %", "recognised"], reconstructions,
        ),
        "membership": _table(
            "Membership inference", "0 is chance, 1 is certainty; noise and more samples per client lower it.",
            ["", "ε of a segment", "advantage", "bound"], members,
        ),
    }  # fmt: skip
    return PageView(
        title=f"Attacks on {tree['run']}",
        lead=f"{verdict(tree)}\nBy the probability P with which each bit that clients send is flipped.",
        summary=[
            ("ε of a client", _epsilon(_weakest(tree)), "of all its samples"),
            ("Advantage", _advantage(_level(tree["membership"], flip)), "of membership inference"),
            ("Recognised", f"{recognised:.1f} %", f"of samples alone in their class; chance {chance:.1f} %"),
        ],
        parts=[
            *(PagePart(anchor, table.title, figures=[table]) for anchor, table in tables.items()),
            *([PagePart("pictures", "Reconstructed samples", figures=[strips])] if pictures else []),
            PagePart("notes", "Notes", notes=_NOTES),
        ],
    )


def _table(title: str, caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> ResultTable:
    cells = [(name, [TableCell(text) for text in texts]) for name, *texts in rows]
    return ResultTable(title, caption, heads[0], heads[1:], cells)
