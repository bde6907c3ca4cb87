"""Text in, text out: what most users of edgegpt hold in their hands.

A conversation that keeps its cache, so that a turn reads only what is new.
"""

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from edgegpt.errors import ArtifactError, EngineError, PromptError, SessionError
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.deadline import EngineLatency, RequestClock
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.kv_cache import KVCache
from edgegpt.runtime.reply import Reply, TextChunk
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.runtime.stream import Generation, Stream
from edgegpt.tokenizer import Tokenizer


class Session:
    """Turns one after another, each continuing where the last one ended.

    What the next turn sees is every id that was read or generated: prompts, answers, the
    end-of-text token or the whole of the tokens that completed a stop string. A turn that fails, is
    cancelled or closed, or gives no token leaves the session as it was; one that its deadline or
    length cut short stays, and `rewind` takes it back.

    One turn at a time: a second one, and rewind and fork meanwhile, raise SessionError.
    """

    def __init__(self, generator: "TextGenerator", cache: KVCache) -> None:
        self._generator = generator
        self._cache = cache  # holds the first cache.length ids of _ids; the last may be missing
        self._ids: list[int] = []
        self._turns: list[int] = []  # len(_ids) before each turn
        self._busy = threading.Lock()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Every id that the next turn sees."""
        return tuple(self._ids)

    @property
    def n_turns(self) -> int:
        """Number of turns that the next one sees."""
        return len(self._turns)

    @property
    def bytes(self) -> int:
        """Size of the session's cache in bytes."""
        return self._cache.bytes

    def generate(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Reply:
        """The answer to the next prompt; arguments and errors as TextGenerator.generate."""
        return self.stream(prompt, params, cancel=cancel, arrived=arrived).result()

    def stream(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Stream:
        """The answer piece by piece; arguments and errors as TextGenerator.stream.

        Raises:
            SessionError: another turn is at work, or took place before this stream was begun.
        """
        arrived = perf_counter() if arrived is None else arrived
        ids = self._ids
        turn = self._generator.turn(prompt, params, history=ids, cancel=cancel, arrived=arrived)
        return Stream(turn, self._run(turn, ids))

    def rewind(self, *, turns: int | None = None, tokens: int | None = None) -> None:
        """Forget the last `turns` turns or the last `tokens` ids; give one of the two.

        Raises:
            SessionError: there are not so many, or a turn is at work.
        """
        if (turns is None) == (tokens is None):
            raise SessionError(f"rewind takes either turns or tokens, got {turns!r} and {tokens!r}")
        with self._exclusive():
            if turns is not None:
                if not 0 <= turns <= len(self._turns):
                    raise SessionError(f"cannot rewind {turns} turns of a session with {len(self._turns)}")
                end = self._turns[-turns] if turns else len(self._ids)
            else:
                assert tokens is not None
                if not 0 <= tokens <= len(self._ids):
                    raise SessionError(f"cannot rewind {tokens} tokens of a session with {len(self._ids)}")
                end = len(self._ids) - tokens
            self._ids = self._ids[:end]
            self._turns = [start for start in self._turns if start < end]
            self._cache.rewind(min(self._cache.length, end))

    def fork(self) -> "Session":
        """An independent session that has seen the same; raises SessionError while a turn is at work."""
        with self._exclusive():
            copy = Session(self._generator, self._cache.fork())
            copy._ids, copy._turns = list(self._ids), list(self._turns)
            return copy

    def _run(self, turn: Generation, ids: list[int]) -> Generator[TextChunk, None, None]:
        with self._exclusive():
            if ids is not self._ids:
                raise SessionError("the session has moved on since this stream was made; make a new one")
            n_cached = self._cache.length
            try:
                yield from turn.run(self._cache)
            finally:
                if turn.token_ids and turn.finish_reason not in ("cancelled", "error"):
                    self._turns.append(len(ids))
                    self._ids = [*turn.context_ids, *turn.token_ids]
                else:
                    self._cache.rewind(n_cached)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise SessionError("the session is at work on another turn; wait for its end or close its stream")
        try:
            yield
        finally:
            self._busy.release()


def load(
    path: str | Path, *, threads: int | None = None, capacity: int | None = None, warmup: bool = True
) -> "TextGenerator":
    """Open a model file and make it ready to answer.

    Args:
        path: an .onnx file made by `edgegpt export`.
        threads: of onnxruntime; they sleep while they wait. None is what `edgegpt tune` found for this
            file on this machine, or one thread where it was not asked.
        capacity: context in tokens, prompt and answer together, for each cache; None is the
            model's block_size.
        warmup: run the model once, so that a file that cannot be run to the end of the context is
            found now, the first request is as fast as the next, and deadlines know what a step takes.

    Raises:
        ArtifactError: the file or threads are not valid; part of it is found by the warm-up.
        EngineError: capacity is not a whole number within 1 to block_size.
        NonFiniteLogitsError: the weights are damaged; found by the warm-up.
    """
    artifact = open_artifact(path, threads=threads)
    engine = Engine.from_artifact(artifact, capacity=capacity)
    generator = TextGenerator(engine, artifact.tokenizer, artifact.sampling)
    if warmup:
        try:
            generator.warm_up()
        except EngineError as e:
            raise ArtifactError(
                f"{path} cannot be run as it says, with the target {artifact.target} and block_size "
                f"{artifact.config.block_size}: {e}"
            ) from e
    return generator


class TextGenerator:
    """One model that answers prompts.

    Any number of threads and unfinished streams may use it side by side: each has its own cache and
    random generator, and they take turns token by token. With the same seed a request gives the same
    text, whatever ran before or beside it.

    Attributes:
        engine: runs the model.
        tokenizer: of the model.
        sampling: the file's defaults, for requests that bring no SamplingParams. Params that a
            request brings replace them as a whole; `dataclasses.replace(generator.sampling, ...)`
            changes some.
        pace: what a step of the model takes, learned from every request.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, sampling: SamplingParams | None = None) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.sampling = SamplingParams() if sampling is None else sampling
        self.pace = EngineLatency(prefills_apart=engine.prefills_apart)
        self._idle_caches: list[KVCache] = []
        self._longest_token = max(len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size))

    @property
    def most_bytes(self) -> int:
        """Bytes of the longest text that the context could hold, all of it the longest tokens."""
        return self.engine.capacity * self._longest_token

    def generate(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Reply:
        """The whole answer to a prompt.

        Args:
            prompt: not empty, and not only whitespace.
            params: how to answer; None is `sampling`.
            cancel: set it from another thread to end the work before the next call of the model;
                the reply then holds the text so far and `cancelled`. It is only asked, never set.
            arrived: time.perf_counter() when the request arrived, from which deadline_ms counts;
                None is now.

        Raises:
            PromptError: there is nothing to answer, or the prompt does not fit into the context with
                one token more.
            TokenizerError: the prompt holds half of a character (a lone surrogate).
            EngineError, NonFiniteLogitsError: the model failed. The next request is not affected.
        """
        return self.stream(prompt, params, cancel=cancel, arrived=arrived).result()

    def stream(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Stream:
        """The answer piece by piece; arguments and errors as `generate`.

        A prompt is refused here, before any work; the model's errors come out of the stream. The
        model works only while the stream is asked for the next piece; closing it ends the work.
        """
        arrived = perf_counter() if arrived is None else arrived
        turn = self.turn(prompt, params, history=(), cancel=cancel, arrived=arrived)
        return Stream(turn, self._run(turn))

    def new_session(self) -> Session:
        """A conversation with a cache of its own, `engine.cache_bytes` large."""
        return Session(self, self.engine.new_cache())

    def turn(
        self,
        prompt: str,
        params: SamplingParams | None,
        *,
        history: Sequence[int],
        cancel: threading.Event | None,
        arrived: float,
    ) -> Generation:
        """Check and tokenise a prompt that follows the ids of `history`."""
        params = self.sampling if params is None else params
        watch = RequestClock(self.pace, arrived=arrived, deadline_ms=params.deadline_ms, cancel=cancel)
        began = perf_counter()
        ids = self._prompt_ids(prompt, len(history))
        watch.tokenised(perf_counter() - began)
        return Generation(self.engine, self.tokenizer, [*history, *ids], params, watch)

    def warm_up(self) -> None:
        """Run the model: at the last position, to load it and see that it can; then to time it."""
        cache, params = self._take_cache(), SamplingParams(max_new_tokens=4, temperature=0.0)
        try:
            cache.append(cache.room - 1)
            self.engine.prefill(cache, [self.tokenizer.eos_id])
            # First a step, then what more tokens add to it.
            for n_tokens in (1, max(1, min(self.engine.prefill_chunk, cache.capacity - 4))):
                cache.rewind(0)
                watch, ids = RequestClock(self.pace), [self.tokenizer.eos_id] * n_tokens
                for _ in self.engine.generate(ids, params, cache=cache, halt=watch):
                    watch.after_token()
        finally:
            self._give_back(cache)

    def _run(self, turn: Generation) -> Generator[TextChunk, None, None]:
        cache = self._take_cache()
        try:
            yield from turn.run(cache)
        finally:
            self._give_back(cache)

    def _take_cache(self) -> KVCache:
        try:
            return self._idle_caches.pop()
        except IndexError:
            return self.engine.new_cache()

    def _give_back(self, cache: KVCache) -> None:
        cache.rewind(0)
        if not self._idle_caches:  # one is kept; memory of a burst of requests is freed
            self._idle_caches.append(cache)

    def _prompt_ids(self, prompt: str, taken: int) -> list[int]:
        if not isinstance(prompt, str):
            raise PromptError(f"the prompt must be a string, got {type(prompt).__name__}")
        if not prompt.strip():
            raise PromptError(f"the prompt {prompt[:20]!r} is empty; say what the model shall answer")
        room = self.engine.capacity - taken - 1  # one for the answer
        # A long text need not be tokenised to know that it is too long. A surrogate stands for one byte.
        n_bytes = len(prompt.encode("utf-8", "replace"))
        least = -(-n_bytes // self._longest_token)
        if least <= room:
            ids = self.tokenizer.encode_prompt(prompt)
            if len(ids) <= room:
                return ids
            count = f"{len(ids)} tokens"
        else:
            count = f"at least {least} tokens ({n_bytes} bytes)"
        session = f", {taken} are taken by the session" if taken else ""
        raise PromptError(
            f"the prompt has {count} but the context holds {self.engine.capacity}{session} "
            "and one is kept for the answer; shorten it"
        )
