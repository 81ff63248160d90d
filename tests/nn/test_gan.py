import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from fedkin.core.seeds import derive_generator
from fedkin.nn.gan import Adversaries, Blueprint, build_discriminator, build_generator


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


def test_an_epoch_leaves_its_models_alone_and_repeats_itself():
    adversaries, generator, discriminator = begun(IMAGES)
    before = generator.clone(), discriminator.clone()
    x = torch.rand(12, 1, 8, 8, generator=rng("x"))
    first, second = (adversaries.epoch(generator, discriminator, x, rng("e"), RATES, 5) for _ in range(2))
    assert torch.equal(generator, before[0])
    assert torch.equal(discriminator, before[1])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_last_batch_of_one_sample_is_left_out():
    adversaries, generator, discriminator = begun(VECTORS)
    x = torch.rand(9, 4, generator=rng("x"))
    x[torch.randperm(9, generator=rng("e"))[8]] = 1e6
    after, judge, losses = adversaries.epoch(generator, discriminator, x, rng("e"), RATES, 8)
    assert losses.max() < 5
    assert after.isfinite().all()
    assert judge.isfinite().all()


def test_few_samples_are_passed_over_until_the_steps_are_made():
    adversaries, generator, discriminator = begun(VECTORS)
    x = torch.rand(6, 4, generator=rng("x"))
    counted = [
        int(adversaries.epoch(generator, discriminator, x, rng("e"), (1e-9, 1e-9), 4, steps)[0][-1])
        for steps in (1, 2, 3, 5)
    ]
    # The last number of a generator's vector counts the batches of a batch norm, of which a step has two.
    assert counted == [4, 4, 8, 12]


def test_latents_are_noise_and_one_kind_each_all_as_often():
    adversaries, _, _ = begun(VECTORS)
    latents = adversaries.latents(3000, rng("z"))
    assert latents.shape == (3000, 8)
    assert torch.equal(latents[:, 5:].sum(1), torch.ones(3000))
    assert torch.equal(latents[:, 5:].sum(0), torch.full((3,), 1000.0))
    assert float(latents[:, :5].std()) == pytest.approx(1, abs=0.03)


def test_a_generator_comes_near_the_samples():
    adversaries, generator, discriminator = begun(Blueprint((2,), output="linear", noise=4, kinds=2))
    corners = torch.tensor([[4.0, -4.0], [-4.0, 4.0]])
    x = corners.repeat(64, 1) + 0.3 * torch.randn(128, 2, generator=rng("x"))
    draws = rng("train")
    for _ in range(60):
        generator, discriminator, _ = adversaries.epoch(generator, discriminator, x, draws, (0.001, 0.001), 32)
    made = adversaries.samples(generator, 200, rng("made"))
    near = torch.cdist(made, corners).min(1)
    assert float(near.values.median()) < 1.5
    assert set(near.indices.tolist()) == {0, 1}


def test_samples_can_be_more_than_a_batch_or_none():
    adversaries, generator, _ = begun(COLOUR)
    made = adversaries.samples(generator, 501, rng("many"))
    assert made.shape == (501, 3, 9, 10)
    assert made.is_contiguous()
    assert adversaries.samples(generator, 0, rng("none")).shape == (0, 3, 9, 10)


def test_a_blueprint_survives_its_way():
    assert Blueprint.of(COLOUR.spec()) == COLOUR
    assert Adversaries.of(COLOUR) is Adversaries.of(Blueprint.of(COLOUR.spec()))


def test_digits_get_the_networks_of_the_papers_code():
    generator, discriminator = build_generator((1, 28, 28), 72), build_discriminator((1, 28, 28))
    fully = [part.out_features for part in generator if isinstance(part, nn.Linear)]
    assert fully == [1024, 6272]
    up = [(part.in_channels, part.out_channels) for part in generator if isinstance(part, nn.ConvTranspose2d)]
    assert up == [(128, 64), (64, 1)]
    down = [part.out_channels for part in discriminator if isinstance(part, nn.Conv2d)]
    assert down == [64, 128, 256]
    norms = [part.num_features for part in discriminator if isinstance(part, nn.BatchNorm2d)]
    assert norms == down  # after the first layer, too
    fully = [(part.in_features, part.out_features) for part in discriminator if isinstance(part, nn.Linear)]
    assert fully == [(2304, 1024), (1024, 1)]
    weights = torch.cat([part.detach().flatten() for part in generator.parameters() if part.dim() > 1])
    assert float(weights.std()) == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (2, 9, 14), (1, 5, 5), (6,), (1,)])
@pytest.mark.parametrize("output", ["sigmoid", "linear"])
def test_any_shape_can_be_made_and_judged(shape, output):
    generator, discriminator = build_generator(shape, 12, output, 0.05), build_discriminator(shape, 0.05)
    made = generator(torch.randn(3, 12)).detach()
    assert made.shape == (3, *shape)
    assert discriminator(made).shape == (3,)
    if output == "sigmoid":
        assert 0 <= float(made.min()) <= float(made.max()) <= 1


def test_half_the_capacity_is_a_quarter_of_the_parameters():
    for build in (
        lambda c: build_generator((1, 28, 28), 72, capacity=c),
        lambda c: build_discriminator((1, 28, 28), c),
    ):
        assert parameters(build(0.5)) / parameters(build(1.0)) == pytest.approx(0.25, abs=0.02)
