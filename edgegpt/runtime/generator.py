"""Text in, text out: `load` a file, `generate` answers, and hold sessions that keep their cache."""

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgegpt.errors import ArtifactError, EngineError, PromptError, SamplingError, SessionError
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.deadline import EngineLatency, RequestClock
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.kv_cache import KVCache
from edgegpt.runtime.reply import Reply, TextChunk
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.runtime.stream import Generation, Stream
from edgegpt.tokenizer import Tokenizer


def load(
    path: str | Path, *, threads: int | None = None, capacity: int | None = None, warmup: bool = True
) -> "TextGenerator":
    """Open a model file and make it ready to answer.

    Args:
        path: an .onnx file made by `edgegpt export`.
        threads: number of onnxruntime threads; waiting ones sleep. None is the stored result of
            `edgegpt tune` for this file on this machine, or one thread without one.
        capacity: context in tokens, prompt and answer together, for each cache; None is the
            model's block_size.
        warmup: run the model once: to find a file that fails at the end of the context, to make the
            first request as fast as the next, and to estimate the latencies that deadlines need.

    Raises:
        ArtifactError: the file or threads are not valid; some faults are found by the warm-up.
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
                f"{path} cannot be run with its own metadata, the target {artifact.target} and block_size "
                f"{artifact.config.block_size}: {e}"
            ) from e
    return generator


class TextGenerator:
    """Answers prompts with one model.

    Any number of threads and unfinished streams may use it at once: each has its own cache and random
    generator, and they alternate token by token. The same seed gives the same text under any load.

    Attributes:
        engine: runs the model.
        tokenizer: the model's tokenizer.
        sampling: the file's defaults, for requests without SamplingParams. Params of a request replace
            all of them; `dataclasses.replace(generator.sampling, ...)` changes some.
        latency: estimates of the duration of calls, learned from every request.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, sampling: SamplingParams | None = None) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.sampling = SamplingParams() if sampling is None else sampling
        self.latency = EngineLatency(prefills_apart=engine.backend.prefills_apart)
        self._idle_caches: list[KVCache] = []
        self._longest_token = max(len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size))

    @property
    def most_bytes(self) -> int:
        """Upper bound of the bytes of a text that the context can hold."""
        return self.engine.capacity * self._longest_token

    def generate(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Reply:
        """Return the whole answer to a prompt.

        Args:
            prompt: not empty, and not only whitespace.
            params: sampling parameters, stop strings and deadline; None is `sampling`.
            cancel: set it from another thread to end the answer before the next call of the model;
                the reply then holds the text so far and `cancelled`. It is only read, never set.
            arrived: `engine.clock()` (time.perf_counter()) at the request's arrival, from which
                deadline_ms counts; None is now.

        Raises:
            PromptError: the prompt is empty, or leaves no room for one more token in the context.
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
        """Return the answer in chunks; arguments and errors as `generate`.

        An invalid prompt raises here, before any call of the model; the model's errors are raised by the
        stream. The model runs only while the stream is asked for the next chunk; closing it ends the
        generation.
        """
        generation = self.new_generation(prompt, params, cancel=cancel, arrived=arrived)
        return Stream(generation, self._run(generation))

    def new_session(self) -> "Session":
        """Return a new conversation, with a cache of `engine.cache_bytes`."""
        return Session(self, self.engine.new_cache())

    def new_generation(
        self,
        prompt: str,
        params: SamplingParams | None,
        *,
        history: Sequence[int] = (),
        cancel: threading.Event | None,
        arrived: float | None,
    ) -> Generation:
        """Check and tokenise a prompt that follows the ids of `history`; arguments as `generate`."""
        params = self.sampling if params is None else params
        if not isinstance(params, SamplingParams):
            raise SamplingError(f"params must be SamplingParams or None, got {params!r}")
        now = self.engine.clock
        clock = RequestClock(
            self.latency, clock=now, arrived=arrived, deadline_ms=params.deadline_ms, cancel=cancel
        )
        began = now()
        ids = self._prompt_ids(prompt, len(history))
        clock.tokenised(now() - began)
        return Generation(self.engine, self.tokenizer, [*history, *ids], params, clock)

    def warm_up(self) -> None:
        """Run the model at the last position, to load it and find faults, and then to learn its latency."""
        cache, params = self._take_cache(), SamplingParams(max_new_tokens=4, temperature=0.0)
        try:
            cache.append(cache.room - 1)
            self.engine.prefill(cache, [self.tokenizer.eos_id])
            # First a call of one token, then what more tokens add to it.
            for n_tokens in (1, max(1, min(self.engine.prefill_chunk, cache.capacity - 4))):
                cache.rewind(0)
                clock = RequestClock(self.latency, clock=self.engine.clock)
                ids = [self.tokenizer.eos_id] * n_tokens
                for _ in self.engine.generate(ids, params, cache=cache, cancellation=clock):
                    clock.after_token()
        finally:
            self._return_cache(cache)

    def _run(self, generation: Generation) -> Generator[TextChunk, None, None]:
        cache = self._take_cache()
        try:
            yield from generation.run(cache)
        finally:
            self._return_cache(cache)

    def _take_cache(self) -> KVCache:
        try:
            return self._idle_caches.pop()
        except IndexError:
            return self.engine.new_cache()

    def _return_cache(self, cache: KVCache) -> None:
        cache.rewind(0)
        if not self._idle_caches:  # one is kept; memory of a burst of requests is freed
            self._idle_caches.append(cache)

    def _prompt_ids(self, prompt: str, taken: int) -> list[int]:
        if not isinstance(prompt, str):
            raise PromptError(f"the prompt must be a string, got {type(prompt).__name__}")
        if not prompt.strip():
            raise PromptError(f"the prompt {prompt[:20]!r} is empty; the model needs a text to answer")
        room = self.engine.capacity - taken - 1  # one for the answer
        # A very long text is refused without tokenising it. A surrogate is one byte.
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


class Session:
    """A conversation with a KV cache of its own, so that each turn reads only its new tokens.

    The context of a turn is every id that was read or generated before: prompts, answers, the end-of-text
    token or the whole of the tokens that completed a stop string. A turn that fails, is cancelled or
    closed, or gives no token leaves the session unchanged; one cut short by its deadline or length stays,
    and `rewind` removes it.

    One turn at a time: a second one, and rewind and fork meanwhile, raise SessionError.
    """

    def __init__(self, generator: TextGenerator, cache: KVCache) -> None:
        self._generator = generator
        self._cache = cache  # holds the first cache.length ids of _ids; the last may be missing
        self._ids: list[int] = []
        self._turns: list[int] = []  # len(_ids) before each turn
        self._busy = threading.Lock()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Every id in the context of the next turn."""
        return tuple(self._ids)

    @property
    def n_turns(self) -> int:
        """Number of turns so far."""
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
        """Return the answer to the next prompt; arguments and errors as TextGenerator.generate."""
        return self.stream(prompt, params, cancel=cancel, arrived=arrived).result()

    def stream(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Stream:
        """Return the answer in chunks; arguments and errors as TextGenerator.stream.

        Raises:
            SessionError: another turn is running, or took place after this stream was made.
        """
        ids = self._ids
        generation = self._generator.new_generation(
            prompt, params, history=ids, cancel=cancel, arrived=arrived
        )
        return Stream(generation, self._run(generation, ids))

    def rewind(self, *, turns: int | None = None, tokens: int | None = None) -> None:
        """Remove the last `turns` turns or the last `tokens` ids; give one of the two.

        Raises:
            SessionError: the session has fewer, or a turn is running.
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
        """Return an independent copy; raises SessionError while a turn is running."""
        with self._exclusive():
            copy = Session(self._generator, self._cache.fork())
            copy._ids, copy._turns = list(self._ids), list(self._turns)
            return copy

    def _run(self, generation: Generation, ids: list[int]) -> Generator[TextChunk, None, None]:
        with self._exclusive():
            if ids is not self._ids:
                raise SessionError(
                    "the session has had another turn since this stream was made; make a new one"
                )
            n_cached = self._cache.length
            try:
                yield from generation.run(self._cache)
            finally:
                if generation.token_ids and generation.finish_reason not in ("cancelled", "error"):
                    self._turns.append(len(ids))
                    self._ids = [*generation.context_ids, *generation.token_ids]
                else:
                    self._cache.rewind(n_cached)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise SessionError("another turn of the session is running; wait for its end or close its stream")
        try:
            yield
        finally:
            self._busy.release()
