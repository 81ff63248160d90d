"""Reconstruction of samples from the bit messages of a finished run of the method "embedding".

The attacked messages are made from the clients' data with the run's encoder, and flipped anew for every flip
probability; the run's own messages are one such draw at its own probability.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.method import SendsBits
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import one_thread
from fedkin.experiment.run_folder import load_found, run_config
from fedkin.experiment.terminal_tables import table_text
from fedkin.nn.encoder import Encoder
from fedkin.privacy.randomised_response import binary, bit_epsilon, flipped

JSON = "attack.json"


def reconstruct(
    encoder: Encoder, vector: Tensor, x: Tensor, probability: float | None, rng: torch.Generator
) -> tuple[float, float]:
    """Reconstruct segments of one sample each, of `x` ``(n, *shape)``; return mean squared error and share recognised.

    `vector` is the run's model of the encoder.
    `probability` is that of a flip; ``None`` for codes that are sent without binarisation. The attacker knows the
    minimum and the maximum of every code, for which bits of 0 and 1 stand. Recognised are samples whose reconstruction
    is nearer to them than to any other of the n; 1 / n by chance.
    """
    codes = encoder.codes(vector, x)
    if probability is not None:
        lowest, highest = codes.aminmax(dim=1, keepdim=True)
        codes = torch.where(flipped(binary(codes), probability, rng).bool(), highest, lowest)
    pictures = encoder.decoded(vector, codes)
    right = torch.cdist(pictures.flatten(1).double(), x.flatten(1).double()).argmin(1) == torch.arange(len(x))
    return float((pictures - x).square().mean()), float(right.double().mean())


def attack(folder: Path, out: Path | None = None) -> str:
    """Attack the messages of the run in `folder`; write ``attack.json``, and return it as text.

    The run is a finished one of the method "embedding". Its data are read again. The file is written to `out`, by
    default the run's folder. Raises FedkinError if there is no such run, it is one of another method, or its scenario
    holds out no samples.
    """
    saved, config = load_found(folder), run_config(folder)
    sent = saved.result
    if not isinstance(saved.method, SendsBits) or "flip" not in sent:
        raise FedkinError(f"Clients of {folder} sent no bits; give a run of 'embedding' with message = \"bits\".")
    population = saved.preparation.of_tests(config.scenario.build(config.data_seed))
    if not any(len(y) for _, y in population.tests):
        raise FedkinError(f"The scenario of {folder} holds out no samples; set simulation.test_fraction above 0.")
    levels = [None, *sorted({0.0, 0.05, 0.1, 0.15, 0.2, sent["flip"]})]  # those of table II; None is no quantisation
    encoder = Encoder.of(sent["encoder"])
    width, tried = encoder.width, []
    with one_thread():
        x = torch.cat([samples for samples, _ in population.tests])
        x = x[torch.randperm(len(x), generator=derive_generator(config.seed, "attack", "samples"))[:200]]
        for level in levels:
            rng = derive_generator(config.seed, "attack", "alone", str(level))
            error, recognised = reconstruct(encoder, sent["vector"], x, level, rng)
            epsilon = width * bit_epsilon(level) if level else None  # of a segment, which one sample may change
            tried.append({"flip": level, "error": error, "recognised": recognised, "epsilon": epsilon})
    tree = {
        "run": folder.resolve().name,
        "flips": [sent["flip"]],
        "reconstruction": {"levels": tried, "samples": len(x), "guess": float((x - x.mean(0)).square().mean())},
    }
    write_atomically((out or folder) / JSON, json.dumps(tree, indent=2, sort_keys=True) + "\n")
    return text_of(tree)


def text_of(tree: Mapping[str, Any]) -> str:
    """Return what ``attack.json`` holds as a table; an ε above 1 promises little, above 10 next to nothing."""
    errors = tree["reconstruction"]
    base = next(level["error"] for level in errors["levels"] if level["flip"] == 0.0)
    heads = ("error", "of P = 0 %", "recognised", "ε of a segment")
    rows: list[tuple[str, ...]] = [(f"Reconstruction of {errors['samples']} samples", *heads)]
    guess = {"flip": "mean of all as a guess", "error": errors["guess"], "recognised": 1 / errors["samples"]}
    for level in [*errors["levels"], guess]:
        flip = level["flip"]
        name = "no quantisation" if flip is None else flip if isinstance(flip, str) else f"P = {100 * flip:g} %"
        ratio = f"{level['error'] / base:.2f}" if base else "–"
        epsilon = "none" if level.get("epsilon") is None else f"{level['epsilon']:,.2f}"
        rows.append((name, f"{level['error']:.4f}", ratio, f"{100 * level['recognised']:.1f} %", epsilon))
    note = "P is the probability with which each bit is flipped. All of this covers the messages alone, no training."
    return f"{table_text(rows)}\n\n{note}"
