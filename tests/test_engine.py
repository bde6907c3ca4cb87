"""edgegpt.runtime.engine and its backend: what they compute, refuse, and do in threads."""

import gc
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Refused
from helpers.scripted import Call, greedy, observed
from helpers.threads import run_together
from helpers.tiny_files import TINY, assert_logits, tiny_file, torch_greedy, torch_logits

from edgegpt import contract
from edgegpt.errors import CacheError, EngineError, NonFiniteLogitsError, PromptError
from edgegpt.runtime import Artifact, CallArrays, Engine, OrtBackend, SamplingParams, open_artifact
from edgegpt.runtime.sampling import penalise_repetition

GREEDY = greedy(max_new_tokens=12)
PROMPT = [72, 5, 9, 33, 150, 7, 21]


@pytest.fixture(scope="module", params=[contract.ENGINE, contract.PORTABLE])
def artifact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return open_artifact(tiny_file(tmp_path_factory.mktemp("engine"), request.param))


@pytest.fixture
def engine(artifact: Artifact) -> Engine:
    return Engine.from_artifact(artifact)


@dataclass
class Cancelling:
    cancelled: Callable[[], bool] = lambda: False
    before_call: Callable[[int], bool] = lambda n_tokens: False


def spoiled(engine: Engine, token_ids: int | slice, logit: float) -> Engine:
    """One whose model always gives this logit to these tokens."""

    def spoil(call: Call) -> None:
        call.run()
        call.logits[0, -1, token_ids] = logit

    return observed(engine, spoil)


@pytest.mark.parametrize(
    ("length", "chunk"), [(1, 64), (2, 64), (7, 64), (47, 64), (48, 64), (20, 1), (20, 3), (20, 5)]
)
def test_prefill_in_any_chunks_gives_the_logits_of_pytorch(engine: Engine, length: int, chunk: int) -> None:
    engine.prefill_chunk = chunk
    ids, cache = [(7 * n) % 270 for n in range(length)], engine.new_cache()
    assert_logits(engine.prefill(cache, ids), ids)
    assert cache.length == length


def test_decode_equals_a_full_recompute_until_the_cache_is_full(engine: Engine, refused: Refused) -> None:
    cache, ids = engine.new_cache(), list(PROMPT)
    engine.prefill(cache, ids)
    while cache.room:
        ids.append((13 * len(ids)) % 270)
        assert_logits(engine.decode_one_token(cache, ids[-1]), ids)
    assert len(ids) == TINY.block_size
    with refused(CacheError, 48):
        engine.decode_one_token(cache, 1)


def test_after_decode_rewind_and_fork_a_cache_computes_as_if_it_had_only_read_its_ids(engine: Engine) -> None:
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT[:3] + [99] * 20)
    cache.rewind(3)
    engine.decode_one_token(cache, PROMPT[3])
    assert_logits(engine.prefill(cache, PROMPT[4:]), PROMPT)
    fork = cache.fork()
    assert_logits(engine.decode_one_token(fork, 100), [*PROMPT, 100])
    assert_logits(engine.decode_one_token(cache, 50), [*PROMPT, 50])
    assert_logits(engine.decode_one_token(fork, 3), [*PROMPT, 100, 3])


@pytest.mark.parametrize("capacity", [8, 20, TINY.block_size])
def test_a_capacity_changes_memory_and_the_end_and_nothing_else(artifact: Artifact, capacity: int) -> None:
    engine = Engine.from_artifact(artifact, capacity=capacity)
    cache = engine.new_cache()
    assert engine.cache_bytes == cache.bytes == 2 * 2 * 32 * 4 * capacity
    tokens = list(engine.generate(PROMPT, greedy(max_new_tokens=1000), cache=cache))
    assert tokens == torch_greedy(PROMPT, capacity - len(PROMPT))


def test_token_losses_are_those_of_pytorch_over_the_tokens_that_may_be_generated(engine: Engine) -> None:
    engine.prefill_chunk = 3
    expected = [
        -float(torch_logits(PROMPT[:n])[:270].log_softmax(-1)[PROMPT[n]]) for n in range(1, len(PROMPT))
    ]
    np.testing.assert_allclose(engine.token_losses(PROMPT), expected, atol=1e-4)


