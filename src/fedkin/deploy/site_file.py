"""TOML file of a site: its name, its data and its private folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedkin.core.device import device_named
from fedkin.core.errors import FedkinError
from fedkin.core.files import read_tables
from fedkin.core.validation import validation_sentence
from fedkin.data.preparing.column_reports import MIN_MEMBERS
from fedkin.data.preparing.preparation import restore_preparation
from fedkin.data.reading.asked_columns import lines_lacking
from fedkin.data.reading.dataset_names import HUB, expanded
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import AUTO, TableOptions
from fedkin.engines.site import Site
from fedkin.experiment.sections import Names, NaValues
from fedkin.privacy.budget import Account
from fedkin.secure_aggregation.signatures import public_keys

KEY = "site.key"
"""The site's private key, beside its file, as ``start-site.sh`` makes it and starts the SuperNode with it."""


class SiteFile(BaseModel):
    """Content of a site's file; relative paths in it start at the file's own folder.

    `data` is a file, or anything else that `fedkin.data.reading.sources.load` takes, and `folder` the private
    folder. `label` is the column of labels, if it has no usual name; "none" to use no labels. Each task has so many
    `threads` of torch, and may come from `packages` besides fedkin. `epsilon`, with `delta`, is the privacy budget,
    if there is one. `min_members` are samples below which nothing is reported, where the server asks for less.
    `drop` to `na_values` are options for reading tables, see `TableOptions`. `keys` are public keys of the sites
    that it shares a secure sum with, by name.
    """

    model_config = ConfigDict(strict=True, extra="forbid")
    name: str = Field(min_length=1)
    data: str = Field(min_length=1)
    folder: str = Field(min_length=1)
    label: str | None = None
    threads: PositiveInt = 1
    device: str = Field(default="cpu", min_length=1)
    packages: list[str] = []
    epsilon: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    min_members: int | None = Field(default=None, ge=MIN_MEMBERS)
    drop: Names = []
    id: str = Field(default=AUTO, min_length=1)
    categorical: Names = []
    ordinal: dict[str, list[str]] = {}
    log: Names = []
    log1p: Names = []
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    sheet: Names = []
    na_values: NaValues = []
    dayfirst: bool | None = None
    keys: dict[str, str] = {}

    def site(self, path: Path) -> Site:
        """Read the site's data, and build the site whose file this is.

        Raises FedkinError if an option for tables or a key is not allowed, the device does not exist here, or the data
        cannot be read.
        """
        here = path.parent
        try:
            own = (self.drop, self.id, self.categorical, self.ordinal, self.decimal)
            others = (self.encoding, self.na_values, self.log, self.log1p, self.sheet)
            table = TableOptions(*own, "drop", *others, dayfirst=self.dayfirst)
        except FedkinError as error:
            raise FedkinError(f"{str(error).rstrip('.')}, in {path}.") from error
        device = device_named(self.device, f"'device' in {path}")
        listed = public_keys(self.keys, f"[keys] in {path}")
        data, folder = here / expanded(self.data), here / expanded(self.folder)
        is_file = data.exists() or (Path(self.data).suffix and not self.data.startswith(HUB))
        read = load(str(data) if is_file else self.data, self.label, options=table)
        return Site(
            self.name,
            folder,
            read.x,
            read.y,
            read.classes,
            read.features,
            prepare=restore_preparation,
            table=read.table,
            reading=table,
            key=here / KEY if (here / KEY).exists() else None,
            listed=listed,
            lacks=partial(lines_lacking, table=read.table, options=table, named=self.label, taken=read.label),
            packages=tuple(dict.fromkeys(["fedkin", *self.packages])),
            device=device,
            min_members=self.min_members or 0,
            reserve=None if self.epsilon is None else Account(folder, self.epsilon, self.delta).reserve,
        )


def read_site(path: Path) -> SiteFile:
    """Read a site's file; raise FedkinError if it cannot be read, or a key or value is not allowed."""
    tables = read_tables(path)
    try:
        return SiteFile.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, SiteFile.model_fields, f"in {path}") from error
