"""A device that is none: its tensors are the processor's in a wrapper, and may not meet any that are not.

It shows where code forgets to move a tensor, and that what is computed is the same. Importing this registers it with
torch, for the whole process, as the accelerator of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "elsewhere"

_aten = torch.ops.aten
_MAY_MIX = {_aten._to_copy.default, _aten.copy_.default}
_MAY_INDEX = {_aten.index.Tensor, _aten.index_put_.default}
"""As on a GPU, rows may be named by a tensor of the processor's."""


class Elsewhere(Tensor):
    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Elsewhere:
        made: Elsewhere = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=f"{NAME}:0",
        )
        made.inner = inner
        return made

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, new: Elsewhere) -> None:
        Tensor.data.__set__(self, new)
        self.inner = new.inner

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Elsewhere({self.inner})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        _check_places(func, args, kwargs)
        target = kwargs.get("device")
        stays = target is None or torch.device(target).type == NAME
        if target is not None:
            kwargs["device"] = torch.device("cpu")
        made = func(*tree_map(_bare, args), **tree_map(_bare, kwargs))
        if func is _aten.copy_.default:
            return args[0]
        if not stays:
            return made
        wrapped = tree_map(lambda part: Elsewhere(part) if isinstance(part, Tensor) else part, made)
        return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _check_places(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if func in _MAY_MIX or (func in _MAY_INDEX and isinstance(args[0], Elsewhere)):
        return
    tensors = [part for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
    if any(not isinstance(tensor, Elsewhere) and tensor.dim() for tensor in tensors):
        raise AssertionError(f"{func} was given tensors of two devices.")


def _bare(part: Any) -> Any:
    return part.inner if isinstance(part, Elsewhere) else part


def _empty(size: Sequence[int], dtype: torch.dtype | None = None, **more: Any) -> Tensor:
    return Elsewhere(torch.empty(size, dtype=dtype))


def _empty_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None = None, **more: Any) -> Tensor:
    return Elsewhere(torch.empty_strided(size, stride, dtype=dtype))


_setup_privateuseone_for_python_backend(NAME)
_kernels = torch.library.Library("aten", "IMPL")
_kernels.impl("empty.memory_format", _empty, "PrivateUse1")
_kernels.impl("empty_strided", _empty_strided, "PrivateUse1")
