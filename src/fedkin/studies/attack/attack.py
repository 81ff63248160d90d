"""Attacks on the bit messages of a finished run of the method "embedding": reconstruction and membership inference.

The attacked messages are made from the clients' data with the run's encoder, and flipped anew for every flip
probability; the run's own messages are one such draw at its own probability.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
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
from fedkin.privacy.accounting import delta_of, statement
from fedkin.privacy.randomised_response import binary, flipped, normalised
from fedkin.studies.attack.attack_page import PictureRow, as_text, level_name, page_of

LEVELS: tuple[float | None, ...] = (None, 0.0, 0.05, 0.1, 0.15, 0.2)
"""Flip probabilities of the paper's table II and figure 3; None leaves the code as it is, without quantisation."""


@dataclass(frozen=True)
class Reconstruction:
    """Result of reconstructing segments of one sample each: pictures ``(n, *shape)``, and mean squared errors ``(n,)``.

    `recognised` is the share of the reconstructions that are nearer to their own sample than to any other of the n; 1 /
    n by chance.
    """

    pictures: Tensor
    errors: Tensor
    recognised: float


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
        if not self.batch_statistics:
            return self.codes(x)
        return torch.cat([self.codes(one) for one in x.split(1)])

    def decoded(self, codes: Tensor, probability: float | None, rng: torch.Generator) -> Tensor:
        """Decode codes, or bits made of them that are flipped with a `probability`, to samples ``(n, *shape)``.

        The attacker knows the minimum and the maximum of every code, for which bits of 0 and 1 stand.
        """
        if probability is None:
            return self.encoder.decoded(self.vector, codes)
        lowest, highest = codes.aminmax(dim=1, keepdim=True)
        return self.encoder.decoded(
            self.vector, torch.where(flipped(binary(codes), probability, rng).bool(), highest, lowest)
        )


def reconstructed(known: KnownEncoder, x: Tensor, probability: float | None, rng: torch.Generator) -> Reconstruction:
    """Attack segments of one sample each, of `x` ``(n, *shape)``, by reconstruction.

    `probability` is that of a flip; ``None`` for codes that are sent without binarisation.
    """
    pictures = known.decoded(known.codes_one_by_one(x), probability, rng)
    distances = torch.cdist(pictures.flatten(1).double(), x.flatten(1).double())
    right = distances.argmin(1) == torch.arange(len(x))
    return Reconstruction(pictures, (pictures - x).square().flatten(1).mean(1), float(right.double().mean()))


Numbers = NDArray[np.floating]
_SURE = 0.02
"""No bit is taken for more certain than this, however seldom it was seen."""


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


def alone(known: KnownEncoder, pools: Sequence[Tensor], trials: int, rng: torch.Generator) -> Cases:
    """Make test cases from simulated clients with one sample of a class: it, and another one that is no member.

    Each of the `pools` has two or more samples ``(n, *shape)``; a client draws from one. `trials` are at least 1.
    """
    codes = [known.codes_one_by_one(x) for x in pools]
    unit = [normalised(each) for each in codes]
    kinds = torch.randint(len(pools), (trials,), generator=rng)
    rows = [torch.randperm(len(pools[pool]), generator=rng)[:2] for pool in kinds.tolist()]
    first = torch.stack([codes[pool][pair[0]] for pool, pair in zip(kinds.tolist(), rows, strict=True)])
    return Cases(
        binary(first).repeat_interleave(2, 0),
        torch.cat([unit[pool][pair] for pool, pair in zip(kinds.tolist(), rows, strict=True)]),
        torch.tensor([True, False]).repeat(trials),
        kinds.repeat_interleave(2),
        torch.arange(trials).repeat_interleave(2),
    )


def as_sent(known: KnownEncoder, messages: Sequence[Sent], per_segment: int, rng: torch.Generator) -> Cases:
    """Make test cases from the messages of the run's clients.

    At most `per_segment` members are tried with each segment, and as many others. Raises FedkinError if no client has
    both members and fresh samples for a segment.
    """
    made: list[Cases] = []
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
            taken = maximum if known.batch_statistics else count
            drawn = [x[torch.randperm(len(x), generator=rng)[:taken]] for x in sides]
            # Both sides in one batch: statistics of batches of different sizes would give the side away.
            codes = normalised(known.codes(torch.cat(drawn)))
            codes = torch.cat([codes[:count], codes[len(drawn[0]) :][:count]])
            at = torch.full((2 * count,), place) if place is not None else likeliest(sent.bits, codes)
            made.append(
                Cases(
                    sent.bits[at],
                    codes,
                    torch.tensor([True, False]).repeat_interleave(count),
                    sent.kind * segments + at,
                    torch.full((2 * count,), block),
                )
            )
    if not made:
        raise FedkinError("No client has samples of a segment both in its data and held out, so nothing can be tried.")
    return Cases(*(torch.cat(parts) for parts in zip(*made, strict=True)))


def likeliest(bits: Tensor, codes: Tensor) -> Tensor:
    """Return the segment ``(n,)`` of `bits` ``(segments, width)`` that is nearest to each code ``(n, width)``."""
    return torch.cdist(codes.round(), bits.double(), p=1).argmin(1)


