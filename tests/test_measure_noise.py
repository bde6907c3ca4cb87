"""When a noisy machine is recorded: where it can change a verdict or a figure. Made figures, no times."""

from dataclasses import replace

import pytest
from helpers.sample_figures import FIGURES, MACHINE

from edgegpt.measure.noise import (
    DISTURBED_PERCENT as DISTURBED,
    FIGURE_PERCENT as FIGURE,
    LOAD_PERCENT,
    load_noise,
    measured_noise,
    noise_remark,
    noise_sentence,
)
from edgegpt.measure.spec import ProcessResult


def waiting(percent: float | None, *rounds: float) -> ProcessResult:
    return replace(FIGURES, waited_percent=percent, round_ms=rounds or (2.0, 2.02, 2.04))


@pytest.mark.parametrize(
    ("waited", "least", "load", "threads", "reasons"),
    [
        (3.0, FIGURE, 0.1, 1, 0),  # a wait that moves no figure
        (FIGURE, FIGURE, 0.1, 1, 0),
        (FIGURE + 0.1, FIGURE, 0.1, 1, 1),
        (DISTURBED, DISTURBED, 0.1, 1, 0),  # a limit is in doubt from this wait on, as in its verdict
        (3.0, DISTURBED, 0.1, 1, 1),
        # The load average counts only where a core was or may have been lost; other work may be elsewhere.
        (0.0, FIGURE, 77.0, 1, 0),
        (50.0, FIGURE, 77.0, 1, 2),
        (None, FIGURE, 77.0, 1, 2),
        (0.0, FIGURE, 77.0, 2, 1),  # only the first thread's waits are counted
        (0.0, FIGURE, 0.5, 2, 0),
    ],
)
def test_noise_is_recorded_from_the_wait_on_that_can_change_a_conclusion(
    waited: float | None, least: float, load: float, threads: int, reasons: int
) -> None:
    assert DISTURBED < 3.0 < FIGURE
    machine = replace(MACHINE, load=load)
    assert len(measured_noise([waiting(waited)], machine, threads, least_percent=least)) == reasons


def test_the_most_disturbed_process_counts_and_is_named_with_its_share_and_the_load() -> None:
    found = measured_noise([waiting(0.0), waiting(12.0)], replace(MACHINE, load=77.0), 1)
    text = noise_sentence(found, "measure again")
    for part in ("77.0", f"{MACHINE.cores} cores", "12 %", *found, "measure again"):
        assert part in text
    assert not text.endswith(".")


@pytest.mark.parametrize(("rounds", "moved"), [((1.0, 1.0, 1.1, 1.14), False), ((1.0, 1.0, 1.5, 1.6), True)])
def test_a_median_that_differs_between_rounds_is_recorded(rounds: tuple[float, ...], moved: bool) -> None:
    found = measured_noise([waiting(0.0, *rounds)], MACHINE, 1)
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
        (6.0, DISTURBED, "3 %"),
    ],
)
def test_a_load_that_waited_is_recorded_from_its_share_on(
    waited: float | None, least: float, share: str
) -> None:
    found = load_noise([replace(FIGURES, load_ms=200.0, load_waited_ms=waited)], least_percent=least)
    assert bool(found) == bool(share)
    assert all(share in reason for reason in found)


def test_a_system_that_counts_no_waits_may_have_been_quiet_and_a_quiet_one_has_no_remark() -> None:
    unknown, busy = measured_noise([waiting(None)], MACHINE, 1), ("the load was 9",)
    for text in (noise_sentence, noise_remark):
        assert text(()) == ""
        assert "may not" in text(unknown)
        assert "may not" not in text(busy)
        assert "was not" in text((*unknown, *busy))
