"""edgegpt.runtime.engine and its backend: what they compute, refuse, and do in threads."""

import gc
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from conftest import Refused
from helpers.scripted import Call, observed
from helpers.tiny_files import TINY, tiny_file, torch_greedy, torch_logits

from edgegpt import contract
from edgegpt.errors import CacheError, EngineError, NonFiniteLogitsError, PromptError
from edgegpt.runtime.artifact import Artifact, open_artifact
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.ort_backend import OrtBackend
from edgegpt.runtime.sampling import Logits, SamplingParams, penalise_repetition

GREEDY = SamplingParams(temperature=0.0, max_new_tokens=12)
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


def close(logits: Logits | None, expected: Any) -> None:
    assert logits is not None
    np.testing.assert_allclose(logits, expected[: len(logits)].numpy(), atol=1e-4, rtol=0)


def run_together(*works: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


# --- it computes what PyTorch computes, on both targets ---


@pytest.mark.parametrize("length", [1, 2, 7, TINY.block_size - 1, TINY.block_size])
def test_prefill_gives_the_logits_of_pytorch(engine: Engine, length: int) -> None:
    ids = [(7 * n) % 270 for n in range(length)]
    cache = engine.new_cache()
    close(engine.prefill(cache, ids), torch_logits(ids))
    assert cache.length == length


@pytest.mark.parametrize("chunk", [1, 3, 5, 64])
def test_prefill_in_chunks_of_any_size_gives_the_same(engine: Engine, chunk: int) -> None:
    engine.prefill_chunk = chunk
    ids = [(11 * n) % 270 for n in range(20)]
    close(engine.prefill(engine.new_cache(), ids), torch_logits(ids))


def test_decode_gives_the_logits_of_a_full_recompute_up_to_the_last_position(engine: Engine) -> None:
    cache, ids = engine.new_cache(), list(PROMPT)
    engine.prefill(cache, ids)
    while cache.room:
        ids.append((13 * len(ids)) % 270)
        close(engine.decode_one_token(cache, ids[-1]), torch_logits(ids))
    assert len(ids) == TINY.block_size


def test_prefill_continues_behind_what_the_cache_holds(engine: Engine) -> None:
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT[:3])
    engine.decode_one_token(cache, PROMPT[3])
    close(engine.prefill(cache, PROMPT[4:]), torch_logits(PROMPT))


def test_a_rewound_cache_computes_as_if_the_rest_had_never_been(engine: Engine) -> None:
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT + [99] * 20)
    cache.rewind(4)
    close(engine.prefill(cache, PROMPT[4:]), torch_logits(PROMPT))


def test_a_fork_goes_its_own_way_and_leaves_the_original(engine: Engine) -> None:
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT)
    fork = cache.fork()
    close(engine.decode_one_token(fork, 100), torch_logits([*PROMPT, 100]))
    close(engine.decode_one_token(cache, 50), torch_logits([*PROMPT, 50]))
    close(engine.decode_one_token(fork, 3), torch_logits([*PROMPT, 100, 3]))


def test_greedy_generation_equals_a_full_recompute(engine: Engine) -> None:
    assert list(engine.generate(PROMPT, GREEDY)) == torch_greedy(PROMPT, 12, engine.n_valid)


@pytest.mark.parametrize("capacity", [8, 20, TINY.block_size])
def test_a_smaller_capacity_changes_memory_and_nothing_else(artifact: Artifact, capacity: int) -> None:
    engine = Engine.from_artifact(artifact, capacity=capacity)
    cache = engine.new_cache()
    assert engine.cache_bytes == cache.bytes == 2 * 2 * 32 * 4 * capacity
    n = min(12, capacity - len(PROMPT))
    assert list(engine.generate(PROMPT, GREEDY, cache=cache)) == torch_greedy(PROMPT, n, engine.n_valid)


def test_token_losses_are_those_of_pytorch_over_the_tokens_that_may_be_generated(engine: Engine) -> None:
    engine.prefill_chunk = 3
    losses = engine.token_losses(PROMPT)
    expected = [
        -float(torch_logits(PROMPT[:n])[:270].log_softmax(-1)[PROMPT[n]]) for n in range(1, len(PROMPT))
    ]
    np.testing.assert_allclose(losses, expected, atol=1e-4)


