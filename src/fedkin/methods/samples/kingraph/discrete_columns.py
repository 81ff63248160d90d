"""Which columns of the clients' tables are discrete, and the components of tables that have some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedkin.core import Client, Payload, client_task
from fedkin.core.replies import MAX_COUNT, Array, Expected, is_count, is_shape
from fedkin.data.preparing.discrete_blocks import UNKNOWN, blocks_of, common_blocks
from fedkin.features.pca import Components, FeatureMoments, components
from fedkin.features.shared_variation import shared_basis
from fedkin.methods.samples.kingraph.kingraph_space import KinGraphState

_HOLDS: Expected = {"shape": is_shape, "blocks": Array(("columns",), torch.int64, UNKNOWN, MAX_COUNT)}


@client_task(takes={}, holds=_HOLDS)
def send_columns(client: Client, payload: Payload) -> Payload:
    """Send the shape of a sample, and which columns of a table are discrete, see `discrete_blocks`."""
    return {"shape": list(client.x.shape[1:]), "blocks": blocks_of(client)}


@client_task(takes={}, holds={**_HOLDS, "samples": is_count})
def describe_columns(client: Client, payload: Payload) -> Payload:
    """Send the same, and the number of samples."""
    return {"shape": list(client.x.shape[1:]), "blocks": blocks_of(client), "samples": len(client)}


def discrete_blocks(replies: Mapping[int, Payload], shape: Sequence[int]) -> Tensor:
    """Return the `common_blocks` of samples of this shape, from the clients' replies to `send_columns`."""
    own = [reply["blocks"] for _, reply in sorted(replies.items())]
    return common_blocks(own, shape[0] if len(shape) == 1 else 0)


def leading_components(
    found: FeatureMoments, state: KinGraphState, count: int, whitening: float
) -> tuple[Components, float]:
    """Return the principal components of features, and the fraction of the variance that they explain.

    Discrete columns are replaced by what they share with others, see `shared_basis`.

    Parameters
    ----------
    found : FeatureMoments
    state : KinGraphState
    count, whitening
        See `components`.
    """
    if not (state.blocks >= 0).any():
        leading = components(found, count, state.standardise, whitening)
        return leading, leading.explained_variance(found, state.standardise)
    basis = shared_basis(found.scatter / found.count, found.count, state.blocks)
    shared = found.along(basis)
    leading = components(shared, count, state.standardise, whitening)
    directions = (basis @ leading.directions.double()).float()
    explained = leading.explained_variance(shared, state.standardise)
    return replace(leading, mean=(found.total / found.count).float(), directions=directions), explained
