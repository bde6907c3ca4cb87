"""Deadlines: how long calls of the model are expected to take, and the clock of one request.

The estimators learn from the requests of one engine; to measure a file use `edgegpt.measure`.
"""

import math
import threading
from time import perf_counter
from typing import Final, Literal

from edgegpt.runtime.engine import Clock
from edgegpt.runtime.reply import Timing, percentile

_MS: Final = 1000.0

# A prompt chunk this long measures the time of a token; a shorter one measures the time of a call.
_LONG_CHUNK: Final = 16


class StepLatency:
    """Estimate of the duration of a step: smoothed mean plus four times the smoothed deviation.

    The gains are those of TCP's retransmission timer (RFC 6298): a single slow step raises the estimate
    at once, and its effect is gone within a dozen.

    Attributes:
        mean: smoothed, in seconds; 0 before the first step.
        fastest: the shortest step in seconds; infinity before the first.
    """

    def __init__(self) -> None:
        self.mean = 0.0
        self.fastest = math.inf
        self._deviation = 0.0

    def observe(self, seconds: float) -> None:
        """Add the duration of one step."""
        if self.fastest == math.inf:
            self.mean, self._deviation = seconds, seconds / 8
        else:
            self._deviation += (abs(seconds - self.mean) - self._deviation) / 4
            self.mean += (seconds - self.mean) / 8
        self.fastest = min(self.fastest, seconds)

    def decay(self) -> None:
        """Move half-way to the fastest step, because a step was refused and gave no new measurement."""
        if self.fastest != math.inf:
            self._deviation /= 2
            self.mean += (self.fastest - self.mean) / 2

    @property
    def seconds(self) -> float:
        """The estimate in seconds; 0 before the first step."""
        return self.mean + 4 * self._deviation


class EngineLatency:
    """Estimates for one engine, shared by its requests.

    Attributes:
        decode: latency of decode steps.
        prefill_call: latency of calls that read one token of a prompt; `decode` itself where one session
            runs both.
        prefill_token: latency of each token that a call reads after its first.
    """

    def __init__(self, *, prefills_apart: bool = False) -> None:
        self.decode = StepLatency()
        self.prefill_call = StepLatency() if prefills_apart else self.decode
        self.prefill_token = StepLatency()

    def prefill(self, n_tokens: int) -> float:
        """Return the expected seconds to read n tokens of a prompt, by the means alone."""
        return self.prefill_call.mean + (n_tokens - 1) * self.prefill_token.mean

    def observe_prefill(self, n_tokens: int, seconds: float) -> None:
        """Add the duration of a call that read n tokens of a prompt."""
        if n_tokens >= _LONG_CHUNK:
            self.prefill_token.observe(max(0.0, seconds - self.prefill_call.mean) / (n_tokens - 1))
        else:
            self.prefill_call.observe(max(0.0, seconds - (n_tokens - 1) * self.prefill_token.mean))

    def fits(self, seconds: float, n_tokens: int, *, decoding: bool) -> bool:
        """Return whether a call that reads n tokens is expected to end within `seconds`.

        Prefill is judged by its mean, without a margin, since refusing it leaves the request without any
        answer. A refused call gives no measurement, so one slow step could refuse every later call: each
        refusal lowers the estimate, unless even the fastest step would have been too slow.
        """
        call = self.decode if decoding else self.prefill_call
        expected = call.seconds if decoding else self.prefill(n_tokens)
        if expected <= seconds:
            return True
        if call.fastest <= seconds:
            call.decay()
            if not decoding:
                self.prefill_token.decay()
        return False


class RequestClock:
    """Times one request and ends it at its deadline or cancellation (`edgegpt.runtime.engine.Cancellation`).

    Attributes:
        stopped: reason for which it ended the request; None if it has not.
        token_seconds: duration of each decode step.
    """

    def __init__(
        self,
        latency: EngineLatency,
        *,
        clock: Clock = perf_counter,
        arrived: float | None = None,
        deadline_ms: float | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        """Start timing.

        Args:
            latency: estimates of the engine, updated by this request.
            clock: returns seconds.
            arrived: `clock()` at the request's arrival; None is now.
            deadline_ms: counted from arrival; None for no deadline.
            cancel: the caller's event; it is only read.
        """
        self._latency = latency
        self._clock = clock
        self._arrived = clock() if arrived is None else arrived
        self._deadline = None if deadline_ms is None else self._arrived + deadline_ms / _MS
        self._callers_flag = cancel
        self._own_flag = False
        self._tokenised = 0.0  # seconds
        self._work_began: float | None = None
        self._first_token: float | None = None
        self._call_began = 0.0
        self._call_tokens = 0
        self.stopped: Literal["cancelled", "deadline"] | None = None
        self.token_seconds: list[float] = []

    def cancel(self) -> None:
        """End the request before the next call of the model; from any thread."""
        self._own_flag = True

    def tokenised(self, seconds: float) -> None:
        """Record how long tokenising the prompt took."""
        self._tokenised = seconds

    def cancelled(self) -> bool:
        """Return whether the request was cancelled."""
        if self._first_token is None and self._work_began is not None:  # between two prompt chunks
            self._latency.observe_prefill(self._call_tokens, self._clock() - self._call_began)
        if self._own_flag or (self._callers_flag is not None and self._callers_flag.is_set()):
            self.stopped = "cancelled"
        return self.stopped is not None

    def before_call(self, n_tokens: int) -> bool:
        """Return whether to end the request instead of letting the model read n tokens."""
        now = self._clock()
        if self._work_began is None:
            self._work_began = now
        self._call_began, self._call_tokens = now, n_tokens
        if self._own_flag:  # set while the request waited for the engine
            self.stopped = "cancelled"
        elif self._deadline is not None:
            decoding = self._first_token is not None
            if not self._latency.fits(self._deadline - now, n_tokens, decoding=decoding):
                self.stopped = "deadline"
        return self.stopped is not None

    def after_token(self) -> None:
        """Record that the call has given a token."""
        now = self._clock()
        seconds = now - self._call_began
        if self._first_token is None:
            self._first_token = now
            self._latency.observe_prefill(self._call_tokens, seconds)
        else:
            self._latency.decode.observe(seconds)
            self.token_seconds.append(seconds)

    def timing(self) -> Timing:
        """Return the times measured until now."""
        now = self._clock()
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
