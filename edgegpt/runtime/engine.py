"""Token ids in, token ids out: prefill, decode step and sampling over a backend.

After gpt-fast (pytorch-labs, 2023): `generate` is a generator of ints over two small functions.
Shapes: V is `n_valid`, the tokens that may be generated; higher ids of the vocabulary are padding and
their logits are cut off.
"""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgegpt import contract
from edgegpt.accounting import kv_cache_bytes
from edgegpt.config import ModelConfig
from edgegpt.errors import EngineError, NonFiniteLogitsError, PromptError, first_line, whole_number
from edgegpt.runtime.fair_lock import FairLock
from edgegpt.runtime.kv_cache import KVCache
from edgegpt.runtime.ort_backend import Backend, BoundCall, CallArrays, OrtBackend
from edgegpt.runtime.sampling import Logits, SamplingParams, new_rng, penalise_repetition, sample
from edgegpt.runtime.tuning import PREFILL_CHUNK

if TYPE_CHECKING:
    from edgegpt.runtime.artifact import Artifact

_CACHE_DTYPES: Final = {"fp32": np.float32, "int8": np.int8}


Clock = Callable[[], float]
"""Returns seconds that never decrease, as time.perf_counter does."""


class Cancellation(Protocol):
    """Interface that `Engine.generate` asks before each call of the model; True ends the generation."""

    def cancelled(self) -> bool:
        """Return whether to end; asked first, while other threads may use the engine."""

    def before_call(self, n_tokens: int) -> bool:
        """Return whether to end; asked when the engine is free for a call that reads n tokens."""


@dataclass(frozen=True)
class _DecodeStep:
    """A decode step bound to one cache, with the arrays that it reads and writes."""

    call: BoundCall
    input_ids: NDArray[np.int64]  # (1, 1)
    position_ids: NDArray[np.int64]  # (1, 1)
    logits: Logits  # (V,), a view of what the graph writes


