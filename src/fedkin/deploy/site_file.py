"""TOML file of a site: its name, its data and its private folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedkin.core.device import device_named
from fedkin.core.errors import FedkinError
from fedkin.core.files import read_tables
from fedkin.core.validation import validation_sentence
from fedkin.data.preparing.preparation import restore_preparation
from fedkin.data.reading.client_files import expanded
from fedkin.data.reading.dataset_names import HUB
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import AUTO, TableOptions
from fedkin.engines.site import Site
from fedkin.experiment.sections import Names, NaValues
from fedkin.privacy.budget import Account
from fedkin.secure_aggregation.signatures import public_keys

KEY = "site.key"
"""The site's private key, beside its file, as ``start-site.sh`` makes it and starts the SuperNode with it."""


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    name: str = Field(min_length=1)
    data: str = Field(min_length=1)
    folder: str = Field(min_length=1)
    label: str | None = None
    threads: PositiveInt = 1
    device: str = Field(default="cpu", min_length=1)
    packages: list[str] = ["fedkin"]
    epsilon: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    drop: Names = []
    id: str = Field(default=AUTO, min_length=1)
    categorical: Names = []
    ordinal: dict[str, list[str]] = {}
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    na_values: NaValues = []
    keys: dict[str, str] = {}


@dataclass(frozen=True)
class SiteFile:
    """Content of a site's file.

    Attributes
    ----------
    name : str
        The site's name in the federation.
    data : str
        A file, or anything else that `fedkin.data.reading.sources.load` takes.
    folder : Path
        The private folder.
    label : str or None
        The column of labels, if it has no usual name; "none" to use no labels.
    threads : int
        Number of threads of torch, for each task.
    device : torch.device
        Device of the networks.
    packages : tuple of str
        Packages that tasks may be imported from.
    account : Account or None
        The privacy budget, if the file names an epsilon.
    table : TableOptions
        Options for reading tables: the keys `drop`, `id`, `categorical`, `ordinal`, `decimal`, `encoding` and
        `na_values`.
    key : Path or None
        The private key beside the file, if there is one.
    listed : dict of str to str
        Public keys of the sites that it shares a secure sum with, by name.
    """

    name: str
    data: str
    folder: Path
    label: str | None
    threads: int
    device: torch.device
    packages: tuple[str, ...]
    account: Account | None
    table: TableOptions
    key: Path | None
    listed: dict[str, str]

    def site(self) -> Site:
        """Read the site's data, and build the site.

        Raises
        ------
        FedkinError
            If the data cannot be read.
        """
        unlabelled = self.label == "none"
        read = load(self.data, None if unlabelled else self.label, options=self.table)
        return Site(
            self.name,
            self.folder,
            read.x,
            None if unlabelled else read.y,
            [] if unlabelled else read.classes,
            read.features,
            prepare=restore_preparation,
            table=read.table,
            reading=self.table,
            key=self.key,
            listed=self.listed,
            packages=self.packages,
            device=self.device,
            reserve=None if self.account is None else self.account.reserve,
        )


def read_site(path: Path) -> SiteFile:
    """Read a site's file; relative paths in it start at its own folder.

    Raises
    ------
    FedkinError
        If it cannot be read, a key or value is not allowed, or the device does not exist here.
    """
    tables = read_tables(path)
    try:
        given = _File.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, _File.model_fields, f"in {path}") from error
    try:
        own = (given.drop, given.id, given.categorical, given.ordinal, given.decimal)
        table = TableOptions(*own, encoding=given.encoding, na_values=given.na_values)
    except FedkinError as error:
        raise FedkinError(f"{str(error).rstrip('.')}, in {path}.") from error
    here = path.parent
    data, folder = here / expanded(str(given.data)), here / expanded(str(given.folder))
    return SiteFile(
        given.name,
        str(data) if data.exists() or (Path(given.data).suffix and not given.data.startswith(HUB)) else given.data,
        folder,
        given.label,
        given.threads,
        device_named(given.device, f"'device' in {path}"),
        tuple(given.packages),
        None if given.epsilon is None else Account(folder, given.epsilon, given.delta),
        table,
        here / KEY if (here / KEY).exists() else None,
        public_keys(given.keys, f"[keys] in {path}"),
    )
