"""When a request must stop, judged before each call of the model, and how long its parts took."""

import math
import threading
from time import perf_counter
from typing import Final, Literal

from edgegpt.runtime.reply import Timing, percentile

_MS: Final = 1000.0

# A piece of a prompt this long says what a token costs; a shorter one says what a call costs.
_TELLING_TOKENS: Final = 16


class StepLatency:
    """What a step is expected to take, from what the steps before it took.

    The smoothed mean plus four times the smoothed deviation, with the gains of TCP's retransmission
    timer (RFC 6298): a single slow step raises the estimate at once and fades within a dozen.

    Attributes:
        mean: smoothed; 0 while nothing is known.
        fastest: of all steps; infinity while nothing is known.
    """

    def __init__(self) -> None:
        self.mean = 0.0
        self.fastest = math.inf
        self._deviation = 0.0

    def note(self, seconds: float) -> None:
        """Learn from one step."""
        if self.fastest == math.inf:
            self.mean, self._deviation = seconds, seconds / 8
        else:
            self._deviation += (abs(seconds - self.mean) - self._deviation) / 4
            self.mean += (seconds - self.mean) / 8
        self.fastest = min(self.fastest, seconds)

    def doubt(self) -> None:
        """Come half-way to the fastest step: one was refused, so that none can say what it takes now."""
        if self.fastest != math.inf:
            self._deviation /= 2
            self.mean += (self.fastest - self.mean) / 2

    @property
    def seconds(self) -> float:
        """The estimate; 0 while nothing is known."""
        return self.mean + 4 * self._deviation


class EngineLatency:
    """The running step times of one engine, shared by its requests.

    Attributes:
        decode: of calls that read one token, or little more.
        prefill_call: of calls that read one token of a prompt; `decode` itself where one session does
            both.
        prefill_token: what each token more than one adds to a call.
    """

    def __init__(self, *, prefills_apart: bool = False) -> None:
        self.decode = StepLatency()
        self.prefill_call = StepLatency() if prefills_apart else self.decode
        self.prefill_token = StepLatency()

    def prefill(self, n_tokens: int) -> float:
        """Expected seconds to read n tokens of a prompt, by the means alone."""
        return self.prefill_call.mean + (n_tokens - 1) * self.prefill_token.mean

    def note_prefill(self, n_tokens: int, seconds: float) -> None:
        """Learn from a call that read n tokens of a prompt."""
        if n_tokens >= _TELLING_TOKENS:
            self.prefill_token.note(max(0.0, seconds - self.prefill_call.mean) / (n_tokens - 1))
        else:
            self.prefill_call.note(max(0.0, seconds - (n_tokens - 1) * self.prefill_token.mean))

    def allows(self, seconds: float, n_tokens: int, *, decoding: bool) -> bool:
        """Whether a call is expected to take no longer than so many seconds.

        Reading a prompt is judged without a margin, since to refuse it is to give no answer at all. A
        call that is refused teaches nothing, and after a slow step each one might be. So each refusal
        takes from the estimate, unless even the fastest step would have been too slow.
        """
        call = self.decode if decoding else self.prefill_call
        expected = call.seconds if decoding else self.prefill(n_tokens)
        if expected <= seconds:
            return True
        if call.fastest <= seconds:
            call.doubt()
            if not decoding:
                self.prefill_token.doubt()
        return False


class RequestClock:
    """The clock of one request, read with time.perf_counter, and the engine's `Halt`.

    Attributes:
        stopped: why it ended the work; None while it did not.
        token_seconds: of each token but the first.
    """

    def __init__(
        self,
        pace: EngineLatency,
        *,
        arrived: float | None = None,
        deadline_ms: float | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        """`cancel` is the caller's, and only asked."""
        self._pace = pace
        self._arrived = perf_counter() if arrived is None else arrived
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
        """Stop before the next call of the model; from any thread."""
        self._own_flag = True

    def tokenised(self, seconds: float) -> None:
        """Note how long the prompt took to become ids."""
        self._tokenised = seconds

    def cancelled(self) -> bool:
        """Whether somebody asked for the end."""
        if self._first_token is None and self._work_began is not None:  # between two parts of the prompt
            self._pace.note_prefill(self._call_tokens, perf_counter() - self._call_began)
        if self._own_flag or (self._callers_flag is not None and self._callers_flag.is_set()):
            self.stopped = "cancelled"
        return self.stopped is not None

    def before_call(self, n_tokens: int) -> bool:
        """Whether to stop instead of letting the model read n tokens."""
        now = perf_counter()
        if self._work_began is None:
            self._work_began = now
        self._call_began, self._call_tokens = now, n_tokens
        if self._own_flag:  # set while the engine was waited for
            self.stopped = "cancelled"
        elif self._deadline is not None:
            decoding = self._first_token is not None
            if not self._pace.allows(self._deadline - now, n_tokens, decoding=decoding):
                self.stopped = "deadline"
        return self.stopped is not None

    def after_token(self) -> None:
        """Note that the call gave a token."""
        now = perf_counter()
        seconds = now - self._call_began
        if self._first_token is None:
            self._first_token = now
            self._pace.note_prefill(self._call_tokens, seconds)
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