class Engine:
    """Runs one model. Several threads may use it at once, each with a cache of its own.

    Calls of the model are serialised by a first-in, first-out lock that is held for one call only:
    concurrent generations alternate token by token, and an abandoned one blocks no other. A cache belongs
    to one generation at a time.

    Attributes:
        config: the model's shape.
        backend: runs the model.
        clock: times the requests to this engine, and their deadlines.
        capacity: positions of every cache, prompt and answer together.
        n_valid: number of tokens that may be generated; higher ids are padding.
        prefill_chunk: tokens of a prompt that are read in one call.
    """

    def __init__(
        self,
        session: ort.InferenceSession | None,
        config: ModelConfig,
        *,
        target: str = contract.ENGINE,
        capacity: int | None = None,
        n_valid: int | None = None,
        kv_cache: str = "fp32",
        prefill_session: ort.InferenceSession | None = None,
        prefill_chunk: int = PREFILL_CHUNK,
        backend: Backend | None = None,
        clock: Clock = perf_counter,
    ) -> None:
        """Take over a session whose graph follows edgegpt.contract, or another backend.

        Args:
            session: the graph; None where `backend` is given.
            config: config of its model.
            target: kind of graph, `engine` or `portable`.
            capacity: see the attribute; block_size unless given.
            n_valid: see the attribute; vocab_size unless given.
            kv_cache: type of the numbers in the cache, `fp32` or `int8`.
            prefill_session: the same graph with other threads, for prompts; None is `session`.
            prefill_chunk: see the attribute; cancellation and deadline are checked between two chunks.
            backend: replaces the sessions.
            clock: see the attribute.

        Raises:
            EngineError: capacity is not within 1 to block_size, n_valid not within 1 to vocab_size, or
                prefill_chunk is less than 1; or there is neither a session nor a backend.
        """
        capacity = config.block_size if capacity is None else capacity
        n_valid = config.vocab_size if n_valid is None else n_valid
        self.config = config
        self.capacity = whole_number("capacity", capacity, EngineError, least=1, most=config.block_size)
        self.n_valid = whole_number("n_valid", n_valid, EngineError, least=1, most=config.vocab_size)
        self.prefill_chunk = whole_number("prefill_chunk", prefill_chunk, EngineError, least=1)
        if backend is None:
            if session is None:
                raise EngineError(f"an engine needs a session or a backend, got {session} and {backend}")
            backend = OrtBackend(session, target=target, prefill_session=prefill_session)
        self.backend = backend
        self.clock = clock
        self._kv_cache = kv_cache
        self._decode_steps: weakref.WeakKeyDictionary[KVCache, _DecodeStep] = weakref.WeakKeyDictionary()
        self._lock = FairLock()

    @classmethod
    def from_artifact(cls, artifact: "Artifact", *, capacity: int | None = None) -> "Engine":
        """Return the engine of an open file; raises EngineError for a capacity outside 1 to block_size."""
        return cls(
            artifact.session,
            artifact.config,
            target=artifact.target,
            capacity=capacity,
            n_valid=artifact.tokenizer.vocab_size,
            kv_cache=artifact.kv_cache,
            prefill_session=artifact.prefill_session,
            prefill_chunk=artifact.tuning.prefill_chunk,
        )

    @property
    def waiting(self) -> int:
        """Number of threads that wait for a call of the model."""
        return self._lock.waiting

    @property
    def cache_bytes(self) -> int:
        """Size of one cache in bytes: keys and values for `capacity` positions."""
        return kv_cache_bytes(self.config, self.capacity, self._kv_cache)

    def new_cache(self) -> KVCache:
        """Return an empty cache for one generation or session."""
        config = self.config
        dtype = _CACHE_DTYPES[self._kv_cache]
        return KVCache(config.n_layer, config.n_kv_head, self.capacity, config.head_dim, dtype)

    def generate(
        self,
        token_ids: Sequence[int],
        params: SamplingParams,
        *,
        cache: KVCache | None = None,
        history: Sequence[int] = (),
        cancellation: Cancellation | None = None,
    ) -> Iterator[int]:
        """Yield new tokens until max_new_tokens, the end of the cache, cancellation, or the caller stops.

        A token is written to the cache only when the next one is asked for, so the last one yielded
        is not in it. `params.stop` and `params.deadline_ms` are not applied here.

        Args:
            token_ids: the prompt, at least one.
            params: sampling parameters.
            cache: is appended to; None is a new one.
            history: ids that the cache already holds, for the repetition penalty.
            cancellation: asked before each call of the model.

        Raises:
            PromptError, EngineError, NonFiniteLogitsError: as `prefill` and `decode_one_token`.
        """
        cache = self.new_cache() if cache is None else cache
        rng = None if params.temperature == 0 else new_rng(params)
        logits = self.prefill(cache, token_ids, cancellation=cancellation)
        if logits is None:
            return
        seen = self._seen(params, history, token_ids)
        for n in range(1, params.max_new_tokens + 1):
            if seen is not None:
                logits = penalise_repetition(logits, seen, params.repetition_penalty)
            # The greedy path, inlined to save a call.
            token_id = int(logits.argmax()) if rng is None else sample(logits, params, rng)
            if seen is not None:
                seen[token_id] = True
            yield token_id
            if n == params.max_new_tokens or cache.length + 1 >= cache.capacity:
                return
            if cancellation is None:
                logits = self.decode_one_token(cache, token_id)
                continue
            if cancellation.cancelled():
                return
            with self._lock:
                if cancellation.before_call(1):
                    return
                logits = self.decode_one_token(cache, token_id)

    def prefill(
        self, cache: KVCache, token_ids: Sequence[int], *, cancellation: Cancellation | None = None
    ) -> Logits | None:
        """Append tokens to the cache, in chunks of prefill_chunk.

        Returns:
            Logits (V,) of the last token, valid until the cache's next call; None if it was cancelled.

        Raises:
            PromptError: token_ids is empty, an id is outside the vocabulary, or they do not fit.
            EngineError: the backend failed.
            NonFiniteLogitsError: the model produced NaN or infinity.
        """
        logits = self._decode_step(cache).logits
        ids = self._checked(cache, token_ids)
        for chunk in self._chunks(ids):
            if cancellation is not None and cancellation.cancelled():
                return None
            with self._lock:
                if cancellation is not None and cancellation.before_call(chunk.size):
                    return None
                logits[:] = self._read(cache, chunk, rows=1)[0]
        return logits

    def token_losses(self, token_ids: Sequence[int]) -> NDArray[np.float64]:
        """Return the cross-entropy loss of each token but the first: -ln of its probability, in nats.

        Args:
            token_ids: n ids, from 2 to capacity + 1; the last is predicted and not read.

        Returns:
            (n - 1,).

        Raises:
            PromptError, EngineError, NonFiniteLogitsError: as `prefill`.
        """
        cache = self.new_cache()
        ids = self._checked(cache, token_ids[:-1])
        targets = np.asarray(token_ids[1:], np.int64)
        if targets.min() < 0 or targets.max() >= self.n_valid:
            wrong = targets[(targets < 0) | (targets >= self.n_valid)][0]
            raise PromptError(f"token id {wrong} has no loss, it is outside 0 to {self.n_valid - 1}")
        losses = []
        for chunk in self._chunks(ids):
            first = cache.length
            scores = self._read(cache, chunk, rows=chunk.size).astype(np.float64)  # (T, V)
            scores -= scores.max(axis=-1, keepdims=True)
            chosen = scores[np.arange(chunk.size), targets[first : cache.length]]
            losses.append(np.log(np.exp(scores).sum(axis=-1)) - chosen)
        return np.concatenate(losses)

    def decode_one_token(self, cache: KVCache, token_id: int) -> Logits:
        """Append one token to the cache; nothing is allocated.

        Returns:
            Logits (V,) of that token, valid until the cache's next call.

        Raises:
            PromptError, EngineError, NonFiniteLogitsError: as `prefill`; CacheError: the cache is full.
        """
        if not 0 <= token_id < self.config.vocab_size:
            raise PromptError(self._outside(token_id))
        step = self._decode_step(cache)
        position = cache.length
        cache.append(1)  # before the graph runs: it would write outside a full cache
        logits = step.logits
        try:
            step.input_ids[0, 0] = token_id
            step.position_ids[0, 0] = position
            self._run(step.call, position)
            _check_finite(logits, position)
        except BaseException:
            cache.rewind(position)
            raise
        return logits

    def _read(self, cache: KVCache, chunk: NDArray[np.int64], rows: int) -> Logits:
        """Append tokens (T,) to the cache; return logits (rows, V) of the last ones, the last row finite."""
        end = cache.length + chunk.size
        positions = np.arange(cache.length, end, dtype=np.int64)
        output = np.empty((1, rows, self.config.vocab_size), np.float32)
        call = self.backend.bind_prefill(CallArrays(chunk[None], positions[None], output, cache.arrays))
        self._run(call, end - 1)
        logits: Logits = output[0, :, : self.n_valid]
        _check_finite(logits[-1], end - 1)
        cache.append(chunk.size)
        return logits

    def _run(self, call: BoundCall, position: int) -> None:
        try:
            with self._lock:
                call()
        except Exception as e:  # onnxruntime raises several kinds, some of them private
            raise EngineError(f"the model failed at position {position}: {first_line(e)}") from e

    def _decode_step(self, cache: KVCache) -> _DecodeStep:
        step = self._decode_steps.get(cache)
        if step is None:
            input_ids, position_ids = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)
            logits = np.zeros((1, 1, self.config.vocab_size), np.float32)
            call = self.backend.bind_decode(CallArrays(input_ids, position_ids, logits, cache.arrays))
            step = _DecodeStep(call, input_ids, position_ids, logits[0, 0, : self.n_valid])
            self._decode_steps[cache] = step
        return step

    def _chunks(self, ids: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        for start in range(0, ids.size, self.prefill_chunk):
            yield ids[start : start + self.prefill_chunk]

    def _checked(self, cache: KVCache, token_ids: Sequence[int]) -> NDArray[np.int64]:
        ids = np.asarray(token_ids, np.int64)
        if not ids.size:
            raise PromptError("the prompt has no tokens; give the model at least one")
        if ids.size > cache.room:
            raise PromptError(
                f"the prompt has {ids.size} tokens but the context has room for {cache.room} "
                f"of {cache.capacity}"
            )
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self.config.vocab_size:
            raise PromptError(self._outside(low if low < 0 else high))
        return ids

    def _outside(self, token_id: int) -> str:
        return f"token id {token_id} is outside the vocabulary's 0 to {self.config.vocab_size - 1}"

    def _seen(self, params: SamplingParams, *sequences: Sequence[int]) -> NDArray[np.bool_] | None:
        """Return (V,), True at every token of the sequences; None without a repetition penalty."""
        if params.repetition_penalty == 1:
            return None
        seen = np.zeros(self.config.vocab_size, np.bool_)
        for ids in sequences:
            seen[list(ids)] = True
        return seen[: self.n_valid]


def _check_finite(logits: Logits, position: int) -> None:
    # NaN and infinity survive the sum of squares, the cheapest test of all values (0.4 us at V = 512,
    # 3.5 us at 50,257). It overflows for finite logits above 1e18, which are as broken.
    if not math.isfinite(logits.dot(logits)):
        raise NonFiniteLogitsError(
            f"the model's logits at position {position} hold NaN, infinity or values above 1e18; "
            "its weights are damaged"
        )
