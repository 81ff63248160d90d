"""Writes a page of the API for every estimator, and the contents of their lists: ``python docs/make_api.py``."""

from __future__ import annotations

import re
from pathlib import Path

import fedkin
from fedkin.estimators.client_estimators import ClientClusterer
from fedkin.estimators.sample_estimators import SampleClusterer
from fedkin.experiment import registry

_API = Path(__file__).parent / "api"
_BETWEEN = re.compile(r"(?<=<!-- estimators -->\n).*?(?=<!-- /estimators -->)", re.DOTALL)

LISTS = {"samples": SampleClusterer, "clients": ClientClusterer}
"""The pages with lists, and the base of the estimators in them."""


def pages() -> dict[Path, str]:
    """Every page that is written, with its text."""
    found = {_API / "estimators" / f"{name}.md": _page(name) for base in LISTS.values() for name in _names(base)}
    return found | {_API / f"{name}.md": _listed(_API / f"{name}.md", base) for name, base in LISTS.items()}


def _names(base: type) -> list[str]:
    """The public estimators of one base, in order of their methods in the registry."""
    order = {target.target.rpartition(":")[2]: at for at, target in enumerate(registry.METHODS.values())}
    made = [name for name in fedkin.__all__ if isinstance(one := getattr(fedkin, name), type) and issubclass(one, base)]
    return sorted(made, key=lambda name: order[getattr(fedkin, name)._method.__name__])


def _method(name: str) -> str:
    """What the method of an estimator is called in the registry."""
    made = getattr(fedkin, name)._method.__name__
    return next(own for own, entry in registry.METHODS.items() if entry.target.endswith(f":{made}"))


def _page(name: str) -> str:
    method = _method(name)
    return "\n".join(
        [
            f"# {name}",
            "",
            f"[{method}](../../methods/{method}.md) says when to take it.",
            "",
            "```{eval-rst}",
            f".. autoclass:: fedkin.{name}",
            "   :members:",
            "   :inherited-members: BaseEstimator",
            "```",
            "",
        ]
    )


def _listed(page: Path, base: type) -> str:
    """A page whose contents are the estimators of `base`."""
    names = _names(base)
    contents = ["```{toctree}", ":titlesonly:", "", *(f"estimators/{name}" for name in names), "```"]
    text, count = _BETWEEN.subn(lambda _: "\n".join(["", *contents, "", ""]), page.read_text())
    if count != 1:
        raise ValueError(f"{page} has {count} places for estimators; it needs one.")
    return text


if __name__ == "__main__":
    for path, written in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(written)
