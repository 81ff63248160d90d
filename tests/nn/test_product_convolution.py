import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedkin.nn.client_stack import ProductConv2d, is_plain, with_products

PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(kernel=PAIRS, stride=PAIRS, dilation=PAIRS, padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
       channels=PAIRS, bias=st.booleans(), sides=st.tuples(st.integers(7, 9), st.integers(7, 9)))  # fmt: skip
def test_products_have_the_values_and_gradients_of_a_convolution(
    kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], padding: tuple[int, int],
    channels: tuple[int, int], bias: bool, sides: tuple[int, int],
) -> None:  # fmt: skip
    x = torch.rand(3, channels[0], *sides, generator=torch.Generator().manual_seed(0)).double()
    layer = nn.Conv2d(*channels, kernel, stride, padding, dilation, bias=bias).double()
    expected = layer(x)
    expected.square().sum().backward()
    gradients = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    found = with_products(layer)(x)
    found.square().sum().backward()
    assert torch.allclose(found, expected)
    for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert gradient is not None
        assert torch.allclose(parameter.grad, gradient)


def test_only_plain_convolutions_of_images_are_replaced() -> None:
    others = [
        nn.Conv2d(2, 2, 3, groups=2),
        nn.Conv2d(2, 2, 3, padding="same"),
        nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"),
        nn.Conv1d(2, 2, 3),
        nn.Linear(2, 2),
    ]
    kinds = [type(part) for part in with_products(nn.Sequential(*others, nn.Sequential(nn.Conv2d(2, 2, 3))))]
    assert kinds == [*map(type, others), nn.Sequential]
    assert not any(map(is_plain, others))
    assert type(with_products(nn.Sequential(nn.Conv2d(1, 1, 1)))[0]) is ProductConv2d
