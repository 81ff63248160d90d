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
from sklearn.metrics import roc_curve
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.method import SendsBits
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.engines.local import one_thread
from fedkin.experiment.run_folder import SavedResult, load_found, run_config
from fedkin.experiment.terminal_tables import table_text
from fedkin.nn.encoder import Encoder
from fedkin.privacy.accounting import delta_of, statement
from fedkin.privacy.randomised_response import binary, flipped, normalised

JSON = "attack.json"
PAPER: dict[float | None, float] = {None: 0.0175, 0.0: 0.7039, 0.05: 0.8040, 0.1: 0.9075, 0.15: 0.9811, 0.2: 1.0765}
"""Table II of Prigent et al. 2024: errors by flip probability, summed over eight images; of ``None`` codes are sent as
they are, without quantisation."""


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
) -> tuple[float, float]:
    """Reconstruct segments of one sample each, of `x` ``(n, *shape)``; return mean squared error and share recognised.

    `probability` is that of a flip; ``None`` for codes that are sent without binarisation. The attacker knows the
    minimum and the maximum of every code, for which bits of 0 and 1 stand. Recognised are samples whose reconstruction
    is nearer to them than to any other of the n; 1 / n by chance.
    """
    # With statistics of a batch each sample is encoded as the only one of its class.
    batches = x.split(1) if attacker.batch_statistics else [x]
    codes = torch.cat([attacker.codes(batch) for batch in batches])
    if probability is not None:
        lowest, highest = codes.aminmax(dim=1, keepdim=True)
        codes = torch.where(flipped(binary(codes), probability, rng).bool(), highest, lowest)
    pictures = attacker.encoder.decoded(attacker.vector, codes)
    right = torch.cdist(pictures.flatten(1).double(), x.flatten(1).double()).argmin(1) == torch.arange(len(x))
    return float((pictures - x).square().mean()), float(right.double().mean())


class Message(NamedTuple):
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


