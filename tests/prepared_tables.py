"""Tables of clients, and a federation of them."""

import math

import torch

from fedkin.core import Client
from fedkin.core.client import Column, Table
from fedkin.engines.local import LocalFederation

NAN = math.nan


def number(name, *values):
    return Column(name), values


def category(name, *values):
    names = tuple(sorted({value for value in values if value is not None}))
    return Column(name, "category", names), [NAN if value is None else names.index(value) for value in values]


def table(*columns):
    return Table(
        tuple(column for column, _ in columns), torch.tensor([own for _, own in columns], dtype=torch.float64).T
    )


def federation(*tables, **options):
    return LocalFederation([Client(i, own.values, table=own) for i, own in enumerate(tables)], **options)


def pooled(fed):
    return torch.cat([fed.clients[i].x for i in fed.ids]).numpy()


def names(preparation):
    return [column.name for column in preparation.encoding.schema.columns]
