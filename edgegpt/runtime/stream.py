"""One generation: token ids become text, stop strings are matched, deadline and cancellation apply."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from inspect import GEN_CLOSED, getgeneratorstate
from types import TracebackType

from edgegpt.runtime.deadline import RequestClock
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.kv_cache import KVCache
from edgegpt.runtime.reply import FinishReason, Reply, TextChunk, Usage
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.tokenizer import Tokenizer


class Stream:
    """Iterator over the chunks of one answer. Nothing is computed between two of them.

    Attributes:
        reply: the whole answer once the stream has ended, also by an error; None before.
    """

    def __init__(self, generation: "Generation", chunks: Generator[TextChunk, None, None]) -> None:
        self._generation = generation
        self._chunks = chunks
        self.reply: Reply | None = None

    @property
    def token_seconds(self) -> list[float]:
        """Duration of each decode step so far; `reply.timing` has the percentiles."""
        return self._generation.token_seconds

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> TextChunk:
        try:
            return next(self._chunks)
        except BaseException:  # StopIteration is the regular end
            if self.reply is None and getgeneratorstate(self._chunks) == GEN_CLOSED:
                self.reply = self._generation.reply()
            raise

    def result(self) -> Reply:
        """Run to the end and return the reply; raises what the model raises."""
        for _ in self:
            pass
        assert self.reply is not None
        return self.reply

    def cancel(self) -> None:
        """End the answer before the next call of the model; from any thread, at any time."""
        self._generation.cancel()

    def close(self) -> None:
        """Stop the model; the reply is the text so far, and `cancelled`. No effect after the end."""
        if self.reply is not None:
            return
        self.cancel()
        try:
            self._chunks.close()
        except ValueError:  # it runs in another thread, which ends at its next call of the model
            return
        if self.reply is None:
            self._generation.finish_reason = "cancelled"
            self.reply = self._generation.reply()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Generation:
    """A prompt and its answer so far.

    Attributes:
        context_ids: every id before the answer.
        token_ids: generated so far.
        finish_reason: `error` until the generation has ended otherwise.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        context_ids: Sequence[int],
        params: SamplingParams,
        clock: RequestClock,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self.context_ids = context_ids
        self._n_cached = 0  # set by `run`
        self._params = params
        self._clock = clock
        self._matcher = StopMatcher(params.stop)
        self._texts: list[str] = []
        self._byte_offset = 0
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason = "error"

    def run(self, cache: KVCache) -> Iterator[TextChunk]:
        """Yield the answer in chunks, then set `finish_reason`.

        Args:
            cache: holds the first ids of context_ids, or none.
        """
        self._n_cached = cache.length
        try:
            yield from self._run(cache)
        except BaseException as e:
            if not isinstance(e, Exception):  # closed, or Ctrl-C: ended from outside, nothing failed
                self.finish_reason = "cancelled"
            raise

    def cancel(self) -> None:
        """End the generation before the next call of the model; from any thread."""
        self._clock.cancel()

    @property
    def token_seconds(self) -> list[float]:
        """Duration of each decode step."""
        return self._clock.token_seconds

    def reply(self) -> Reply:
        """Return the answer so far."""
        usage = Usage(len(self.context_ids), len(self.token_ids), self._n_cached)
        text = "".join(self._texts)
        return Reply(text, self.finish_reason, usage, self._clock.timing(), tuple(self.token_ids))

    def _run(self, cache: KVCache) -> Iterator[TextChunk]:
        decoder = self._tokenizer.stream_decoder()
        new, history = self.context_ids[self._n_cached :], self.context_ids[: self._n_cached]
        tokens = self._engine.generate(
            new, self._params, cache=cache, history=history, cancellation=self._clock
        )
        ended_by_eos = False
        for token_id in tokens:
            self._clock.after_token()
            self.token_ids.append(token_id)
            if token_id == self._tokenizer.eos_id:
                ended_by_eos = True
                break
            if text := self._matcher.push(decoder.push(token_id)):
                yield self._chunk(text)
            if self._matcher.found is not None:
                break
        if text := self._matcher.push(decoder.flush()) + self._matcher.flush():
            yield self._chunk(text)
        self.finish_reason = self._reason(ended_by_eos)

    def _reason(self, ended_by_eos: bool) -> FinishReason:
        if self._matcher.found is not None:
            return "stop"
        if ended_by_eos:
            return "eos"
        if self._clock.stopped is not None:
            return self._clock.stopped
        return "length" if len(self.token_ids) == self._params.max_new_tokens else "context"

    def _chunk(self, text: str) -> TextChunk:
        chunk = TextChunk(text, len(self._texts), self._byte_offset)
        self._texts.append(text)
        self._byte_offset += len(text.encode("utf-8"))
        return chunk


class StopMatcher:
    """Matches stop strings in a text stream, holding back partial matches.

    The stop string that is complete first ends the text; of those complete at the same character, the
    longest. The result does not depend on how the text is cut into chunks. Matching is by Knuth, Morris
    and Pratt (1977).

    Attributes:
        found: the stop string that ended the text; None so far.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = [(stop, _failure_table(stop)) for stop in sorted(stops, key=len, reverse=True)]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """Return the text that this chunk has made certain; nothing once a stop was found."""
        if self.found is not None:
            return ""
        if not self._stops:
            return text
        for position, character in enumerate(text, start=1):
            for n, (stop, failure) in enumerate(self._stops):
                self._matched[n] = _advance(stop, failure, self._matched[n], character)
                if self._matched[n] == len(stop):
                    self.found = stop
                    whole = self._held + text[:position]
                    self._held = ""
                    return whole[: -len(stop)]
        whole = self._held + text
        certain = len(whole) - max(self._matched)
        self._held = whole[certain:]
        return whole[:certain]

    def flush(self) -> str:
        """Return the text held back, at the end of a stream without a stop string."""
        held, self._held = self._held, ""
        self._matched = [0] * len(self._stops)
        return held


def _advance(stop: str, failure: list[int], matched: int, character: str) -> int:
    """Return the length of the prefix of `stop` that the stream ends with after one more character."""
    while matched and stop[matched] != character:
        matched = failure[matched - 1]
    return matched + (stop[matched] == character)


def _failure_table(stop: str) -> list[int]:
    """Return, for each prefix of `stop`, the length of its longest proper prefix that is also its suffix."""
    table = [0] * len(stop)
    matched = 0
    for i in range(1, len(stop)):
        matched = _advance(stop, table, matched, stop[i])
        table[i] = matched
    return table
