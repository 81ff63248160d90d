"""LADD: clustering clients by the style of their images (Shenaj et al. 2023, section 4.2), before training.

A style is the amplitudes of the lowest spatial frequencies: light, colour, background. It is implemented as the
baseline of Prigent et al. (2024), whose code computes it per class with a given number of clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Literal

import torch
from annotated_types import Interval
from sklearn.metrics import silhouette_score
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.matching import renumbered
from fedkin.core import Client, Federation, FedkinError, Payload, client_task
from fedkin.core.federation import Replies
from fedkin.core.method import Count
from fedkin.core.payload import MAX_CLASSES, counts_to, one_of, reals, within
from fedkin.methods.clients.local_work import filling_of, means_by_class
from fedkin.methods.clients.one_shot import OneShotMethod, OneShotState

FILLING = "style_filling"  # key of a client's state: the random numbers that stand for classes it lacks


@dataclass(frozen=True)
class LADDMethod(OneShotMethod):
    """Clusters clients once by k-means of the styles of their images, then averages per cluster.

    Attributes
    ----------
    n_clusters : int or "auto"
        Number of clusters; "auto" is the one from 4 to 19 with the highest silhouette, as in LADD itself.
    style : {"class", "client"}
        A mean style per class, or one of all samples of the client, as in LADD itself.
    window : float
        Half the side of the window of lowest frequencies, as a fraction of the shorter side of the image, rounded down:
        at 0.1 it has 5 x 5 numbers for images of 28 x 28, 13 x 13 for 64 x 64.
    """

    n_clusters: Count | Literal["auto"] = 4
    style: Literal["class", "client"] = "class"
    window: Annotated[float, Interval(gt=0, le=0.5)] = 0.1

    traits = OneShotMethod.traits.replace(takes_k=True, cost="cheap", paper={"n_clusters": "auto", "style": "client"})

    def init(self, fed: Federation) -> OneShotState:
        """Return one new model, and no client in a cluster yet.

        Raises FedkinError if samples are not images.
        """
        state: OneShotState = super().init(fed)
        if len(state.module["shape"]) != 3:
            raise FedkinError(
                f"LADD compares the style of images, but samples have shape {tuple(state.module['shape'])}."
            )
        return state

    @property
    def needed(self) -> int:
        return (4 if self.n_clusters == "auto" else self.n_clusters) + 1

    def messages(self, fed: Federation, state: OneShotState, clients: Sequence[int]) -> Replies[Tensor]:
        how = self.how(state)
        length = (how["segments"] * math.prod(window_shape(state.module["shape"], self.window)),)
        return fed.ask(describe_style, dict.fromkeys(clients, how), {"style": length}).map(itemgetter("style"))

    def clustered(self, fed: Federation, state: OneShotState, messages: Tensor) -> tuple[Tensor, dict[str, Any]]:
        numbers = range(4, 20) if self.n_clusters == "auto" else [self.n_clusters]
        counts = [k for k in numbers if k < len(messages)]
        labels = {k: k_means(messages, k, fed.rng("grouping"), exact=True).labels for k in counts}
        points = messages.double().numpy()
        scores = {k: float(silhouette_score(points, labels[k])) for k in counts if len(labels[k].unique()) > 1}
        # Without a score, where all styles are one, the only count that was tried.
        best = max(scores, key=scores.__getitem__, default=counts[0])
        return torch.from_numpy(renumbered(labels[best])), {"mode": "k-means"}

    @staticmethod
    def unseen_message(client: Client, result: Mapping[str, Any]) -> Tensor:
        return style_of(client, result)[0]

    @staticmethod
    def assigns_by_labels(result: Mapping[str, Any]) -> bool:
        return bool(result["style"] == "class")

    def how(self, state: OneShotState) -> dict[str, Any]:
        segments = state.module["classes"] if self.style == "class" else 1
        return {"style": self.style, "window": self.window, "segments": segments}


@client_task(
    takes={"style": one_of("class", "client"), "window": within(0, 0.5), "segments": counts_to(MAX_CLASSES)},
    holds={"style": reals(None)},
    sends="How coarse or fine pictures are on average, of all or of each class",
)
def describe_style(client: Client, payload: Payload) -> Payload:
    """Report the client's ``style``: mean amplitudes of the lowest frequencies, per class or of all samples."""
    style, remembered = style_of(client, payload)
    client.state.update(remembered)
    return {"style": style}


def style_of(client: Client, how: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a client's style, float32 ``(segments * channels * side * side,)``, and the filling of missing classes.

    `how` has ``style`` and ``window``, see `LADDMethod`, and the number of ``segments``.
    """

    def describe(x: Tensor) -> Tensor:
        return low_frequencies(x, how["window"]).flatten(1)

    if how["style"] == "client":
        return describe(client.x).mean(0), {}
    width = math.prod(window_shape(client.x.shape[1:], how["window"]))
    filling = filling_of(client, FILLING, how["segments"], width)
    return means_by_class(client, filling, describe).flatten(), {FILLING: filling}


def low_frequencies(x: Tensor, window: float) -> Tensor:
    """Return the lowest spatial frequencies' amplitudes in images: ``(n, C, side, side)``, 0 in the middle."""
    _, height, width = window_shape(list(x.shape[1:]), window)
    amplitudes: Tensor = torch.fft.fftshift(torch.fft.fft2(x).abs(), dim=(-2, -1))
    top, side = x.shape[-2] // 2 - height // 2, x.shape[-1] // 2 - width // 2
    return amplitudes[..., top : top + height, side : side + width]


def window_shape(shape: Sequence[int], window: float) -> tuple[int, int, int]:
    """Return channels, height and width of the frequency window for images of `shape`, at most their size."""
    side = 2 * math.floor(window * min(shape[1:])) + 1
    return (shape[0], min(side, shape[1]), min(side, shape[2]))
