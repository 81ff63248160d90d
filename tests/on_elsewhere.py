"""Tests of methods that compute on a device, run by `core/test_device.py` in a process of their own: see `elsewhere`.

With FEDKIN_DEVICE=cuda they compare a real device with the processor, see `make test-gpu`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import fedkin
import second_device
from fedkin.cli import main
from fedkin.clustering.metrics import clustering_accuracy
from fedkin.core import Client, Payload, task
from fedkin.core.device import device
from fedkin.core.payload import load_tree
from fedkin.core.runner import Callback, RecordLine, Timing
from fedkin.engines.site import Request, Site
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute, resume
from second_device import drawn

ELSEWHERE = second_device.DEVICE


@task
def place(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    return [{"device": device().type} for _ in clients]


CONTRAST = {"learning_rate": 1e-5, "latent": 16, "projector_units": 32, "batch_size": 16, "pretrain_rounds": 1}
NETWORKS = {"synthetic_samples": 20, "epochs": 1, "min_steps": 2, "capacity": 0.05}


@pytest.mark.parametrize(
    ("name", "options"),
    second_device.some(
        [
            ("CCFC", {**CONTRAST, "cluster_rounds": 1, "n_clusters": 3}),
            ("SCFC", {**CONTRAST, "n_clusters": 3}),
            (
                "FedCRef",
                {
                    "initial": "kmeans",
                    "n_clusters": 2,
                    "local_epochs": 2,
                    "min_steps": 4,
                    "max_iterations": 2,
                    "rounds": 1,
                },
            ),
            ("DEC", {"n_clusters": 2, "hidden": [16], "pretrain_steps": 5, "max_refreshes": 2}),
            ("SDAFC", {**NETWORKS, "n_clusters": 3}),
            ("PPFCGAN", {**NETWORKS, "n_clusters": 3, "pretrain_epochs": 1, "cluster_epochs": 1}),
            ("UIFCA", {"cluster_rounds": 1, "rounds": 1, "local_steps": 2, "width": 8, "depth": 1, "couplings": 2}),
        ]
    ),
)
@pytest.mark.filterwarnings("ignore:.* clusters were asked for:fedkin.core.errors.FedkinWarning")  # so small a fit
def test_samples_are_clustered_alike(name: str, options: dict[str, Any]) -> None:
    kinds = drawn((8, 8), 3)[1].numpy()
    sites = [kinds[np.arange(18) % 3] * np.float32(0.9) + drawn((8, 8), 18)[1].numpy() / 10 for _ in range(2)]
    here, there = fitted(name, sites, options)
    assert clustering_accuracy(np.concatenate(here.labels_), np.concatenate(there.labels_)) >= second_device.ALIKE
    assert clustering_accuracy(here.predict(sites[0]), there.predict(sites[0])) >= second_device.ALIKE


@pytest.mark.filterwarnings("ignore:.* clusters were asked for")  # so short a run may end in one
@pytest.mark.parametrize(
    ("name", "options"),
    second_device.some(
        [
            ("FedAvg", {}),
            ("FedOpt", {}),
            ("Local", {}),
            ("IFCA", {"n_clusters": 2}),
            ("GradientLoss", {"n_clusters": 2}),
            ("OCFL", {}),
            ("Sattler", {}),
            ("Hierarchical", {"clustering_round": 1}),
            ("Embedding", {"pretraining_epochs": 1, "pretraining_steps": 2}),
            ("LADD", {"n_clusters": 3}),
            ("PACFL", {}),
            ("FLUX", {"warm_up": 1}),
            ("FedDrift", {"period": 1}),
            ("FedRC", {"n_clusters": 2}),
            ("CLoVE", {"n_clusters": 2}),
            ("CFLGP", {"n_clusters": 2}),
            ("FeSEM", {"n_clusters": 2}),
            ("FedGroup", {"n_clusters": 2}),
        ]
    ),
)
def test_clients_are_clustered_alike(name: str, options: dict[str, Any]) -> None:
    rng, x = drawn((16, 16), 24)
    kinds = x[:12], 1 - x[12:].square()
    noisy = [kinds[at // 3] * 0.8 + torch.rand(12, 16, 16, generator=rng) / 5 for at in range(6)]
    clients = [(own.numpy(), np.roll(np.arange(12) % 3, at // 3)) for at, own in enumerate(noisy)]
    short = {"module": "lenet5", "rounds": 2, "local_epochs": 1, "batch_size": 8}
    here, there = fitted(name, clients, short | options)
    assert np.array_equal(here.client_labels_, there.client_labels_)
    assert np.allclose(here.result_["models"], there.result_["models"], atol=second_device.TOLERANCE)
    predicted = [one.predict(clients[0][0], client=0) for one in (here, there)]
    assert np.mean(predicted[0] == predicted[1]) >= second_device.ALIKE


def fitted(name: str, data: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    made = getattr(fedkin, name)
    here, there = (made(**options, random_state=0, device=device).fit(data) for device in ("cpu", second_device.NAME))
    if second_device.REAL:  # a stand-in computes on the processor
        again = made(**options, random_state=0, device=second_device.NAME).fit(data)
        assert same_bits(there, again)
    return [here, there]


def same_bits(one: Any, other: Any) -> bool:
    parts = [[np.asarray(part) for part in tree_leaves(fit.result_)] for fit in (one, other)]
    return len(parts[0]) == len(parts[1]) > 0 and all(
        np.array_equal(*pair, equal_nan=pair[0].dtype.kind == "f") for pair in zip(*parts, strict=True)
    )


def test_a_run_names_its_device(tmp_path: Path) -> None:
    def run(device: str) -> bytes:
        folder = tmp_path / device
        settings = ["data.source=wine", "method.pretrain_rounds=1", "method.cluster_rounds=1", "method.latent=8"]
        settings += ["method.batch_size=16", "simulation.fraction=0.5", "evaluation.map=none", f"device.name={device}"]
        with pytest.raises(SystemExit) as end:
            main(["run", "ccfc", "--out", str(folder), *(word for one in settings for word in ("--set", one))])
        assert not end.value.code
        return (folder / "models.safetensors").read_bytes()

    automatic = run("auto")
    assert automatic == run(second_device.NAME)
    assert second_device.REAL or run("cpu") == automatic


def test_an_encoder_is_pretrained_and_attacked_and_predicts_there(tmp_path: Path) -> None:
    def fedkin_does(*words: object) -> None:
        with pytest.raises(SystemExit) as end:
            main([*map(str, words), *(["--quiet"] if words[0] in ("pretrain", "run") else [])])
        assert not end.value.code

    encoders, labels, attacks = [], [], []
    for place in ("cpu", second_device.NAME):
        encoder = tmp_path / f"{place}.safetensors"
        fedkin_does("pretrain", "digits", "-o", encoder, "--samples", 100, "--epochs", 1, "--device", place)
        encoders.append(load_tree(encoder))
    run, encoder = tmp_path / "run", tmp_path / "cpu.safetensors"
    short = ["method.rounds=1", "method.local_epochs=1", "simulation.clients=4", f"method.encoder={encoder}"]
    fedkin_does("run", "embedding", "--data", "digits", "-o", run, *(word for one in short for word in ("--set", one)))
    for place in ("cpu", second_device.NAME):
        out = tmp_path / place
        fedkin_does("predict", run, "digits", "--client", 0, "-o", out / "found.csv", "--device", place)
        fedkin_does("attack", run, "-o", out, "--device", place)
        labels.append((out / "found.csv").read_text().splitlines())
        attacks.append(json.loads((out / "attack.json").read_text())["reconstruction"]["levels"])
    vectors = [[part for part in tree_leaves(tree) if isinstance(part, Tensor)] for tree in encoders]
    assert vectors[0]
    assert all(torch.allclose(*pair, rtol=0, atol=1e-2) for pair in zip(*vectors, strict=True))
    assert np.mean(np.array(labels[0]) == np.array(labels[1])) >= second_device.ALIKE
    here, there = ([level["error"] for level in levels] for levels in attacks)
    assert len(here) > 2
    assert here == pytest.approx(there, rel=0.1)


WINE = ["data.source=wine", "evaluation.map=none"]
CONTRASTED = ["method.pretrain_rounds=2", "method.cluster_rounds=1", "method.latent=8", "method.batch_size=16"]
MATCHED = ["method.initial=kmeans", "method.n_clusters=2", "method.local_epochs=2", "method.min_steps=4"]
FLOWS = ["method.cluster_rounds=2", "method.local_steps=2", "method.width=8", "method.depth=1", "method.couplings=2"]


class Stopped(Callback):
    """Stops a run after a step, as Ctrl-C does, and notes the tensors of its checkpoints."""

    def __init__(self, after: int | None = None) -> None:
        self.after, self.kept = after, list[Tensor]()

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        self.kept += [part for part in tree_leaves(tree) if isinstance(part, Tensor)]

    def step(self, line: RecordLine, timing: Timing) -> None:
        if line["step"] == self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("method", "options"),
    second_device.some(
        [
            ("ccfc", [*WINE, *CONTRASTED, "simulation.fraction=0.5"]),
            ("fedcref", [*WINE, *MATCHED, "method.max_iterations=3", "method.rounds=2"]),
            ("uifca", [*WINE, *FLOWS, "method.rounds=2"]),
            ("ifca", ["data.source=digits", "evaluation.map=none", "method.rounds=3", "method.module=perceptron"]),
        ]
    ),
)
def test_a_run_resumes_on_another_device_and_back(method: str, options: list[str], tmp_path: Path) -> None:
    """After its first step on the device, and after the second on the processor again; checkpoints fit both."""
    config, folder, watch = load_config(method, options), tmp_path / "run", Stopped(1)
    execute(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(config, folder, callbacks=[watch])
    watch.after = 2
    with pytest.raises(KeyboardInterrupt):
        resume(folder, callbacks=[watch], device=second_device.NAME)
    resume(folder, callbacks=[watch])
    assert watch.kept
    assert all(type(part) is Tensor and part.device.type == "cpu" for part in watch.kept)
    trees = [load_tree(path / "checkpoint.safetensors") for path in (tmp_path / "whole", folder)]
    assert trees[0]["state"]["steps"] == trees[1]["state"]["steps"] > 2
    kept = [[part for part in tree_leaves(tree) if isinstance(part, Tensor)] for tree in trees]
    labels = [torch.cat([part.flatten() for part in parts if part.dtype == torch.int64]) for parts in kept]
    assert float((labels[0] == labels[1]).double().mean()) >= second_device.ALIKE
    if not second_device.REAL:  # rounding differs there, see `by_adam` of the tests of networks
        for one, other in zip(*kept, strict=True):
            assert torch.allclose(one.double(), other.double(), rtol=0, atol=second_device.TOLERANCE, equal_nan=True)


def test_a_site_computes_on_its_own_device(tmp_path: Path) -> None:
    site = Site("a", tmp_path, torch.zeros(2, 3), packages=None, device=ELSEWHERE)
    reply, _ = site.answer(Request("f00d", 0, 0, 1, 0, place.name), {})
    assert reply == {"device": ELSEWHERE.type}
    assert device().type == "cpu"


def test_a_forgotten_tensor_is_noticed() -> None:
    there = torch.ones(2, 2).to(ELSEWHERE)
    assert torch.equal((there @ there).cpu(), torch.full((2, 2), 2.0))
    with pytest.raises((AssertionError, RuntimeError), match=r"two devices|same device"):
        there @ torch.ones(2, 2)