def measured(cases: Cases, probability: float, rng: torch.Generator) -> Membership:
    """Measure the success of membership inference if every bit is flipped with `probability`."""
    bits = flipped(cases.segments, probability, rng).double()
    # How often a bit is 1 in segments of this kind; flips pull it towards one half.
    usual = _by_kind(cases.segments.double(), cases.kinds)
    usual = usual * (1 - probability) + (1 - usual) * probability
    scores = [_surprise(bits, usual, cases.codes, probability), _likeness(bits, usual, cases)]
    truth, first = cases.members.numpy(), (cases.blocks % 2 == 0).numpy()
    predicted = np.zeros(len(truth), dtype=bool)
    for fit in (first, ~first):
        fits = [_threshold(score[fit], truth[fit]) for score in scores]
        best = int(np.argmax([advantage for _, advantage in fits]))
        predicted[~fit] = scores[best][~fit] >= fits[best][0]
    rates = float(predicted[truth].mean()), float(predicted[~truth].mean())
    error = math.sqrt(sum(rate * (1 - rate) / side.sum() for rate, side in zip(rates, (truth, ~truth), strict=True)))
    return Membership(rates[0] - rates[1], 2 * error, len(truth))


def _surprise(bits: Tensor, usual: Tensor, codes: Tensor, probability: float) -> Numbers:
    """Return the log-likelihood ratio of the bits: made of this sample alone, against segments of this kind."""
    wrong = max(probability, _SURE)
    own = torch.where(bits == codes.round(), math.log(1 - wrong), math.log(wrong))
    usual = usual.clamp(_SURE, 1 - _SURE)
    return np.asarray((own - torch.where(bits == 1, usual, 1 - usual).log()).mean(1))


def _likeness(bits: Tensor, usual: Tensor, cases: Cases) -> Numbers:
    """Return the covariance of bits and sample codes, each centred on the mean of their kind.

    Members and non-members together define the mean code, which favours neither.
    """
    return np.asarray(((bits - usual) * (cases.codes - _by_kind(cases.codes, cases.kinds))).mean(1))


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
    above = [1.0 - np.searchsorted(each, values) / len(each) for each in sides]
    best = int(np.argmax(above[0] - above[1]))
    return float(values[max(0, best - 1) : best + 1].mean()), float(above[0][best] - above[1][best])


JSON, PAGE = "attack.json", "attack.html"
_SAMPLES, _SHOWN, _POOL = 200, 8, 200
_MESSAGES, _PER_SEGMENT, _TRIALS = 50, 4, 2000


@dataclass(frozen=True)
class Material:
    """Finished run under attack: its result, encoder and seed, and the flip probabilities of its clients.

    Clients and tests of the `population` are scaled as in the run.
    """

    found: SavedResult
    known: KnownEncoder
    population: Population
    seed: int
    flips: list[float]

    @property
    def levels(self) -> list[float | None]:
        """Flip probabilities to attack: ``None`` (codes without binarisation), the paper's, and the run's own."""
        return [None, *sorted({level for level in LEVELS if level is not None} | set(self.flips))]

    @property
    def clusters(self) -> list[int]:
        """The hidden cluster of each client; one for all where there are none."""
        hidden = self.population.clusters
        return [0] * len(self.population.clients) if hidden is None else hidden.tolist()

    def rng(self, *path: int | str) -> torch.Generator:
        """Return a random generator derived from the run's seed and `path`."""
        return derive_generator(self.seed, "attack", *path)


def attack(folder: Path, out: Path | None = None) -> str:
    """Attack the messages of the run in `folder`; write ``attack.json`` and ``attack.html``, and return a short table.

    The run is a finished one of the method "embedding". Its data are read again. Files are written to `out`, by default
    the run's folder. Raises FedkinError if there is no such run, it is one of another method, its scenario holds out no
    samples, or a file cannot be written.
    """
    material = _material(folder)
    with one_thread():
        pictures, reconstruction = _reconstruction(material)
        tree = {
            "run": folder.resolve().name,
            "flips": material.flips,
            "statements": _statements(material),
            "reconstruction": reconstruction,
            "membership": _membership(material),
        }
    place = out or folder
    write_atomically(place / JSON, json.dumps(tree, indent=2, sort_keys=True) + "\n")
    write_atomically(place / PAGE, page_of(tree, pictures))
    return f"{as_text(tree)}\nReport: {place / PAGE}"


def _material(folder: Path) -> Material:
    found = load_found(folder)
    if not isinstance(found.method, SendsBits) or "flip" not in found.result:
        raise FedkinError(
            f"{folder} is a run of '{found.name}', whose clients send no bits to attack; give one of 'embedding'."
        )
    config = run_config(folder)
    population = config.scenario.build(config.data_seed).prepared(found.preparation)
    if not any(len(y) for _, y in population.tests):
        hint = "; 'scenario.test_fraction' sets how many" if hasattr(config.scenario, "test_fraction") else ""
        raise FedkinError(
            f"The scenario '{config.tables['scenario']['name']}' of {folder} holds out no samples to compare members "
            f"with{hint}."
        )
    for client in population.clients:
        client.x = found.preparation.of(client)
    method: Any = config.method
    flips = sorted(set(method.flips or [found.result["flip"]]))
    result = found.result
    known = KnownEncoder(Encoder.of(result["encoder"]), result["vector"], bool(result["batch_statistics"]))
    return Material(found, known, population, config.seed, flips)


