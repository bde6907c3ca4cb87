"""One request at work: ids become text, and the reasons to end are watched.

Stop strings: find the first one in a stream of text and let none of it out.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from inspect import GEN_CLOSED, getgeneratorstate
from types import TracebackType

from edgegpt.runtime.deadline import RequestClock
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.kv_cache import KVCache
from edgegpt.runtime.reply import FinishReason, Reply, TextChunk, Usage
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.tokenizer import Tokenizer


class Generation:
    """A prompt and the answer to it, as far as it has come.

    Attributes:
        context_ids: every id before the answer.
        token_ids: generated so far.
        finish_reason: `error` until the turn has ended in another way.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        context_ids: Sequence[int],
        params: SamplingParams,
        watch: RequestClock,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self.context_ids = context_ids
        self._n_cached = 0  # known when the turn begins
        self._params = params
        self._watch = watch
        self._matcher = StopMatcher(params.stop)
        self._pieces: list[str] = []
        self._byte_offset = 0
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason = "error"

    def run(self, cache: KVCache) -> Iterator[TextChunk]:
        """Yield the answer piece by piece; `finish_reason` says afterwards why it ended.

        What the cache holds is the beginning of context_ids.
        """
        self._n_cached = cache.length
        try:
            yield from self._run(cache)
        except BaseException as e:
            if not isinstance(e, Exception):  # closed, or Ctrl-C: somebody ended it, nothing failed
                self.finish_reason = "cancelled"
            raise

    def cancel(self) -> None:
        """End the turn before the next call of the model; from any thread."""
        self._watch.cancel()

    @property
    def token_seconds(self) -> list[float]:
        """What each token but the first took."""
        return self._watch.token_seconds

    def reply(self) -> Reply:
        """The answer until now."""
        usage = Usage(len(self.context_ids), len(self.token_ids), self._n_cached)
        text = "".join(self._pieces)
        return Reply(text, self.finish_reason, usage, self._watch.timing(), tuple(self.token_ids))

    def _run(self, cache: KVCache) -> Iterator[TextChunk]:
        decoder = self._tokenizer.stream_decoder()
        new, history = self.context_ids[self._n_cached :], self.context_ids[: self._n_cached]
        tokens = self._engine.generate(new, self._params, cache=cache, history=history, halt=self._watch)
        ended_by_eos = False
        for token_id in tokens:
            self._watch.after_token()
            self.token_ids.append(token_id)
            if token_id == self._tokenizer.eos_id:
                ended_by_eos = True
                break
            if text := self._matcher.push(decoder.push(token_id)):
                yield self._piece(text)
            if self._matcher.found is not None:
                break
        if text := self._matcher.push(decoder.flush()) + self._matcher.flush():
            yield self._piece(text)
        self.finish_reason = self._reason(ended_by_eos)

    def _reason(self, ended_by_eos: bool) -> FinishReason:
        if self._matcher.found is not None:
            return "stop"
        if ended_by_eos:
            return "eos"
        if self._watch.stopped is not None:
            return self._watch.stopped
        return "length" if len(self.token_ids) == self._params.max_new_tokens else "context"

    def _piece(self, text: str) -> TextChunk:
        piece = TextChunk(text, len(self._pieces), self._byte_offset)
        self._pieces.append(text)
        self._byte_offset += len(text.encode("utf-8"))
        return piece


class Stream:
    """The pieces of one answer, as an iterator. Nothing is computed between two of them.

    Attributes:
        reply: the whole answer once the stream has ended, in whatever way; None before.
    """

    def __init__(self, turn: Generation, pieces: Generator[TextChunk, None, None]) -> None:
        self._turn = turn
        self._pieces = pieces
        self.reply: Reply | None = None

    @property
    def token_seconds(self) -> list[float]:
        """What each token so far took but the first, of which `reply.timing` has the percentiles."""
        return self._turn.token_seconds

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> TextChunk:
        try:
            return next(self._pieces)
        except BaseException:  # StopIteration is the good end
            if self.reply is None and getgeneratorstate(self._pieces) == GEN_CLOSED:
                self.reply = self._turn.reply()
            raise

    def result(self) -> Reply:
        """Run to the end; raises what the work raises."""
        for _ in self:
            pass
        assert self.reply is not None
        return self.reply

    def cancel(self) -> None:
        """Ask for the end before the next call of the model; from any thread, at any time."""
        self._turn.cancel()

    def close(self) -> None:
        """Stop the work; the reply is what the pieces so far join to, and `cancelled`. Too late, no harm."""
        if self.reply is not None:
            return
        self.cancel()
        try:
            self._pieces.close()
        except ValueError:  # it runs in another thread, which is about to see the cancellation
            return
        if self.reply is None:
            self._turn.finish_reason = "cancelled"
            self.reply = self._turn.reply()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StopMatcher:
    """Watches one stream for stop strings.

    The stop string that is complete first ends the text, and of those that are complete at the
    same character the longest. The result does not depend on how the text is cut into pieces.
    Text that may yet become a stop string is held back: for each stop string, how much of it the
    stream ends with is followed as in Knuth, Morris and Pratt (1977).
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = [(stop, _failure_table(stop)) for stop in sorted(stops, key=len, reverse=True)]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.found: str | None = None  # the stop string that ended the text

    def push(self, text: str) -> str:
        """The text that has become certain with this piece; nothing once a stop was found."""
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
        """What was held back when the stream ended without a stop string."""
        held, self._held = self._held, ""
        self._matched = [0] * len(self._stops)
        return held


def _advance(stop: str, failure: list[int], matched: int, character: str) -> int:
    """How much of `stop` the stream ends with after one more character."""
    while matched and stop[matched] != character:
        matched = failure[matched - 1]
    return matched + (stop[matched] == character)


def _failure_table(stop: str) -> list[int]:
    """For each prefix of `stop`, the length of its longest proper prefix that is also its suffix."""
    table = [0] * len(stop)
    matched = 0
    for i in range(1, len(stop)):
        matched = _advance(stop, table, matched, stop[i])
        table[i] = matched
    return table
