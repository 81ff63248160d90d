"""Recognition of numbers with a currency or unit, from lists of these, for codes have letters around numbers, too."""

from __future__ import annotations

import re
from collections import Counter

from fedkin.data.reading.values.text_values import LEADING_ZERO, Words

_PARTS = re.compile(
    r"(?P<before>(?:[^\W\d_]{1,7}[.$]?)?)(?P<apart>\s?)(?P<number>[+\u2212-]?\d[\d.,'’\s]*)"
    r"(?P<after>(?:[^\W\d_]{0,8}[€.]?(?:/[^\W\d_]{1,5})?)?)"
)
_LISTED = (
    "EUR USD CHF GBP JPY CNY INR CAD AUD NZD SEK NOK DKK PLN CZK HUF RON BGN BRL MXN ZAR KRW SGD HKD TRY ILS UAH US$ "
    "A$ C$ R$ Rs Rs. Fr. SFr. kr kr. TEUR kEUR",
    "ca. ca circa approx. approx about etwa",
    "kg g mg µg μg ug ng lb lbs oz t km m cm mm µm μm nm ft mi l ml dl cl mL dL µl μl ms s sec min h hr hrs d w wk wks "
    "mo y yr yrs year years month months week weeks day days hour hours minutes seconds Jahr Jahre Monate Wochen Tage "
    "Stunden Std Std. Minuten Min Sekunden ans mois jours heures k mio mio. Mio Mio. Mrd Mrd. bn mn tsd Tsd Tsd. k€ T€ "
    "Mio€ kW MW kWh MWh Wh mV kV µV μV mA kA µA μA uA Ω kΩ MΩ Ohm ohm kOhm kN Nm kNm MPa GPa kVA µS μS uS "
    "Hz kHz MHz GHz Pa kPa hPa bar mbar kJ kcal cal mol mmol µmol nmol dB rpm bpm mmHg "
    "ppm ppb kB KB MB GB TB px pt mph kmh IU IE",
)
CURRENCIES, _ROUGHLY, UNITS = (frozenset(names.split()) for names in _LISTED)
"""Names of currencies, of words before a rough number, and of units."""
_LETTERS = frozenset("KMLVWACFNJ")
"""Units that also end codes, such as 12A, so that numbers with them need decimals."""
_MOSTLY, _MANY = 0.9, 10


def with_known_unit(words: Words) -> str | None:
    """Return an example of a number with a currency or unit, if a column has many and most of its texts are such.

    `words` are the distinct texts. All have the same currency or unit around the number, from a list, with a blank
    between or without one, and no leading zeros.
    """
    parts = {
        word: found for word in words if (found := _PARTS.fullmatch(word)) and not LEADING_ZERO.match(found["number"])
    }
    around = Counter((found["before"], found["after"]) for found in parts.values())
    if not around:
        return None
    (before, after), count = around.most_common(1)[0]
    if count <= _MANY or count < _MOSTLY * len(words):
        return None
    own = [found for found in parts.values() if (found["before"], found["after"]) == (before, after)]
    fractions = sum("." in found["number"] or "," in found["number"] for found in own)
    is_price = before in CURRENCIES and ("$" in before or 2 * fractions > count or all(found["apart"] for found in own))
    is_number = (is_price or before in {"", *_ROUGHLY}) and (before or after)
    unit, _, _ = after.partition("/")
    is_unit = unit in {"", *UNITS, *CURRENCIES} or (unit in _LETTERS and 2 * fractions > count)
    decades = after == "s" and all(found["number"].endswith("0") for found in own)
    return own[0][0] if is_number and is_unit and not decades else None