@pytest.mark.parametrize(("ids", "value"), [([1], "no tokens"), ([1] * 50, 49), ([1, 270], 270)])
def test_token_losses_of_ids_that_cannot_be_read_or_predicted_are_refused(
    engine: Engine, refused: Refused, ids: list[int], value: object
) -> None:
    with refused(PromptError, value):
        engine.token_losses(ids)


# --- generate ---


def test_generation_ends_when_the_context_is_full(engine: Engine) -> None:
    params = SamplingParams(temperature=0.0, max_new_tokens=1000)
    assert len(list(engine.generate(PROMPT, params))) == TINY.block_size - len(PROMPT)


def test_the_last_token_given_is_not_in_the_cache(engine: Engine) -> None:
    cache = engine.new_cache()
    tokens = engine.generate(PROMPT, GREEDY, cache=cache)
    assert [next(tokens), next(tokens)]
    assert cache.length == len(PROMPT) + 1


def test_the_same_seed_gives_the_same_ids_beside_another_generation(engine: Engine) -> None:
    params = SamplingParams(seed=3, max_new_tokens=15)
    alone = list(engine.generate(PROMPT, params))
    other = engine.generate(PROMPT[::-1], SamplingParams(seed=4, max_new_tokens=30))
    beside = [token for token, _ in zip(engine.generate(PROMPT, params), other, strict=False)]
    assert alone == beside


def test_the_repetition_penalty_counts_history_prompt_and_answer(engine: Engine) -> None:
    params = SamplingParams(temperature=0.0, max_new_tokens=10, repetition_penalty=1.5)
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT[:3])
    tokens = list(engine.generate(PROMPT[3:], params, cache=cache, history=PROMPT[:3]))
    ids = list(PROMPT)
    for token in tokens:
        seen = np.isin(np.arange(engine.n_valid), ids)
        logits = torch_logits(ids)[: engine.n_valid].numpy()
        assert token == penalise_repetition(logits, seen, 1.5).argmax()
        ids.append(token)


def test_padding_beyond_the_tokenizer_is_never_generated(artifact: Artifact) -> None:
    engine = Engine(artifact.session, TINY, target=artifact.target, n_valid=9)
    params = SamplingParams(temperature=50.0, seed=0, max_new_tokens=40)
    tokens = list(engine.generate([1], params))
    assert len(tokens) == 40
    assert set(tokens) <= set(range(9))
    assert set(engine.generate([1], SamplingParams(temperature=0.0))) <= set(range(9))


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
    assert cache.length == sum(asked[:calls])


# --- what is refused ---


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"capacity": 0}, 0),
        ({"capacity": -1}, -1),
        ({"capacity": TINY.block_size + 1}, 49),
        ({"capacity": 12.5}, 12.5),
        ({"capacity": True}, True),
        ({"n_valid": "12"}, "'12'"),
        ({"n_valid": TINY.vocab_size + 1}, 273),
        ({"prefill_chunk": 0}, 0),
        ({"prefill_chunk": 2.0}, 2.0),
    ],
    ids=str,
)
def test_a_size_outside_its_range_is_refused(
    artifact: Artifact, refused: Refused, options: dict[str, Any], value: object
) -> None:
    with refused(EngineError, next(iter(options)), value):
        Engine(artifact.session, TINY, **options)


def test_an_engine_needs_a_session_or_a_backend(refused: Refused) -> None:
    with refused(EngineError, None):
        Engine(None, TINY)


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


@pytest.mark.parametrize("token_id", [-1, 272, 100_000])
def test_a_token_outside_the_vocabulary_is_not_decoded(
    engine: Engine, refused: Refused, token_id: int
) -> None:
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT)
    with refused(PromptError, token_id, 271):
        engine.decode_one_token(cache, token_id)
    assert cache.length == len(PROMPT)
    close(engine.decode_one_token(cache, 271), torch_logits([*PROMPT, 271]))


