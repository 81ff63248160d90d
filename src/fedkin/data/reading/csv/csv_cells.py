"""Cells of CSV files that pandas reads as another value, and that are written again as the file has them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from fedkin.data.reading.columns import DASHES, POSITIVE
from fedkin.data.reading.csv.csv_headers import is_nameless
from fedkin.data.reading.table_options import NONE
from fedkin.data.reading.values.text_values import composed

if TYPE_CHECKING:
    import pandas as pd


def restore_texts(frame: pd.DataFrame, as_texts: Callable[..., pd.DataFrame], names: Collection[str]) -> None:
    """Write fractions and truth values of columns that are `names` as the file has them."""
    from pandas.api.types import infer_dtype

    named = [at for at, name in enumerate(frame.columns) if composed(name).strip() in names]
    able = [at for at in named if infer_dtype(frame.iloc[:, at], skipna=True) in ("floating", "boolean")]
    if not able:
        return
    cells = as_texts(usecols=able)
    for at in able:
        own = cells[frame.columns[at]].str.strip().where(frame.iloc[:, at].notna())
        if own.notna().all() or not own.dropna().str.fullmatch(r"[+-]?\d+\.0").all():
            frame.isetitem(at, own)


def restore_dashes(frame: pd.DataFrame, as_texts: Callable[..., pd.DataFrame]) -> None:
    """Write dashes again into columns in which they may be values: those with "+", and those without any other cell."""
    able = [at for at, (_, own) in enumerate(frame.items()) if own.isna().any() and _may_be_signed(own)]
    if not able:
        return
    cells = as_texts(usecols=able, keep_default_na=False)
    for at in able:
        own = cells[frame.columns[at]].str.strip()
        if (dashed := own.isin(DASHES)).any():
            frame.isetitem(at, frame.iloc[:, at].astype(object).mask(dashed, own))


def restore_levels(
    frame: pd.DataFrame, as_texts: Callable[..., pd.DataFrame], kept: Callable[[str], Collection[str]], has_none: bool
) -> None:
    """Write words again that pandas takes for empty cells: those that are `kept`, and "None" in columns of text.

    If the file has "None" among numbers or truth values, it is how the file writes an empty cell, unless it is kept.
    """
    lacking = [at for at, (_, own) in enumerate(frame.items()) if own.isna().any()]
    words = {at: set(kept(str(frame.columns[at]).strip())) for at in lacking}
    if not has_none and not any(words.values()):
        return
    cells = as_texts(usecols=lacking, keep_default_na=False)
    texts = {at: cells[frame.columns[at]].str.strip() for at in lacking}
    filled = {at: frame.iloc[:, at].dropna() for at in lacking}
    is_text = {at: len(own) > 0 and all(isinstance(cell, str) for cell in own.unique()) for at, own in filled.items()}
    if has_none and not any((texts[at] == NONE).any() for at in lacking if len(filled[at]) and not is_text[at]):
        words = {at: own | ({NONE} if is_text[at] else set()) for at, own in words.items()}
    for at, own in words.items():
        if (restored := texts[at].isin(own) & frame.iloc[:, at].isna()).any():
            frame.isetitem(at, frame.iloc[:, at].astype(object).mask(restored, texts[at]))


def _may_be_signed(column: pd.Series) -> bool:
    """Return whether dashes in a column may be values: it is empty without them, or has texts such as "+" and "2+"."""
    texts = column.dropna().unique()
    if not len(texts):
        return not is_nameless(str(column.name))
    return any(isinstance(text, str) and POSITIVE.fullmatch(text.strip()) for text in texts)