def _statements(material: Material) -> list[dict[str, Any]]:
    """Return the privacy guarantee of a message for each of the run's flip probabilities."""
    how, width = material.found.result, material.known.encoder.width
    separate = how["form"] == "classes" and how["normalise"] == "segment"
    return [statement(flip, how["segments"] * width, width, separate).tree() for flip in material.flips]


def _reconstruction(material: Material) -> tuple[list[PictureRow], dict[str, Any]]:
    """Attack by reconstruction at every flip probability; return pictures (of images only) and errors."""
    x, shown = _samples(material)
    rows, levels = [("originals", 0.0, x[shown])], []
    for level in material.levels:
        singly = reconstructed(material.known, x, level, material.rng("alone", str(level)))
        error = float(singly.errors.mean())
        rows.append((level_name(level), error, singly.pictures[shown]))
        levels.append({"flip": level, "error": error, "recognised": singly.recognised})
    guess = float((x - x.mean(0)).square().mean())
    summary = {"levels": levels, "samples": len(x), "guess": guess}
    return (_visible(material, rows) if x.ndim == 4 else []), summary


def _samples(material: Material) -> tuple[Tensor, list[int]]:
    """Draw held-out samples of all clients, and choose those that are shown, one of each class first."""
    x, y = (torch.cat([test[part] for test in material.population.tests]) for part in (0, 1))
    drawn = torch.randperm(len(x), generator=material.rng("samples"))[:_SAMPLES]
    first: dict[int, int] = {}
    for place, label in enumerate(y[drawn].tolist()):
        first.setdefault(label, place)
    others = [place for place in range(len(drawn)) if place not in first.values()]
    return x[drawn], [*sorted(first.values()), *others][:_SHOWN]


def _visible(material: Material, rows: Sequence[tuple[str, float, Tensor]]) -> list[PictureRow]:
    """Undo the scaling of images for display: black is the originals' minimum and white their maximum."""
    scaling, around = material.found.preparation.scaling, (1, -1, 1, 1)
    assert scaling is not None  # tables have no pictures
    seen = [(name, error, x * scaling.scale.view(around) + scaling.mean.view(around)) for name, error, x in rows]
    lowest, highest = (0.0, 1.0) if scaling.mode == "unit" else map(float, seen[0][2].aminmax())
    made = []
    for name, error, x in seen:
        unit = ((x - lowest) / max(highest - lowest, 1e-9)).clamp(0, 1)
        images = unit[:, 0] if x.shape[1] == 1 else unit[:, :3].movedim(1, -1)
        made.append((name, error, images.numpy()))
    return made


def _sent(material: Material) -> list[Sent]:
    """Make the unflipped messages of at most `_MESSAGES` clients, evenly spaced over all clients."""
    population, result = material.population, material.found.result
    clusters = material.clusters
    count = min(_MESSAGES, len(population.clients))
    messages = []
    for number in range(count):
        at = number * len(population.clients) // count
        client, (x, y) = population.clients[at], population.tests[at]
        asked = Client.unseen(client.x, client.y, material.rng("client", client.id))
        places = (client.y, y) if result["form"] == "classes" and client.y is not None else None
        messages.append(Sent(material.found.method.true_bits(asked, result), client.x, x, places, clusters[at]))
    return messages


def _membership(material: Material) -> dict[str, Any]:
    """Attack segments of one sample and those of the run by membership inference, by flip probability."""
    cases: dict[str, Cases] = {}
    if pools := [pool for pool in _pools(material) if len(pool) > 1]:
        cases["1"] = alone(material.known, pools, _TRIALS, material.rng("held", 1))
    cases["sent"] = as_sent(material.known, _sent(material), _PER_SEGMENT, material.rng("members"))
    rows, width = [], material.known.encoder.width
    for level in material.levels:
        if level is not None:
            found = {
                name: dataclasses.asdict(measured(each, level, material.rng("flips", name, str(level))))
                for name, each in cases.items()
            }
            rows.append(
                {
                    "flip": level,
                    "epsilon": statement(level, width, width).tree()["epsilon_sample"],
                    "bound": delta_of(0.0, level, width),
                    "held": found,
                }
            )
    return {"levels": rows, "held": list(cases)}


def _pools(material: Material) -> list[Tensor]:
    """Return held-out samples by hidden cluster and class, each pool from one distribution."""
    pools = []
    for cluster in sorted(set(material.clusters)):
        pairs = zip(material.population.tests, material.clusters, strict=True)
        tests = [test for test, own in pairs if own == cluster]
        x, y = (torch.cat([test[part] for test in tests]) for part in (0, 1))
        pools += [x[y == label][:_POOL] for label in y.unique().tolist()]
    return pools
