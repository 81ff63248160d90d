"""Attacks on the bit messages of a finished run of the method "embedding": reconstruction and membership inference.

The attacked messages are made from the clients' data with the run's encoder, and flipped anew for every flip
probability; the run's own messages are one such draw at its own probability.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.engines.local import one_thread
from fedkin.experiment.outputs import SavedResult, load_found
from fedkin.experiment.run_folder import run_config
from fedkin.nn.encoder import Encoder
from fedkin.privacy.accounting import delta_of, statement
from fedkin.privacy.randomised_response import normalised
from fedkin.studies.attack.attack_page import PictureRow, as_text, level_name, page_of
from fedkin.studies.attack.membership import Cases, Sent, as_sent, likeliest, measured, planned
from fedkin.studies.attack.reconstruction import LEVELS, KnownEncoder, reconstructed, reconstructed_messages

JSON, PAGE = "attack.json", "attack.html"
SAMPLES_PER_CLASS = (1, 2, 5, 20)
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
    if not found.method.sends_bits or "flip" not in found.result:
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
    parts = _parts(material)
    rows, levels = [("originals", 0.0, x[shown])], []
    for level in material.levels:
        singly = reconstructed(material.known, x, level, material.rng("alone", str(level)))
        rng = material.rng("sent", str(level))
        to_samples, to_mean, spread = reconstructed_messages(material.known, parts, level, rng)
        error = float(singly.errors.mean())
        rows.append((level_name(level), error, singly.pictures[shown]))
        levels.append(
            {
                "flip": level,
                "error": error,
                "recognised": singly.recognised,
                "sent_to_samples": to_samples,
                "sent_to_mean": to_mean,
            }
        )
    guess = float((x - x.mean(0)).square().mean())
    summary = {"levels": levels, "samples": len(x), "guess": guess, "segments": len(parts), "spread": spread}
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


def _parts(material: Material) -> list[Tensor]:
    """Return the samples that each segment of a few clients' messages is computed from."""
    parts = []
    for sent in _sent(material)[:_SHOWN]:
        known = material.known
        places = sent.places[0] if sent.places else likeliest(sent.bits, normalised(known.codes(sent.members)))
        parts += [sent.members[places == place] for place in places.unique().tolist()]
    return parts


def _membership(material: Material) -> dict[str, Any]:
    """Attack by membership inference, by number of samples per class and by flip probability."""
    pools = _pools(material)
    cases: dict[str, Cases] = {}
    for size in SAMPLES_PER_CLASS:
        if enough := [pool for pool in pools if len(pool) > size]:
            cases[str(size)] = planned(material.known, enough, size, _TRIALS, material.rng("held", size))
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
