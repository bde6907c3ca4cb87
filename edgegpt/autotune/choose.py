"""From what was measured to how a file shall be run.

The robot's other processes want the cores, so one thread is the rule. From the cheapest way to the
dearest (more threads, then threads that spin), each takes the place of the one chosen before it only
when it is faster by more than MARGIN beyond doubt: the upper end of its interval against the lower end
of the other's.

What a duel of two ways to run a file found.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict

from edgegpt.runtime import PREFILL_CHUNK, Tuning


class Ratio(BaseModel):
    """A time beside that of one thread, which was measured in the same rounds.

    Attributes:
        ms: the median, in milliseconds.
        share: the median of the rounds' ratios to one thread; below 1 is faster.
        low: that median's confidence interval (edgegpt.measure.distribution); 0 where there were too
            few rounds.
        high: as low; infinity where there were too few rounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ms: float
    share: float
    low: float
    high: float


class PairedComparison(BaseModel):
    """So many threads against one that reads prompts in pieces of PREFILL_CHUNK.

    One thread is measured against itself too, which shows how far noise alone carries.

    Attributes:
        threads: of onnxruntime.
        spinning: whether they keep their cores busy while they wait.
        cache_fill: tokens in the cache before a burst of further tokens.
        prompt_tokens: length of the prompt.
        token: one further token.
        prompt: prompt to first token, by the length of its pieces; PREFILL_CHUNK is one of them.
        session_bytes: private memory that the session took, beside one that was there; None where the
            system does not tell.
        waited_percent: share of the time in which the process was ready to run but other work had its core.
        round_ms: one thread's median token time in each round.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        """As `2 spinning threads`."""
        return f"{self.threads} {'spinning ' * self.spinning}{'thread' if self.threads == 1 else 'threads'}"


MARGIN: Final = 0.10


@dataclass(frozen=True)
class Choice:
    """How a file shall be run.

    Attributes:
        tuning: as it is kept.
        reasons: why, one sentence each.
        second_session_bytes: what prompts take for a session of their own; 0 where they have none, None
            where it is not known.
    """

    tuning: Tuning
    reasons: tuple[str, ...]
    second_session_bytes: int | None


@dataclass(frozen=True)
class _Way:
    duel: PairedComparison
    chunk: int

    @property
    def prompt(self) -> Ratio:
        return self.duel.prompt[self.chunk]


def choose(duels: Sequence[PairedComparison]) -> Choice:
    """The choice from duels of every way to run a file; that of one thread with itself is one of them."""
    ordered = sorted(duels, key=lambda duel: (duel.spinning, duel.threads))
    decode = ordered[0]
    for duel in ordered[1:]:
        if _is_better(duel.token, decode.token):
            decode = duel
    prefill = _prefill(decode, ordered)
    apart = prefill.duel.threads != decode.threads
    tuning = Tuning(
        decode_threads=decode.threads,
        prefill_threads=prefill.duel.threads,
        spinning=decode.spinning or prefill.duel.spinning,
        prefill_chunk=prefill.chunk,
    )
    reasons = (_why_decode(decode, ordered), *_why_prefill(prefill, decode, ordered))
    return Choice(tuning, reasons, prefill.duel.session_bytes if apart else 0)


def _is_better(new: Ratio, old: Ratio) -> bool:
    return new.high < (1 - MARGIN) * old.low


def _prefill(decode: PairedComparison, duels: Sequence[PairedComparison]) -> _Way:
    """The session that is there anyway at first; a second one has to gain more than the margin on it."""
    first, *others = [way for duel in (decode, *_others(decode, duels)) for way in _ways(duel)]
    chosen = first
    for way in others:
        if _is_better(way.prompt, chosen.prompt):
            chosen = way
    return chosen


def _others(decode: PairedComparison, duels: Sequence[PairedComparison]) -> Iterable[PairedComparison]:
    """What prompts may have beside it: spinning is for both sessions, and means nothing to one thread."""
    for duel in duels:
        if duel.threads != decode.threads and (
            duel.spinning == decode.spinning or 1 in (duel.threads, decode.threads)
        ):
            yield duel


def _ways(duel: PairedComparison) -> list[_Way]:
    """PREFILL_CHUNK first, then what is nearest to it."""
    return [_Way(duel, chunk) for chunk in sorted(duel.prompt, key=lambda n: (abs(n - PREFILL_CHUNK), n))]


def _why_decode(chosen: PairedComparison, duels: Sequence[PairedComparison]) -> str:
    others = [duel for duel in duels if duel.threads > 1]
    if not others:
        return "one thread, since this process may use one core"
    if chosen.threads > 1:
        return f"{chosen} to decode: a token takes {_share(chosen.token)} of one thread's time"
    best = min(others, key=lambda duel: duel.token.share)
    return (
        f"one thread to decode: with {best}, the fastest of the others, a token takes {_share(best.token)} "
        f"of its time; less than {1 - MARGIN:g} beyond doubt would be worth the cores"
    )


def _why_prefill(chosen: _Way, decode: PairedComparison, duels: Sequence[PairedComparison]) -> Iterable[str]:
    same = _Way(decode, PREFILL_CHUNK)
    others = [way for duel in _others(decode, duels) for way in _ways(duel)]
    if chosen.duel.threads != decode.threads:
        yield (
            f"{chosen.duel} for prompts, in a session of their own: a prompt takes {_share(chosen.prompt)} "
            f"of one thread's time, where {decode} would take {_share(same.prompt)}"
        )
    elif others:
        best = min(others, key=lambda way: way.prompt.share)
        yield (
            f"the same for prompts: a second session would have to be faster by {MARGIN:.0%} beyond doubt; "
            f"the fastest, {best.duel} with pieces of {best.chunk}, takes {_share(best.prompt)} of one "
            f"thread's time, and {decode} {_share(chosen.prompt)}"
        )
    if chosen.chunk != PREFILL_CHUNK:
        usual = _Way(chosen.duel, PREFILL_CHUNK)
        yield (
            f"pieces of {chosen.chunk} tokens: a prompt takes {_share(chosen.prompt)} of one thread's time, "
            f"and {_share(usual.prompt)} in pieces of {PREFILL_CHUNK}"
        )


def _share(relative: Ratio) -> str:
    return f"{relative.share:.2f} ({relative.low:.2f} to {relative.high:.2f})"
