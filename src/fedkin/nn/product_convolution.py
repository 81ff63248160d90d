"""Convolutions computed as matrix products of patches, which take more memory and on some devices less time."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import unfold


class ProductConv2d(nn.Conv2d):
    """A convolution as one matrix product of the kernels and all patches of the images."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the images ``(n, out_channels, H', W')`` of ``(n, in_channels, H, W)``."""
        padding = self._sides()
        patches = unfold(input, self.kernel_size, self.dilation, padding, self.stride)
        height = _outputs(input.shape[2], 2 * padding[0], self.kernel_size[0], self.stride[0], self.dilation[0])
        product = self.weight.flatten(1) @ patches.transpose(0, 1).flatten(1)
        if self.bias is not None:
            product = product + self.bias[:, None]
        return product.view(len(product), len(input), height, -1).transpose(0, 1)

    def _sides(self) -> tuple[int, int]:
        assert not isinstance(self.padding, str)
        return self.padding[0], self.padding[1]


def _outputs(side: int, padding: int, kernel: int, stride: int, dilation: int) -> int:
    return (side + padding - dilation * (kernel - 1) - 1) // stride + 1


def with_products(module: nn.Module) -> nn.Module:
    """Make every plain convolution of images in `module` a `ProductConv2d`, in place; return the module."""
    for part in module.modules():
        if is_plain(part):
            part.__class__ = ProductConv2d
    return module


def is_plain(part: nn.Module) -> bool:
    """Whether a layer is a convolution of images that `with_products` replaces."""
    if type(part) is not nn.Conv2d:
        return False
    return part.groups == 1 and part.padding_mode == "zeros" and not isinstance(part.padding, str)
