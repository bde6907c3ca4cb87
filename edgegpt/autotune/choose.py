"""Choose how a file runs on this machine from paired comparisons with one thread.

One thread is the default, since a robot's other processes need the cores. The settings are tried from the
cheapest to the most expensive (more threads, then spinning), and each replaces the one chosen before it
only if it is faster by more than MARGIN: the upper end of its interval against the lower end of the other's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from edgegpt.runtime import PREFILL_CHUNK, Tuning

MARGIN: Final = 0.10


@dataclass(frozen=True)
class Ratio:
    """A time as a ratio to that of one thread, measured in the same rounds.

    Attributes:
        ms: the median, in milliseconds.
        share: the median of the rounds' ratios to one thread; below 1 is faster.
        low: lower end of its confidence interval (edgegpt.measure.distribution); 0 after too few rounds.
        high: upper end; infinity after too few rounds.
    """

    ms: float
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return `0.58 (0.55 to 0.61)`."""
        return f"{self.share:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class PairedComparison:
    """A number of threads compared with one thread that reads prompts in chunks of PREFILL_CHUNK.

    One thread is measured against itself too, which gives the noise floor.

    Attributes:
        threads: number of onnxruntime threads.
        spinning: whether they keep their cores busy while they wait.
        cache_fill: tokens in the cache before a burst of decode steps.
        prompt_tokens: length of the prompt.
        token: a decode step.
        prompt: prompt to first token, by prefill chunk; PREFILL_CHUNK is one of them.
        session_bytes: private memory that a second session took; None where the system does not report it.
        waited_percent: share of the time in which the process was ready to run but other work had its core.
        round_ms: one thread's median time of a decode step in each round.
    """

    threads: int
    spinning: bool
    cache_fill: int
    prompt_tokens: int
    token: Ratio
    prompt: dict[int, Ratio]
    session_bytes: int | None
    waited_percent: float | None
    round_ms: tuple[float, ...]

    def __str__(self) -> str:
        """Return `2 spinning threads`."""
        return f"{self.threads} {'spinning ' * self.spinning}{'thread' if self.threads == 1 else 'threads'}"


@dataclass(frozen=True)
class Choice:
    """Settings with which a file is to be run, and their reasons.

    Attributes:
        tuning: the settings, as stored.
        reasons: reasons for the choice, one clause each.
        second_session_bytes: memory of a session for prompts alone; 0 where there is none, None where it is
            not known.
    """

    tuning: Tuning
    reasons: tuple[str, ...]
    second_session_bytes: int | None


@dataclass(frozen=True)
class Setting:
    """Threads and prefill chunk for prompts."""

    compared: PairedComparison
    chunk: int

    @property
    def prompt(self) -> Ratio:
        """Time from prompt to first token."""
        return self.compared.prompt[self.chunk]


def choose(comparisons: Sequence[PairedComparison]) -> Choice:
    """Return the choice from comparisons of every setting; one thread with itself has to be among them."""
    ordered = sorted(comparisons, key=lambda compared: (compared.spinning, compared.threads))
    decode = ordered[0]
    for compared in ordered[1:]:
        if _is_better(compared.token, decode.token):
            decode = compared
    prefill = _prefill(decode, ordered)
    apart = prefill.compared.threads != decode.threads
    tuning = Tuning(
        decode_threads=decode.threads,
        prefill_threads=prefill.compared.threads,
        spinning=decode.spinning or prefill.compared.spinning,
        prefill_chunk=prefill.chunk,
    )
    reasons = (_why_decode(decode, ordered), *_why_prefill(prefill, decode, ordered))
    return Choice(tuning, reasons, prefill.compared.session_bytes if apart else 0)


def _is_better(new: Ratio, old: Ratio) -> bool:
    return new.high < (1 - MARGIN) * old.low


def _prefill(decode: PairedComparison, comparisons: Sequence[PairedComparison]) -> Setting:
    """Return the setting for prompts: the decoding session's, unless a second session beats the margin."""
    first, *others = [s for one in (decode, *_others(decode, comparisons)) for s in _settings(one)]
    chosen = first
    for setting in others:
        if _is_better(setting.prompt, chosen.prompt):
            chosen = setting
    return chosen


def _others(decode: PairedComparison, comparisons: Sequence[PairedComparison]) -> Iterable[PairedComparison]:
    """Return the possible second sessions: spinning is for both, and has no effect on one thread."""
    for one in comparisons:
        if one.threads != decode.threads and (
            one.spinning == decode.spinning or 1 in (one.threads, decode.threads)
        ):
            yield one


def _settings(one: PairedComparison) -> list[Setting]:
    """Return the prefill chunks of a comparison, PREFILL_CHUNK first, then those nearest to it."""
    return [Setting(one, chunk) for chunk in sorted(one.prompt, key=lambda n: (abs(n - PREFILL_CHUNK), n))]


def _why_decode(chosen: PairedComparison, comparisons: Sequence[PairedComparison]) -> str:
    others = [one for one in comparisons if one.threads > 1]
    if not others:
        return "one thread, since this process may use one core"
    if chosen.threads > 1:
        return f"{chosen} to decode: a step takes {chosen.token} of one thread's time"
    best = min(others, key=lambda one: one.token.share)
    return (
        f"one thread to decode: with {best}, the fastest of the others, a step takes {best.token} of its "
        f"time; more threads are used only below {1 - MARGIN:g} with the whole interval"
    )


def _why_prefill(
    chosen: Setting, decode: PairedComparison, comparisons: Sequence[PairedComparison]
) -> Iterable[str]:
    same = Setting(decode, PREFILL_CHUNK)
    others = [setting for one in _others(decode, comparisons) for setting in _settings(one)]
    if chosen.compared.threads != decode.threads:
        yield (
            f"{chosen.compared} for prompts, in a session of their own: a prompt takes {chosen.prompt} of "
            f"one thread's time, and {same.prompt} with {decode}"
        )
    elif others:
        best = min(others, key=lambda setting: setting.prompt.share)
        yield (
            f"the same for prompts: a second session is used only if it is faster by {MARGIN:.0%} with its "
            f"whole interval; the fastest, {best.compared} with chunks of {best.chunk}, takes {best.prompt} "
            f"of one thread's time, and {decode} {chosen.prompt}"
        )
    if chosen.chunk != PREFILL_CHUNK:
        default = Setting(chosen.compared, PREFILL_CHUNK)
        yield (
            f"prefill chunks of {chosen.chunk} tokens: a prompt takes {chosen.prompt} of one thread's time, "
            f"and {default.prompt} in chunks of {PREFILL_CHUNK}"
        )