Case = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Tests of samples on segments: bits of the segments, uint8, not flipped, and codes of the samples, float64 in [0, 1],
``(n, width)`` each; whether a sample is a member, bool ``(n,)``; and the kind of segment and the client, int64 each."""


def cases_of(attacker: KnownEncoder, messages: Sequence[Message], per_segment: int, rng: torch.Generator) -> Case:
    """Make test cases from messages: at most `per_segment` members of each segment, and as many others.

    Raises FedkinError if no client has both members and fresh samples for a segment.
    """
    cases: list[Case] = []
    for client, sent in enumerate(messages):
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
            placed = torch.full((2 * count,), place or 0)
            if place is None:
                placed = torch.cdist(codes.round(), sent.bits.double(), p=1).argmin(1)
            members, owner = torch.arange(2 * count) < count, torch.full((2 * count,), client)
            cases.append((sent.bits[placed], codes, members, sent.kind * segments + placed, owner))
    if not cases:
        raise FedkinError("No client has samples of a segment both in its data and held out, so nothing can be tried.")
    bits, codes, members, kinds, owners = (torch.cat(parts) for parts in zip(*cases, strict=True))
    return bits, codes, members, kinds, owners


def membership(cases: Case, probability: float, rng: torch.Generator) -> dict[str, Any]:
    """Measure the success of membership inference if every bit is flipped with `probability`.

    The `advantage` is the true positive rate less the false positive rate, in [-1, 1]; 0 by chance. The threshold is
    chosen on the cases of every second client and tested on the others, and vice versa. `margin` is two standard errors
    of it, as if the `cases`, whose number is given, were independent. The score is the log-likelihood ratio of the
    bits, made of this sample alone against segments of its kind.
    """
    segments, codes, members, kinds, owners = cases
    bits = flipped(segments, probability, rng).double()
    # How often a bit is 1 in segments of its kind; flips pull it towards one half.
    _, places, counts = kinds.unique(return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), bits.shape[1], dtype=bits.dtype).index_add_(0, places, segments.double())
    usual = (sums / counts[:, None])[places]
    usual = usual * (1 - probability) + (1 - usual) * probability
    sure = 0.02  # no bit is taken for more certain than this, however seldom it was seen
    wrong, likely = max(probability, sure), usual.clamp(sure, 1 - sure)
    from_sample = torch.where(bits == codes.round(), math.log(1 - wrong), math.log(wrong))
    score = (from_sample - torch.where(bits == 1, likely, 1 - likely).log()).mean(1).numpy()
    truth, first = members.numpy(), (owners % 2 == 0).numpy()
    predicted = np.zeros(len(truth), dtype=bool)
    for fit in (first, ~first):
        false_rate, true_rate, thresholds = roc_curve(truth[fit], score[fit], drop_intermediate=False)
        predicted[~fit] = score[~fit] >= thresholds[np.argmax(true_rate - false_rate)]
    rates = float(predicted[truth].mean()), float(predicted[~truth].mean())
    error = math.sqrt(sum(rate * (1 - rate) / side.sum() for rate, side in zip(rates, (truth, ~truth), strict=True)))
    return {"advantage": rates[0] - rates[1], "margin": 2 * error, "cases": len(truth)}


def attack(folder: Path, out: Path | None = None) -> str:
    """Attack the messages of the run in `folder`; write ``attack.json``, and return it as text.

    The run is a finished one of the method "embedding". Its data are read again. The file is written to `out`, by
    default the run's folder. Raises FedkinError if there is no such run, it is one of another method, or its scenario
    holds out no samples.
    """
    saved, config = load_found(folder), run_config(folder)
    sent, method = saved.result, config.method
    if not isinstance(saved.method, SendsBits) or "flip" not in sent:
        raise FedkinError(f"Clients of {folder} sent no bits; give a run of 'embedding' with message = \"bits\".")
    population = saved.preparation.of_tests(config.scenario.build(config.data_seed))
    if not any(len(y) for _, y in population.tests):
        raise FedkinError(f"The scenario of {folder} holds out no samples; set simulation.test_fraction above 0.")
    flips: list[float] = sorted(set(getattr(method, "flips", None) or [sent["flip"]]))
    levels = [None, *sorted({level for level in PAPER if level is not None} | set(flips))]
    attacker = KnownEncoder(Encoder.of(sent["encoder"]), sent["vector"], bool(sent["batch_statistics"]))
    width, tried, rows = attacker.encoder.width, [], []
    with one_thread():
        x = torch.cat([samples for samples, _ in population.tests])
        x = x[torch.randperm(len(x), generator=_rng(config.seed, "samples"))[:200]]
        cases = cases_of(attacker, _messages(population, saved, config.seed), 4, _rng(config.seed, "members"))
        for level in levels:
            error, recognised = reconstruct(attacker, x, level, _rng(config.seed, "alone", str(level)))
            tried.append({"flip": level, "error": error, "recognised": recognised})
            if level is not None:
                epsilon, bound = statement(level, width, width)["epsilon_sample"], delta_of(0.0, level, width)
                success = membership(cases, level, _rng(config.seed, "flips", "sent", str(level)))
                rows.append({"flip": level, "epsilon": epsilon, "bound": bound, **success})
    separate = sent["form"] == "classes" and sent["normalise"] == "segment"
    tree = {
        "run": folder.resolve().name,
        "flips": flips,
        "statements": [statement(flip, sent["segments"] * width, width, separate) for flip in flips],
        "reconstruction": {"levels": tried, "samples": len(x), "guess": float((x - x.mean(0)).square().mean())},
        "membership": rows,
    }
    write_atomically((out or folder) / JSON, json.dumps(tree, indent=2, sort_keys=True) + "\n")
    return text_of(tree)


def _rng(seed: int, *path: int | str) -> torch.Generator:
    return derive_generator(seed, "attack", *path)


def _messages(population: Population, saved: SavedResult, seed: int) -> list[Message]:
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
        messages.append(Message(bits, client.x, x, places, kind))
    return messages


# The results in tables; `tree` is what ``attack.json`` holds.


def _advantage(success: Mapping[str, Any]) -> str:
    return f"{round(success['advantage'], 2) + 0.0:.2f} ± {success['margin']:.2f}"


def _level_name(flip: float | None) -> str:
    return "no quantisation" if flip is None else f"P = {100 * flip:g} %"


def text_of(tree: Mapping[str, Any]) -> str:
    """Return both tables as text; ε above 1 promises little, above 10 next to nothing."""
    errors = tree["reconstruction"]
    base = next(level["error"] for level in errors["levels"] if level["flip"] == 0.0)
    tried = [(_level_name(level["flip"]), level["error"], level["recognised"], PAPER.get(level["flip"]))
             for level in errors["levels"]]  # fmt: skip
    rows: list[tuple[str, ...]] = [
        (f"Reconstruction of {errors['samples']} samples", "error", "of P = 0 %", "paper, of P = 0 %", "recognised")
    ]
    for name, error, share, paper in [*tried, ("mean of all as a guess", errors["guess"], 1 / errors["samples"], None)]:
        ratios = [f"{error / base:.2f}" if base else "–", "" if paper is None else f"{paper / PAPER[0.0]:.2f}"]
        rows.append((name, f"{error:.4f}", *ratios, f"{100 * share:.1f} %"))
    members = [("Membership", "ε of a segment", "advantage", "bound")]
    for level in tree["membership"]:
        epsilon = "none" if level["epsilon"] is None else f"{level['epsilon']:,.2f}"
        members.append((_level_name(level["flip"]), epsilon, _advantage(level), f"{level['bound']:.3f}"))
    note = "P is the probability with which each bit is flipped. All of this covers the messages alone, no training."
    return "\n\n".join([table_text(rows), table_text(members), note])
