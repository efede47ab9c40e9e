"""A wall limit says something about a program only if the program had a processor for most of its share."""

import pytest

from paddock.model.starvation import Spent, describe_starvation, is_starved


@pytest.mark.parametrize(
    ("wall_ms", "cpu_ms", "stalled_ms", "processors", "starved"),
    [
        (3000, 273, 2700, 2, True),  # beside twenty sessions of another job
        (3000, 2990, 10, 2, False),  # an endless loop
        (3000, 1100, 1900, 2, False),  # an endless loop beside two others on each processor
        (3000, 900, 2100, 2, True),
        (3000, 944, 1911, 2, True),  # its start took the rest
        (3000, 944, 1400, 2, False),  # it slept for most of the rest
        (3000, 5, 20, 2, False),  # asleep
        (3000, 6000, 0, 2, False),
        (3000, 1100, 2100, 2, False),  # its own threads took a third of a processor
        (3000, 600, 2400, 0.2, False),  # alone in a container with a fifth of a processor
        (3000, 300, 2700, 0.2, False),
        (3000, 150, 2700, 0.2, True),  # the others in it took three quarters of that
        (300, 10, 240, 2, False),  # too short to tell
        (400, 10, 390, 2, True),
        (0, 0, 0, 2, False),
    ],
)
def test_a_program_is_starved_if_it_had_less_than_a_third_and_others_most_of_the_rest(
    wall_ms, cpu_ms, stalled_ms, processors, starved
):
    assert is_starved(Spent(wall_ms, cpu_ms, stalled_ms), processors) is starved


@pytest.mark.parametrize("threads", [1, 2, 20, 1000])
@pytest.mark.parametrize("processors", [0.5, 1, 2, 64])
def test_no_program_starves_itself(threads, processors):
    wall_ms = 3000.0
    cpu_ms = wall_ms * min(threads, processors)
    quota_ms = max(0.0, wall_ms - cpu_ms)  # the kernel counts that as waiting, too
    assert not is_starved(Spent(wall_ms, cpu_ms, quota_ms), processors)


def test_the_hint_says_how_long_it_waited():
    spent = Spent(1000, 100.4, 800).add(Spent(2000, 172, 1900.2))
    assert spent == (3000, 272.4, 2700.2)
    assert describe_starvation(spent) == (
        "it waited 2700 ms for a processor and had one for 272 ms; run it again when the machine is less busy"
    )
