"""Options that were given to a method or scenario, and that others have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkin.core.errors import FedkinError, listing, nearest
from fedkin.core.options import options_of
from fedkin.experiment import registry
from fedkin.experiment.outlines import is_declared

_NAMED = 4


def check_owners(kind: registry.Kind, default: str, tables: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise FedkinError if an option belongs to other methods or scenarios than that of its section.

    `tables` are the sections; `default` is the name of the method or scenario where its section has none. Misspelt
    names of its own options are left to other checks. `places` say where keys were given: "on the command line".
    """
    section = tables.get(kind, {})
    name = str(section.get("name", default))
    own = _options(kind, name)
    for key in section:
        if key in own or nearest(key, own) or not is_declared(key):
            continue
        names = registry.METHODS if kind == "method" else registry.SCENARIOS
        if owners := [f"'{other}'" for other in names if key in _options(kind, other)]:
            place = places.get(f"{kind}.{key}", places.get(kind, ""))
            raise FedkinError(
                f"'{kind}.{key}'{f' {place}' if place else ''} is no option of {kind} '{name}', but of "
                f"{listing(owners, _NAMED)}; `fedkin list {name}` shows its own."
            )


def _options(kind: registry.Kind, name: str) -> set[str]:
    return {"name", *(option.name for option in options_of(registry.declared(kind, name)))}
