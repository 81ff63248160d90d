"""Samples before they are numbers: images, texts or series, as a client holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

if TYPE_CHECKING:  # with names of files alone, nobody waits for torch
    from torch import Tensor

SampleKind = Literal["images", "texts", "series"]
"""What samples are that an encoder turns into numbers."""


@dataclass(frozen=True)
class Samples:
    """A client's samples as they were given; they stay at the client.

    Attributes
    ----------
    kind : {"images", "texts", "series"}
    items : sequence
        A path, a Pillow image, a text or an array for each sample: images ``(channels, height, width)`` in [0, 1],
        series ``(steps,)`` or ``(channels, steps)``. Empty in another process, which only computes with embeddings.
    encoder : str
        Fingerprint of the encoder that has made embeddings of them; empty before.
    """

    kind: SampleKind
    items: Sequence[Any]
    encoder: str = ""

    def __len__(self) -> int:
        return len(self.items)

    def rows(self, index: Tensor) -> Self:
        """Return the samples at int64 or bool `index` ``(n,)``; of those that are kept elsewhere there are none."""
        if not len(self.items):
            return self
        chosen = index.nonzero()[:, 0] if not index.is_floating_point() and index.dtype.itemsize == 1 else index
        return replace(self, items=[self.items[at] for at in chosen.tolist()])


class SampleEncoder(Protocol):
    """What turns samples into embeddings, as options for reading data carry it."""

    @property
    def name(self) -> str:
        """Name for sentences: the spec that named it, or that of a function."""

    @property
    def folder(self) -> str | None:
        """Folder where embeddings are kept; ``None`` to keep them beside the folder of samples."""

    def takes(self, kind: SampleKind) -> bool:
        """Return whether it encodes samples of this kind."""

    def fingerprint(self) -> str:
        """Return a text that is the same where embeddings are: what it is, a hash of weights, and preprocessing.

        Empty for a function of the user's, of which nobody knows whether it has changed.
        """

    def encode(self, kind: SampleKind, contents: Iterable[Any]) -> Tensor:
        """Return embeddings of read samples, float32 ``(n, width)``, rows of length 1.

        Images are RGB images of Pillow's or arrays, texts are str, series float32 arrays ``(channels, steps)``.
        """