def test_a_full_cache_decodes_no_further(engine: Engine, refused: Refused) -> None:
    cache = engine.new_cache()
    engine.prefill(cache, [1] * TINY.block_size)
    with refused(CacheError, 48):
        engine.decode_one_token(cache, 1)


# --- what fails ---


def test_a_failure_of_onnxruntime_is_typed_short_and_leaves_engine_and_cache(
    engine: Engine, refused: Refused
) -> None:
    def spoil(call: Call) -> None:
        call.input_ids[:] = 100_000  # outside the embedding
        call.run()

    cache = engine.new_cache()
    engine.prefill(cache, PROMPT)
    with pytest.raises(EngineError, match="position 7") as error:
        observed(engine, spoil).decode_one_token(cache, 8)
    assert len(str(error.value)) < 200
    assert cache.length == len(PROMPT)
    close(engine.decode_one_token(cache, 8), torch_logits([*PROMPT, 8]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 130, 269])
def test_one_bad_logit_is_found_while_decoding_and_in_the_prompt(
    engine: Engine, refused: Refused, bad: float, row: int
) -> None:
    def spoil(call: Call) -> None:
        call.run()
        call.logits[0, -1, row] = bad

    cache, spoiled = engine.new_cache(), observed(engine, spoil)
    engine.prefill(cache, PROMPT)
    with refused(NonFiniteLogitsError, "position 6"):
        spoiled.prefill(engine.new_cache(), PROMPT)
    with refused(NonFiniteLogitsError, "position 7"):
        spoiled.decode_one_token(cache, 1)
    assert cache.length == 7
    close(engine.decode_one_token(cache, 8), torch_logits([*PROMPT, 8]))


def test_a_bad_logit_of_padding_is_ignored(engine: Engine) -> None:
    def spoil(call: Call) -> None:
        call.run()
        call.logits[0, -1, 270:] = np.nan

    cache, spoiled = engine.new_cache(), observed(engine, spoil)
    spoiled.prefill(cache, PROMPT)
    spoiled.decode_one_token(cache, 3)


# --- buffers and threads ---


def test_a_bound_call_reads_and_writes_the_very_arrays_it_was_given(tmp_path: Any) -> None:
    session = open_artifact(tiny_file(tmp_path)).session
    ids, positions = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)
    logits = np.zeros((1, 1, TINY.vocab_size), np.float32)
    cache = Engine(session, TINY).new_cache()
    call = OrtBackend(session).bind_decode(ids, positions, logits, cache.arrays)
    for position, token in enumerate(PROMPT):
        ids[0, 0], positions[0, 0] = token, position
        call()
        close(logits[0, 0], torch_logits(PROMPT[: position + 1]))
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


def test_an_abandoned_generation_blocks_no_other(engine: Engine) -> None:
    abandoned = engine.generate(PROMPT, GREEDY)
    next(abandoned)
    assert list(engine.generate(PROMPT, GREEDY)) == torch_greedy(PROMPT, 12, engine.n_valid)
    assert next(abandoned) == torch_greedy(PROMPT, 2, engine.n_valid)[1]


def test_generations_in_threads_alternate_token_by_token(engine: Engine) -> None:
    ran: list[str] = []

    def note(call: Call) -> None:
        ran.append(threading.current_thread().name)
        while len(ran) == 1 and not shared.waiting:  # the other one has yet to come
            time.sleep(0.001)
        time.sleep(0.002)  # longer than a busy machine takes to wake a thread
        call.run()

    def work() -> None:
        list(shared.generate(PROMPT, SamplingParams(temperature=0.0, max_new_tokens=30)))

    shared = observed(engine, note)
    run_together(work, work)
    in_a_row = [len(list(group)) for _, group in groupby(ran)]
    assert len(ran) == 60
    assert max(in_a_row) < 10


def test_cancellation_is_asked_while_the_engine_is_free_and_may_end_the_generation(engine: Engine) -> None:
    answers = iter([False, False, False, True])

    def cancelled() -> bool:
        run_together(lambda: list(engine.generate(PROMPT, GREEDY)))
        return next(answers)

    assert len(list(engine.generate(PROMPT, GREEDY, cancellation=Cancelling(cancelled)))) == 3
