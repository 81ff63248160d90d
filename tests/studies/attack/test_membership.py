import pytest
import torch
from digits import convolutional, digits, learnt

from fedkin.core.seeds import derive_generator
from fedkin.privacy.randomised_response import binary
from fedkin.studies.attack.attack import Cases, Sent, as_sent, measured, planned


def pools() -> list[torch.Tensor]:
    x, y = digits()
    return [x[y == label] for label in range(10)]


def with_clients_of(held: int, trials: int = 800, seed: int = 0) -> Cases:
    return planned(learnt(), pools(), held, trials, derive_generator(seed, held))


def test_who_holds_one_sample_is_found_out_and_who_holds_many_is_not():
    found = [measured(with_clients_of(held), 0.0, derive_generator(1)) for held in (1, 2, 5, 40)]
    advantages = [each.advantage for each in found]
    assert advantages == sorted(advantages, reverse=True)
    assert advantages[0] > 0.9
    assert abs(advantages[-1]) < 0.12


def test_flips_protect():
    cases = with_clients_of(1)
    advantages = [measured(cases, level, derive_generator(1)).advantage for level in (0.0, 0.1, 0.3, 0.5)]
    assert advantages == sorted(advantages, reverse=True)
    assert advantages[0] - advantages[2] > 0.2


def test_noise_alone_gives_no_advantage_however_few_the_cases():
    """The greatest advantage over all thresholds would be far above 0 here."""
    found = [measured(with_clients_of(1, trials=20, seed=seed), 0.5, derive_generator(seed)) for seed in range(60)]
    assert abs(sum(each.advantage for each in found)) / 60 < 0.08


def test_a_planned_segment_is_that_of_its_members():
    known = learnt()
    cases = planned(known, pools(), 1, 50, derive_generator(0))
    assert cases.codes[cases.members].round().to(torch.uint8).equal(cases.segments[cases.members])
    assert cases.blocks.tolist() == [number for number in range(50) for _ in range(2)]
    again = planned(known, pools(), 1, 50, derive_generator(0))
    assert again.codes.equal(cases.codes)


@pytest.mark.parametrize("held", [1, 3])
def test_statistics_of_the_batch_are_those_of_the_clients_samples(held: int):
    known = convolutional()
    x = torch.rand(12, 1, 16, 16, generator=derive_generator(0))
    cases = planned(known, [x], held, 4, derive_generator(1))
    rng = derive_generator(1)
    torch.randint(1, (4,), generator=rng)
    rows = torch.randperm(12, generator=rng)[:held]
    expected = binary(known.codes(x[rows]).mean(0)[None])
    assert cases.segments[:1].equal(expected)


def messages(count: int, held: int, labelled: bool = True) -> list[Sent]:
    """Clients that hold so many samples of each of three classes, and as many fresh ones."""
    known = learnt()
    made = []
    for client in range(count):
        drawn = [pool[torch.randperm(len(pool), generator=derive_generator(client))] for pool in pools()[:3]]
        members, fresh = [part[:held] for part in drawn], [part[held : 2 * held] for part in drawn]
        bits = binary(torch.stack([known.codes(part).mean(0) for part in members]))
        places = torch.arange(3).repeat_interleave(held)
        made.append(Sent(bits, torch.cat(members), torch.cat(fresh), (places, places) if labelled else None, 0))
    return made


@pytest.mark.parametrize("labelled", [True, False])
def test_messages_as_sent_tell_members_where_there_are_few(labelled: bool):
    few, many = (as_sent(learnt(), messages(60, held, labelled), 1, derive_generator(0)) for held in (1, 50))
    assert int(few.members.sum()) == 180 == int((~few.members).sum())
    assert measured(few, 0.0, derive_generator(1)).advantage > 0.6
    assert measured(many, 0.0, derive_generator(1)).advantage < 0.25


def test_batches_of_different_sizes_do_not_tell_members_from_others():
    """Nobody is a member here: messages are of other samples, and there are ten times as many members as others."""
    known = convolutional()
    made = []
    for client in range(60):
        x = torch.rand(84, 1, 16, 16, generator=derive_generator(client)) ** 3
        bits = binary(known.codes(x[44:]).mean(0)[None])
        places = torch.zeros(40, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
        made.append(Sent(bits, x[:40], x[40:44], places, 0))
    found = measured(as_sent(known, made, 4, derive_generator(0)), 0.0, derive_generator(1))
    assert abs(found.advantage) < found.margin
