"""Names of columns that are like those of ids."""

from __future__ import annotations

import functools
import re

_ID_NAME = re.compile(
    r"(?i:(^|[_\W])(id|key|uuid|guid|no|number|index|code|mrn|pid|seqn|seqno|barcode|rownames|level_\d|unnamed: 0)"
    r"|^(patient|subject|participant|person|respondent|case|encounter|pupil|student|customer|employee|donor|household|visitor"
    r"|specimen|sample|record|animal|ticket|invoice|claim)|subjid|(patient|subject|study|case|row)(id|no|number)|nummer|nr"
    r")$|[a-z](I[dD]|No|Number|Nr|Key|Code)$|^[A-Z]{2,}[BDEGHJKNS]ID$"
)
"""In capitals alone, as WARDID, letters stand before ID that hardly any word in -id has, such as SOLID or THYROID."""
_NUMBER_NAME = re.compile(
    r"(?i:(^|[_\W])(konto|account|iban|phone|telephone|telefon|tel|fax|imei|ean|gtin|isbn|serial)$)|[a-z](Phone|Account)$"
)
"""Names of numbers that name something, of a row or of what it is about, but are no id that results go by."""
_WHOSE_NAME = re.compile(
    r"(?i:(^|[_\W])(id|uuid|guid|mrn|pid|seqn)|^(patient|subject|participant|person|respondent)"
    r"|subjid|(patient|subject|study|case)(id|no|number))$|[a-z]I[dD]$|^[A-Z]{2,}[BDEGHJKNS]ID$"
)
"""Names of ids that may come again, as a patient's in every visit."""
_WHICH_NAME = re.compile(r"(?i:[^\W_][_\W](no|nr|key))$|[a-z](No|Nr|Key)$")
"""Names of ids of things, such as stores, which are hardly those of rows; ``no`` alone may be a gas."""


_cached = functools.lru_cache(maxsize=2**16)
"""Each client and step asks again about the names of a wide table."""


@_cached
def is_called_id(name: str) -> bool:
    """Return whether the name of a column is like that of an id, such as ``patient_id``."""
    return _ID_NAME.search(name) is not None


@_cached
def is_called_whose(name: str) -> bool:
    """Return whether the name of a column is like that of the id of a person, such as ``patient_id``."""
    return _WHOSE_NAME.search(name) is not None


@_cached
def is_called_number(name: str) -> bool:
    """Return whether the name of a column is like that of an id, or of a number to call somebody by, as ``phone``."""
    return is_called_id(name) or _NUMBER_NAME.search(name) is not None


def is_called_recurring(name: str) -> bool:
    """Return whether the name of a column is like that of the id of a person, or of a thing, as ``store_no``."""
    return is_called_whose(name) or _WHICH_NAME.search(name) is not None
