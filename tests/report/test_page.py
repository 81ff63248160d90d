from __future__ import annotations

import re
from importlib import resources
from itertools import product

import pytest

STYLE = resources.files("fedkin.report").joinpath("page.css").read_text(encoding="utf-8")


def colours() -> dict[str, dict[str, str]]:
    """Colours by name, by day and, where they differ, by night."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    day, night = (dict(re.findall(r"--(\S+): (#\w{6});", block)) for block in blocks)
    return {"light": day, "dark": {**day, **night}}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


TEXT_ON_GROUND = [
    *product(["ink", "muted", "link", "within"], ["page", "surface"]),
    *product(["ink", "muted", "higher"], ["higher-fill"]),
    *product(["ink", "muted", "lower"], ["lower-fill"]),
    *product(["ink", "muted", "best"], ["best-fill"]),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON_GROUND)
def test_text_can_be_read_by_day_and_by_night(scheme: str, text: str, ground: str) -> None:
    named = colours()[scheme]
    assert contrast(named[text], named[ground]) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("cluster", range(8))
def test_lines_and_dots_stand_out_from_what_they_are_drawn_on(scheme: str, cluster: int) -> None:
    named = colours()[scheme]
    assert contrast(named[f"g{cluster}"], named["surface"]) >= 3 - 0.05
