"""Images of numbers from 0 to 255 beside others that were divided by 255: at other clients, or as new samples."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.data.reading.alike_clients import several_clients

_ABOVE_ONE, _BYTE = 1.5, 255
"""Value from which on images are surely not in [0, 1], and the largest of a byte."""
_OUTWARD = 260
"""The largest value of a byte, as ends are rounded outwards."""
_HALF = 128
"""Value from which on images of fit hold bytes, where new ones have nothing but 0 and 1, as black and white have."""
_PIECE = 1000
"""Samples that are looked at together."""
_NEAR = 1e-4
_CURE = "give all as uint8, as x.astype('uint8') makes them, or all divided by 255"


def mixed_images(images: Mapping[str, Tensor]) -> list[str]:
    """Return a sentence if some clients' images are whole numbers up to 255 and others' are fractions in [0, 1].

    `images` are float32 ``(n, channels, height, width)`` by client, as a sentence calls it, such as ``"Client 3"``.
    """
    reach = {name: _ends(x) for name, x in images.items() if len(x)}
    whole = [
        name
        for name, (low, high) in reach.items()
        if low >= 0 and _ABOVE_ONE < high <= _BYTE and _is_whole(images[name])
    ]
    if not whole:
        return []
    unit = [name for name, (low, high) in reach.items() if low >= 0 and high <= 1 and not _is_whole(images[name])]
    if not unit:
        return []
    most = max(reach[name][1] for name in whole)
    have = "have" if len(whole) > 1 else "has"
    return [
        f"{several_clients(whole)} {have} images of whole numbers up to {most:g} where those of "
        f"{several_clients(unit, within=True)} are in [0, 1], as images of type uint8 are after reading; {_CURE}."
    ]


def as_in_fit(x: Tensor, ends: tuple[float, float], where: str) -> Tensor:
    """Return new images in the form of those of `fit`, whose smallest and largest values `ends` are.

    Bytes divided by 255, as of uint8, are multiplied by it where those of fit went up to 255. `where` names the new
    ones. Raises FedkinError if they are whole numbers up to 255, and those of fit were in [0, 1].
    """
    if x.ndim != 4 or not len(x) or ends[0] < 0:
        return x
    low, high = _ends(x)
    if ends[1] <= 1 and low >= 0 and _ABOVE_ONE < high <= _BYTE and _is_whole(x):
        raise FedkinError(
            f"{where} has images of whole numbers up to {high:g} where those of fit were in [0, 1], as images of type "
            "uint8 are after reading; give x.astype('uint8'), or divide them as those were."
        )
    if not _ABOVE_ONE < ends[1] <= _OUTWARD or low < 0 or high > 1 or not _is_whole(x, _BYTE):
        return x
    return x if ends[1] < _HALF and _is_whole(x) else (x * _BYTE).round()


def _ends(x: Tensor) -> tuple[float, float]:
    """Return minimum and maximum, in pieces, since samples may be in a file."""
    ends = [part.aminmax() for part in x.split(_PIECE)]
    return min(float(low) for low, _ in ends), max(float(high) for _, high in ends)


def _is_whole(x: Tensor, times: int = 1) -> bool:
    """Return whether all values, so many times, are whole numbers."""
    return all(bool(((part * times - (part * times).round()).abs() < _NEAR).all()) for part in x.split(_PIECE))
