import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.privacy.randomised_response import binary, flipped, memorised, packed, unpacked

SEEDS = st.integers(0, 10_000)


def some_bits(seed: int, *shape: int) -> torch.Tensor:
    return torch.randint(2, shape, generator=derive_generator(seed), dtype=torch.uint8)


def test_a_segment_is_normalised_by_its_own_extremes_and_a_vector_by_those_of_all():
    segments = torch.tensor([[0.0, 1.0, 2.0, 4.0], [8.0, 9.0, 11.0, 12.0]])
    assert binary(segments).tolist() == [[0, 0, 0, 1], [0, 0, 1, 1]]
    assert binary(segments, "vector").tolist() == [[0, 0, 0, 0], [1, 1, 1, 1]]


@given(SEEDS, st.floats(0.01, 100), st.floats(-100, 100))
def test_bits_do_not_depend_on_scale_and_offset(seed: int, scale: float, offset: float):
    segments = torch.randn(3, 9, generator=derive_generator(seed), dtype=torch.float64)
    assert binary(segments * scale + offset).equal(binary(segments))


def test_flips_come_as_often_as_asked_and_not_from_the_global_generator():
    bits = some_bits(0, 100, 1000)
    state = torch.get_rng_state()
    share = float(flipped(bits, 0.1, derive_generator(1)).ne(bits).float().mean())
    assert abs(share - 0.1) < 0.004
    assert torch.get_rng_state().equal(state)
    assert flipped(bits, 0.0, derive_generator(1)).equal(bits)
    assert flipped(bits, 0.1, derive_generator(1)).equal(flipped(bits, 0.1, derive_generator(1)))


@pytest.mark.parametrize("probability", [-0.1, 0.51, float("nan")])
def test_probabilities_beyond_one_half_are_refused(probability: float):
    with pytest.raises(FedkinError, match=r"outside \[0, 0.5\]"):
        flipped(some_bits(0, 4), probability, derive_generator(0))
    with pytest.raises(FedkinError, match=r"outside \[0, 0.5\]"):
        memorised(some_bits(0, 4), probability, None, derive_generator(0))


@given(SEEDS, st.integers(0, 70))
def test_packing_has_an_inverse_and_takes_an_eighth(seed: int, n: int):
    bits = some_bits(seed, n)
    assert packed(bits).shape == (-(-n // 8),)
    assert unpacked(packed(bits), n).equal(bits)


@given(SEEDS, st.floats(0, 0.5))
def test_a_memorised_answer_depends_on_the_true_bit_alone(seed: int, probability: float):
    before, after = some_bits(seed, 50), some_bits(seed + 1, 50)
    first, memory = memorised(before, probability, None, derive_generator(seed, "first"))
    second, kept = memorised(after, probability, memory, derive_generator(seed, "second"))
    again, _ = memorised(before, probability, kept, derive_generator(seed, "third"))
    assert kept.equal(memory)
    assert again.equal(first)
    assert second[before == after].equal(first[before == after])


def test_rounds_of_memorised_answers_do_not_average_the_noise_away():
    bits = some_bits(0, 2000)
    memory, answers, fresh = None, [], []
    for number in range(25):
        answer, memory = memorised(bits, 0.2, memory, derive_generator(1, number))
        answers.append(answer)
        fresh.append(flipped(bits, 0.2, derive_generator(1, number)))
    wrong = torch.stack(answers).float().mean(0).round().ne(bits).float().mean()
    averaged = torch.stack(fresh).float().mean(0).round().ne(bits).float().mean()
    assert 0.16 < wrong < 0.24
    assert averaged < 0.01


def test_both_answers_are_drawn_independently_and_with_the_probability():
    _, memory = memorised(some_bits(0, 100_000), 0.2, None, derive_generator(1))
    true_answer = memory == torch.tensor([[0], [1]])
    assert (true_answer.float().mean(1) - 0.8).abs().max() < 0.01
    assert abs(float(true_answer.all(0).float().mean()) - 0.64) < 0.01
