"""When a request must stop, judged before each call of the model, and how long its parts took."""

import threading
from time import perf_counter
from typing import Final, Literal

from edgegpt.reply import Timing, percentile

_MS: Final = 1000.0


class Pace:
    """What a step is expected to take, from what the steps before it took.

    The smoothed mean plus four times the smoothed deviation, with the gains of TCP's retransmission
    timer (RFC 6298): a single slow step raises the estimate at once and fades within a dozen.
    """

    def __init__(self) -> None:
        self._mean = 0.0
        self._deviation = 0.0
        self._known = False

    def note(self, seconds: float) -> None:
        """Learn from one step."""
        if not self._known:
            self._known, self._mean, self._deviation = True, seconds, seconds / 8
            return
        self._deviation += (abs(seconds - self._mean) - self._deviation) / 4
        self._mean += (seconds - self._mean) / 8

    @property
    def seconds(self) -> float:
        """The estimate; 0 while nothing is known."""
        return self._mean + 4 * self._deviation


class EnginePace:
    """The running step times of one engine, shared by its requests."""

    def __init__(self) -> None:
        self.decode = Pace()
        self.prefill_token = Pace()

    def prefill(self, n_tokens: int) -> float:
        """Expected seconds to read n tokens; never less than one step."""
        return max(n_tokens * self.prefill_token.seconds, self.decode.seconds)


class Watch:
    """The clock of one request, read with time.perf_counter.

    Attributes:
        stopped: why `before_call` ended the work; None while it did not.
        token_seconds: of each token but the first.
    """

    def __init__(
        self,
        pace: EnginePace,
        *,
        arrived: float | None = None,
        deadline_ms: float | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        self._pace = pace
        self._arrived = perf_counter() if arrived is None else arrived
        self._deadline = None if deadline_ms is None else self._arrived + deadline_ms / _MS
        self._cancel = threading.Event() if cancel is None else cancel
        self._tokenised = 0.0  # seconds
        self._work_began: float | None = None
        self._first_token: float | None = None
        self._call_began = 0.0
        self._call_tokens = 0
        self.stopped: Literal["cancelled", "deadline"] | None = None
        self.token_seconds: list[float] = []

    def cancel(self) -> None:
        """Stop before the next call of the model; from any thread."""
        self._cancel.set()

    def tokenised(self, seconds: float) -> None:
        """Note how long the prompt took to become ids."""
        self._tokenised = seconds

    def before_call(self, n_tokens: int) -> bool:
        """Whether to stop instead of letting the model read n tokens, as `Engine.generate` asks."""
        now = perf_counter()
        if self._work_began is None:
            self._work_began = now
        elif self._first_token is None:  # the call before this one was a part of the prompt
            self._pace.prefill_token.note((now - self._call_began) / self._call_tokens)
        cancelled = self._cancel.is_set()
        now = perf_counter()  # again: a server's flag takes its time, which is no step's
        self._call_began, self._call_tokens = now, n_tokens
        if cancelled:
            self.stopped = "cancelled"
        elif self._deadline is not None:
            decoding = self._first_token is not None
            expected = self._pace.decode.seconds if decoding else self._pace.prefill(n_tokens)
            if now + expected > self._deadline:
                self.stopped = "deadline"
        return self.stopped is not None

    def after_token(self) -> None:
        """Note that the call gave a token."""
        now = perf_counter()
        seconds = now - self._call_began
        if self._first_token is None:
            self._first_token = now
            self._pace.prefill_token.note(seconds / self._call_tokens)
        else:
            self._pace.decode.note(seconds)
            self.token_seconds.append(seconds)

    def timing(self) -> Timing:
        """What was measured until now."""
        now = perf_counter()
        began = now if self._work_began is None else self._work_began
        first, tokens = self._first_token, self.token_seconds
        return Timing(
            queue_ms=max(0.0, began - self._arrived - self._tokenised) * _MS,
            tokenise_ms=self._tokenised * _MS,
            prefill_ms=0.0 if first is None else (first - began) * _MS,
            ttft_ms=0.0 if first is None else (first - self._arrived) * _MS,
            token_p50_ms=percentile(tokens, 0.5) * _MS,
            token_p99_ms=percentile(tokens, 0.99) * _MS,
            token_max_ms=max(tokens, default=0.0) * _MS,
            total_ms=(now - self._arrived) * _MS,
        )
