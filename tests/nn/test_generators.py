"""Networks that make samples."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from fedkin.core.seeds import derive_generator
from fedkin.nn.gan import Adversaries, Blueprint


def parameters(module):
    return sum(part.numel() for part in module.parameters())


IMAGES = Blueprint((1, 8, 8), noise=5, kinds=3, capacity=0.05)
COLOUR = Blueprint((3, 9, 10), output="linear", noise=5, kinds=3, capacity=0.05)
VECTORS = Blueprint((4,), output="linear", noise=5, kinds=3, capacity=0.2)
RATES = (0.0018, 0.0002)


def rng(*path):
    return derive_generator(0, "gan", *path)


def begun(blueprint):
    adversaries = Adversaries.of(blueprint)
    generator, discriminator = adversaries.generator.initial(rng("g")), adversaries.discriminator.initial(rng("d"))
    return adversaries, generator, discriminator


@pytest.mark.parametrize("blueprint", [IMAGES, COLOUR, VECTORS], ids=["images", "colour", "vectors"])
def test_an_epoch_is_that_of_two_plain_modules(blueprint):
    adversaries, generator, discriminator = begun(blueprint)
    x = torch.rand(21, *blueprint.shape, generator=rng("x"))
    got = adversaries.epoch(generator, discriminator, x, rng("epoch"), RATES, 8)

    maker, judge = adversaries.generator.module(generator).train(), adversaries.discriminator.module(discriminator)
    judge.train()
    making = torch.optim.Adam(maker.parameters(), lr=RATES[0], betas=(0.5, 0.999))
    judging = torch.optim.Adam(judge.parameters(), lr=RATES[1], betas=(0.5, 0.999))
    draws, losses = rng("epoch"), []
    for rows in torch.randperm(21, generator=draws).split(8):
        yes, no = torch.ones(len(rows)), torch.zeros(len(rows))
        shown = maker(adversaries.latents(len(rows), draws)).detach()
        doubt = binary_cross_entropy_with_logits(judge(x[rows]), yes) + binary_cross_entropy_with_logits(
            judge(shown), no
        )
        judging.zero_grad()
        doubt.backward()
        judging.step()
        loss = binary_cross_entropy_with_logits(judge(maker(adversaries.latents(len(rows), draws))), yes)
        making.zero_grad()
        loss.backward()
        making.step()
        losses.append(torch.stack([loss.detach(), doubt.detach() / 2]) * len(rows) / 21)

    pairs = (adversaries.generator.module(got[0]), maker), (adversaries.discriminator.module(got[1]), judge)
    for trained, expected in pairs:
        for part, other in zip(trained.parameters(), expected.parameters(), strict=True):
            if part.dim() > 1:  # a bias ahead of a batch norm has no slope but rounding, of which Adam makes a step
                torch.testing.assert_close(part, other, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(got[2], torch.stack(losses).sum(0), atol=1e-4, rtol=1e-3)