def test_the_repetition_penalty_counts_history_prompt_and_answer(engine: Engine) -> None:
    cache, ids = engine.new_cache(), list(PROMPT)
    engine.prefill(cache, PROMPT[:3])
    params = greedy(max_new_tokens=10, repetition_penalty=1.5)
    for token in engine.generate(PROMPT[3:], params, cache=cache, history=PROMPT[:3]):
        seen = np.isin(np.arange(engine.n_valid), ids)
        logits = torch_logits(ids)[: engine.n_valid].numpy()
        assert token == penalise_repetition(logits, seen, 1.5).argmax()
        ids.append(token)
    assert len(ids) == len(PROMPT) + 10


def test_padding_of_the_vocabulary_is_never_generated(artifact: Artifact) -> None:
    engine = Engine(artifact.session, TINY, target=artifact.target, n_valid=9)
    for temperature in (50.0, 0.0):
        params = SamplingParams(temperature=temperature, seed=0, max_new_tokens=40)
        tokens = list(engine.generate([1], params))
        assert len(tokens) == 40
        assert set(tokens) <= set(range(9))


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 5])
def test_cancellation_is_asked_before_every_call_and_ends_the_generation(engine: Engine, calls: int) -> None:
    engine.prefill_chunk = 4
    asked: list[int] = []

    def before_call(n_tokens: int) -> bool:
        asked.append(n_tokens)
        return len(asked) > calls

    cache, cancellation = engine.new_cache(), Cancelling(before_call=before_call)
    tokens = list(engine.generate(PROMPT, GREEDY, cache=cache, cancellation=cancellation))
    assert asked == [4, 3, 1, 1, 1, 1][: calls + 1]
    assert len(tokens) == max(0, calls - 1)
    assert cache.length == sum(asked[:calls])  # the last token is not in it


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("capacity", [0, -1, TINY.block_size + 1, 12.5, True]),
        ("n_valid", ["12", TINY.vocab_size + 1]),
        ("prefill_chunk", [0, 2.0]),
        ("session", [None]),  # and no backend
    ],
)
def test_an_option_outside_its_range_is_refused(
    artifact: Artifact, refused: Refused, name: str, values: list[object]
) -> None:
    for value in values:
        options: dict[str, Any] = {"session": artifact.session, name: value}
        with refused(EngineError, name, repr(value)):
            Engine(config=TINY, **options)


@pytest.mark.parametrize(
    ("ids", "values"),
    [([], ["no tokens"]), ([1] * 49, [49, 48]), ([1, 272], [272, 271]), ([1, -1], [-1, 271])],
)
def test_a_prompt_that_cannot_be_read_is_refused_and_leaves_the_cache(
    engine: Engine, refused: Refused, ids: list[int], values: list[object]
) -> None:
    cache = engine.new_cache()
    with refused(PromptError, *values):
        list(engine.generate(ids, GREEDY, cache=cache))
    assert cache.length == 0


@pytest.mark.parametrize(("ids", "value"), [([1], "no tokens"), ([1] * 50, 49), ([1, 270], 270)])
def test_token_losses_of_ids_that_cannot_be_read_or_predicted_are_refused(
    engine: Engine, refused: Refused, ids: list[int], value: object
) -> None:
    with refused(PromptError, value):
        engine.token_losses(ids)


@pytest.mark.parametrize("token_id", [-1, 272, 100_000])
def test_a_token_outside_the_vocabulary_is_refused(engine: Engine, refused: Refused, token_id: int) -> None:
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT)
    with refused(PromptError, token_id, 271):
        engine.decode_one_token(cache, token_id)
    assert_logits(engine.decode_one_token(cache, 271), [*PROMPT, 271])


def test_a_failure_of_onnxruntime_is_typed_short_and_leaves_engine_and_cache(engine: Engine) -> None:
    def spoil(call: Call) -> None:
        call.input_ids[:] = 100_000  # outside the embedding
        call.run()

    cache = engine.new_cache()
    engine.prefill(cache, PROMPT)
    with pytest.raises(EngineError, match="position 7") as error:
        observed(engine, spoil).decode_one_token(cache, 8)
    assert len(str(error.value)) < 200
    assert_logits(engine.decode_one_token(cache, 8), [*PROMPT, 8])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 130, 269])
