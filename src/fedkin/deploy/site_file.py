"""A site's own TOML file: what it is called, where its data are, and which folder is private."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedkin.core import FedkinError
from fedkin.core.device import device_named
from fedkin.core.errors import unknown_name
from fedkin.data.preparing.scaling import restore_scaling
from fedkin.data.reading.sources import load
from fedkin.engines.site import Site
from fedkin.privacy.budget import Account


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


@dataclass(frozen=True)
class SiteFile:
    """What a site's file says.

    Attributes
    ----------
    name : str
        What the site is called in the federation.
    data : str
        A file, or anything else that `fedkin.data.reading.sources.load` takes.
    folder : Path
        The private folder.
    label : str or None
        The column of labels, where the usual names do not tell; "none" for data whose labels are not to be used.
    threads : int
        Torch's, for each task.
    device : torch.device
        What networks compute on.
    packages : tuple of str
        Where tasks may come from.
    account : Account or None
        Of privacy, where the file names an epsilon.
    """

    name: str
    data: str
    folder: Path
    label: str | None
    threads: int
    device: torch.device
    packages: tuple[str, ...]
    account: Account | None

    def site(self) -> Site:
        """The site, its data read.

        Raises
        ------
        FedkinError
            If they cannot be.
        """
        unlabelled = self.label == "none"
        read = load(self.data, None if unlabelled else self.label)
        return Site(
            self.name,
            self.folder,
            read.x,
            None if unlabelled else read.y,
            [] if unlabelled else read.classes,
            read.features,
            prepare=restore_scaling,
            packages=self.packages,
            device=self.device,
            reserve=None if self.account is None else self.account.reserve,
        )


def read_site(path: Path) -> SiteFile:
    """Read a site's file; paths in it are relative to where it lies.

    Raises
    ------
    FedkinError
        If it cannot be read, a key or value is not allowed, or there is no such device here.
    """
    try:
        told = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise FedkinError(f"Cannot read {path}: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise unknown_name(f"key in {path}:", key, _File.model_fields) from error
        raise FedkinError(f"'{key}' in {path}: {first['msg'][0].lower()}{first['msg'][1:]}.") from error
    except ValueError as error:
        raise FedkinError(f"{path} is not a TOML file: {error}.") from error
    here = path.parent
    data, folder = here / Path(told.data).expanduser(), here / Path(told.folder).expanduser()
    return SiteFile(
        told.name,
        str(data) if data.exists() or Path(told.data).suffix else told.data,
        folder,
        told.label,
        told.threads,
        device_named(told.device, f"'device' in {path}"),
        tuple(told.packages),
        None if told.epsilon is None else Account(folder, told.epsilon, told.delta),
    )
