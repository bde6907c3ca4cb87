"""When a noisy machine is recorded: where it can change a verdict or a figure. Made figures, no times."""

from dataclasses import replace

import pytest
from helpers.sample_figures import FIGURES, MACHINE

from edgegpt.measure.noise import (
    DISTURBED_PERCENT,
    FIGURE_PERCENT,
    LOAD_PERCENT,
    load_noise,
    measured_noise,
    noise_remark,
    noise_sentence,
)

BUSY = replace(MACHINE, load=77.0)
STEADY = (2.0, 2.02, 2.04)


def reasons(waited: float | None, *, threads: int = 1, load: float = 0.1, **options: float) -> int:
    process = replace(FIGURES, waited_percent=waited, round_ms=STEADY)
    return len(measured_noise([process], replace(MACHINE, load=load), threads, **options))


def test_a_wait_that_moves_no_figure_is_not_recorded() -> None:
    assert DISTURBED_PERCENT < 3.0 < FIGURE_PERCENT
    assert reasons(3.0) == 0
    assert reasons(FIGURE_PERCENT) == 0
    assert reasons(FIGURE_PERCENT + 0.1) == 1


def test_a_limit_is_in_doubt_from_the_wait_on_that_the_verdict_rules_know() -> None:
    assert reasons(DISTURBED_PERCENT, least_percent=DISTURBED_PERCENT) == 0
    assert reasons(3.0, least_percent=DISTURBED_PERCENT) == 1


def test_the_load_average_counts_only_where_a_core_was_or_may_have_been_lost() -> None:
    assert reasons(0.0, load=77.0) == 0  # the other work is over, or runs on other cores
    assert reasons(50.0, load=77.0) == 2
    assert reasons(None, load=77.0) == 2
    assert reasons(0.0, load=77.0, threads=2) == 1  # only the first thread's waits are counted
    assert reasons(0.0, load=0.5, threads=2) == 0


def test_the_most_disturbed_process_counts_and_is_named_with_its_share_and_the_load() -> None:
    quiet, busy = (replace(FIGURES, waited_percent=waited, round_ms=STEADY) for waited in (0.0, 12.0))
    text = noise_sentence(measured_noise([quiet, busy], BUSY, 1))
    for value in ("77.0", f"{MACHINE.cores} cores", "12 %"):
        assert value in text


@pytest.mark.parametrize(("rounds", "moved"), [((1.0, 1.0, 1.1, 1.14), False), ((1.0, 1.0, 1.5, 1.6), True)])
def test_a_median_that_differs_between_rounds_is_recorded(rounds: tuple[float, ...], moved: bool) -> None:
    found = measured_noise([replace(FIGURES, waited_percent=0.0, round_ms=rounds)], MACHINE, 1)
    assert bool(found) == moved
    assert all("1.000" in reason and "1.600" in reason for reason in found)


@pytest.mark.parametrize(
    ("waited", "least", "share"),
    [
        (None, LOAD_PERCENT, ""),
        (6.0, LOAD_PERCENT, ""),  # 3 % of the load: nearly every load on a shared machine
        (20.0, LOAD_PERCENT, ""),
        (60.0, LOAD_PERCENT, "30 %"),
        (300.0, LOAD_PERCENT, "100 %"),  # the wait covers the interpreter's start too
        (6.0, DISTURBED_PERCENT, "3 %"),
    ],
)
def test_a_load_that_waited_is_recorded_from_its_share_on(
    waited: float | None, least: float, share: str
) -> None:
    found = load_noise([replace(FIGURES, load_ms=200.0, load_waited_ms=waited)], least_percent=least)
    assert bool(found) == bool(share)
    assert all(share in reason for reason in found)


def test_a_quiet_machine_gives_no_sentence() -> None:
    assert noise_sentence(()) == noise_remark(()) == ""


def test_a_system_that_counts_no_waits_may_have_been_quiet() -> None:
    unknown = measured_noise([replace(FIGURES, waited_percent=None)], MACHINE, 1)
    for text in (noise_sentence(unknown), noise_remark(unknown)):
        assert "may not" in text
    for noise in (("the load was 9",), (*unknown, "the load was 9")):
        assert "was not" in noise_sentence(noise)
        assert "may not" not in noise_remark(noise)


def test_the_sentence_holds_every_reason_and_its_effect() -> None:
    text = noise_sentence(("load 9", "wait 8 %"), "measure again")
    for part in ("load 9", "wait 8 %", "measure again"):
        assert part in text
    assert not text.endswith(".")