def test_one_bad_logit_is_found_while_decoding_and_in_the_prompt(
    engine: Engine, refused: Refused, bad: float, row: int
) -> None:
    cache, bad_engine = engine.new_cache(), spoiled(engine, row, bad)
    engine.prefill(cache, PROMPT)
    with refused(NonFiniteLogitsError, "position 6"):
        bad_engine.prefill(engine.new_cache(), PROMPT)
    with refused(NonFiniteLogitsError, "position 7"):
        bad_engine.decode_one_token(cache, 1)
    assert_logits(engine.decode_one_token(cache, 8), [*PROMPT, 8])


def test_a_bad_logit_of_padding_is_ignored(engine: Engine) -> None:
    tokens = spoiled(engine, slice(270, None), np.nan).generate(PROMPT, GREEDY)
    assert list(tokens) == torch_greedy(PROMPT, 12)


def test_a_bound_call_reads_and_writes_the_very_arrays_it_was_given(tmp_path: Path) -> None:
    session = open_artifact(tiny_file(tmp_path)).session
    ids, positions = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)
    logits = np.zeros((1, 1, TINY.vocab_size), np.float32)
    cache = Engine(session, TINY).new_cache()
    call = OrtBackend(session).bind_decode(CallArrays(ids, positions, logits, cache.arrays))
    for position, token in enumerate(PROMPT):
        ids[0, 0], positions[0, 0] = token, position
        call()
        assert_logits(logits[0, 0], PROMPT[: position + 1])
    for array in cache.arrays:
        assert (array[:, :, : len(PROMPT)] != 0).any(axis=(0, 1, 3)).all()
        assert not array[:, :, len(PROMPT) :].any()


def test_what_is_bound_to_a_cache_is_freed_with_it(engine: Engine) -> None:
    bound: list[weakref.ref[Any]] = []

    def note(call: Call) -> None:
        bound.append(weakref.ref(call.logits))
        call.run()

    noted, cache = observed(engine, note), engine.new_cache()
    list(noted.generate(PROMPT, GREEDY, cache=cache))
    assert bound[-1]() is not None
    del cache
    gc.collect()
    assert bound[-1]() is None


def test_threads_share_an_engine_and_each_gets_what_it_gets_alone(engine: Engine) -> None:
    requests = [(PROMPT[n:], SamplingParams(seed=n, max_new_tokens=30)) for n in range(4)]
    alone = [list(engine.generate(*request)) for request in requests]
    together: list[list[int]] = [[] for _ in requests]

    def work(tokens: list[int], request: tuple[list[int], SamplingParams]) -> Callable[[], None]:
        return lambda: tokens.extend(engine.generate(*request))

    run_together(*map(work, together, requests))
    assert together == alone


def test_generations_in_threads_alternate_token_by_token(engine: Engine) -> None:
    ran: list[str] = []

    def note(call: Call) -> None:
        ran.append(threading.current_thread().name)
        while len(ran) == 1 and not shared.waiting:  # the other one has yet to come
            time.sleep(0.001)
        time.sleep(0.002)  # longer than a busy machine takes to wake a thread
        call.run()

    shared = observed(engine, note)
    run_together(*[lambda: list(shared.generate(PROMPT, greedy(max_new_tokens=30)))] * 2)
    in_a_row = [len(list(group)) for _, group in groupby(ran)]
    assert len(ran) == 60
    assert max(in_a_row) < 10


def test_cancellation_is_asked_while_the_engine_is_free_and_may_end_the_generation(engine: Engine) -> None:
    answers = iter([False, False, False, True])

    def cancelled() -> bool:
        run_together(lambda: list(engine.generate(PROMPT, GREEDY)))
        return next(answers)

    tokens = engine.generate(PROMPT, GREEDY, cancellation=Cancelling(cancelled))
    assert list(tokens) == torch_greedy(PROMPT, 3)
