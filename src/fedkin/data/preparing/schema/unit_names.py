"""A note on columns whose names differ between clients in their units alone, as `Temp [°C]` and `Temp [°F]`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from fedkin.core.errors import listing
from fedkin.data.preparing.notes.column_notes import spelt_alike

_NAMED, _SURE = 8, 2
"""Groups of columns that the note names; and units that they have at least, of which one in brackets counts twice: the
last word of a single name, as of ``temp_min`` beside ``temp``, may be something else."""
_MORE = ("°C", "°F", "C", "F", "K", "%", "‰", "psi", "in", "inch", "inches", "yd", "gal", "oz", "mi", "mph", "kn", "kt",
         "U", "degC", "degF", "um", "us", "celsius", "fahrenheit", *"$€£¥")  # fmt: skip
_UNITS = (
    "EUR USD CHF GBP JPY CNY INR CAD AUD NZD SEK NOK DKK PLN CZK HUF RON BGN BRL MXN ZAR KRW SGD HKD TRY ILS UAH US$ "
    "A$ C$ R$ Rs Rs. Fr. SFr. kr kr. TEUR kEUR "
    "kg g mg µg μg ug ng lb lbs oz t km m cm mm µm μm nm ft mi l ml dl cl mL dL µl μl ms s sec min h hr hrs d w wk wks "
    "mo y yr yrs year years month months week weeks day days hour hours minutes seconds Jahr Jahre Monate Wochen Tage "
    "Stunden Std Std. Minuten Min Sekunden ans mois jours heures k mio mio. Mio Mio. Mrd Mrd. bn mn tsd Tsd Tsd. k€ T€ "
    "Mio€ kW MW kWh MWh Wh mV kV µV μV mA kA µA μA uA Ω kΩ MΩ Ohm ohm kOhm kN Nm kNm MPa GPa kVA µS μS uS "
    "Hz kHz MHz GHz Pa kPa hPa bar mbar kJ kcal cal mol mmol µmol nmol dB rpm bpm mmHg "
    "ppm ppb kB KB MB GB TB px pt mph kmh IU IE"
)
_KNOWN = frozenset(unit.casefold() for unit in (*_UNITS.split(), *_MORE)) - {"std", "std."}
_POWERS = re.compile(r"[\d²³⁻¹^*·.\s-]+")
_IN_BRACKETS = re.compile(r"(?P<stem>.+?)[\s_]*[\[(](?P<unit>[^\[\]()]{1,12})[\])]$")
_BEHIND = re.compile(r"(?P<stem>.+?)(?:[\s_]+in)?[\s_]+(?P<unit>[^\W\d_]{2,10}|°[CF]|%)$")


def note_on_units_in_names(names: Mapping[int, Collection[str]]) -> list[str]:
    """Return a note on columns that are one in different units, by their names, if any.

    `names` are those of each client's columns. A unit stands in brackets or behind the rest of a name, and may be
    absent at some clients. Of columns that some client has both of nothing is said.
    """
    stems: dict[str, dict[str, int]] = {}
    for name in dict.fromkeys(chain.from_iterable(names.values())):
        stem, weight = _without_unit(name)
        stems.setdefault(stem, {})[name] = weight
    for group in spelt_alike(stems):
        stems[group[0]] = {name: weight for stem in group for name, weight in stems.pop(stem).items()}
    groups = [[*own] for own in stems.values() if sum(own.values()) >= _SURE and _are_one(own, names.values())]
    if not groups:
        return []
    quoted = listing([" and ".join(f"'{name}'" for name in own) for own in groups], _NAMED)
    return [
        f"Columns {quoted} seem to be the same, for their names differ in the unit alone and no client has both; give "
        "them one unit and one name."
    ]


def _are_one(own: Collection[str], names: Iterable[Collection[str]]) -> bool:
    """Return whether columns that have a stem in common differ in more than spelling, and no client has two of them."""
    if len(own) < 2 or any(len(group) == len(own) for group in spelt_alike(own)):
        return False
    return all(sum(name in each for name in own) < 2 for each in names)


def _without_unit(name: str) -> tuple[str, int]:
    """Return a name without its unit, and how surely it has one, 0 to `_SURE`."""
    for form, weight in ((_IN_BRACKETS, _SURE), (_BEHIND, 1)):
        if (found := form.fullmatch(name)) and _is_unit(found["unit"]):
            return found["stem"], weight
    return name, 0


def _is_unit(text: str) -> bool:
    """Return whether a text is a known unit, or several of these with a slash between them, perhaps with powers."""
    parts = [_POWERS.sub("", part) for part in text.split("/")]
    return any(parts) and all(part.casefold() in _KNOWN or (not part and len(parts) > 1) for part in parts)
