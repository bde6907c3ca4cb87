import threading
import time
from itertools import groupby

import numpy as np
import pytest
from helpers.tiny_files import TINY, tiny_file, torch_greedy, torch_logits

from edgegpt import contract
from edgegpt.errors import CacheError, EngineError, NonFiniteLogitsError, PromptError
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.ort_backend import bind_shared_kv
from edgegpt.runtime.sampling import SamplingParams, penalise_repetition

GREEDY = SamplingParams(temperature=0.0, max_new_tokens=12)
PROMPT = [72, 5, 9, 33, 150, 7, 21]


@pytest.fixture(scope="module", params=[contract.ENGINE, contract.PORTABLE])
def artifact(request, tmp_path_factory):
    return open_artifact(tiny_file(tmp_path_factory.mktemp("engine"), request.param))


@pytest.fixture
def engine(artifact):
    return Engine.from_artifact(artifact)


class Halt:
    def __init__(self, cancelled=lambda: False, before_call=lambda n_tokens: False):
        self.cancelled, self.before_call = cancelled, before_call


def close(logits, expected):
    np.testing.assert_allclose(logits, expected[: len(logits)].numpy(), atol=1e-4, rtol=0)


# --- it computes what PyTorch computes, on both targets ---


@pytest.mark.parametrize("length", [1, 2, 7, TINY.block_size - 1, TINY.block_size])
def test_prefill_gives_the_logits_of_pytorch(engine, length):
    ids = [(7 * n) % 270 for n in range(length)]
    cache = engine.new_cache()
    close(engine.prefill(cache, ids), torch_logits(ids))
    assert cache.length == length


@pytest.mark.parametrize("chunk", [1, 3, 5, 64])
def test_prefill_in_pieces_of_any_size_gives_the_same(engine, monkeypatch, chunk):
    monkeypatch.setattr(engine, "prefill_chunk", chunk)
    ids = [(11 * n) % 270 for n in range(20)]
    close(engine.prefill(engine.new_cache(), ids), torch_logits(ids))


def test_decode_gives_the_logits_of_a_full_recompute_up_to_the_last_position(engine):
    cache, ids = engine.new_cache(), list(PROMPT)
    engine.prefill(cache, ids)
    while cache.room:
        ids.append((13 * len(ids)) % 270)
        close(engine.decode_one_token(cache, ids[-1]), torch_logits(ids))
    assert len(ids) == TINY.block_size


def test_prefill_continues_behind_what_the_cache_holds(engine):
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT[:3])
    engine.decode_one_token(cache, PROMPT[3])
    close(engine.prefill(cache, PROMPT[4:]), torch_logits(PROMPT))


def test_a_rewound_cache_computes_as_if_the_rest_had_never_been(engine):
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT + [99] * 20)
    cache.rewind(4)
    close(engine.prefill(cache, PROMPT[4:]), torch_logits(PROMPT))


def test_a_fork_goes_its_own_way_and_leaves_the_original(engine):
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT)
    fork = cache.fork()
    close(engine.decode_one_token(fork, 100), torch_logits([*PROMPT, 100]))
    close(engine.decode_one_token(cache, 50), torch_logits([*PROMPT, 50]))
    close(engine.decode_one_token(fork, 3), torch_logits([*PROMPT, 100, 3]))


def test_greedy_generation_equals_a_full_recompute(engine):
    assert list(engine.generate(PROMPT, GREEDY)) == torch_greedy(PROMPT, 12, engine.n_valid)


@pytest.mark.parametrize("capacity", [8, 20, TINY.block_size])
def test_a_smaller_capacity_changes_memory_and_nothing_else(artifact, capacity):
    engine = Engine.from_artifact(artifact, capacity=capacity)
    cache = engine.new_cache()
    assert engine.cache_bytes == cache.bytes == 2 * 2 * 32 * 4 * capacity
    n = min(12, capacity - len(PROMPT))
    assert list(engine.generate(PROMPT, GREEDY, cache=cache)) == torch_greedy(PROMPT, n, engine.n_valid)


def test_token_losses_are_those_of_pytorch_over_the_tokens_that_may_be_generated(engine, monkeypatch):
    monkeypatch.setattr(engine, "prefill_chunk", 3)
    losses = engine.token_losses(PROMPT)
    expected = [
        -float(torch_logits(PROMPT[:n])[:270].log_softmax(-1)[PROMPT[n]]) for n in range(1, len(PROMPT))
    ]
    np.testing.assert_allclose(losses, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("ids", "words"),
    [([1], "no tokens"), ([1] * 50, "has 49 tokens"), ([1, 270], "token id 270 cannot be predicted")],
)
def test_token_losses_of_what_cannot_be_are_refused(engine, ids, words):
    with pytest.raises(PromptError, match=words):
        engine.token_losses(ids)


# --- generate ---


def test_generation_ends_when_the_context_is_full(engine):
    params = SamplingParams(temperature=0.0, max_new_tokens=1000)
    assert len(list(engine.generate(PROMPT, params))) == TINY.block_size - len(PROMPT)


def test_the_last_token_given_is_not_in_the_cache(engine):
    cache = engine.new_cache()
    tokens = engine.generate(PROMPT, GREEDY, cache=cache)
    assert [next(tokens), next(tokens)]
    assert cache.length == len(PROMPT) + 1


def test_the_same_seed_gives_the_same_ids_beside_another_generation(engine):
    params = SamplingParams(seed=3, max_new_tokens=15)
    alone = list(engine.generate(PROMPT, params))
    other = engine.generate(PROMPT[::-1], SamplingParams(seed=4, max_new_tokens=30))
    beside = [token for token, _ in zip(engine.generate(PROMPT, params), other, strict=False)]
    assert alone == beside


def test_the_repetition_penalty_counts_history_prompt_and_answer(engine):
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


def test_padding_beyond_the_tokenizer_is_never_generated(artifact):
    engine = Engine(artifact.session, TINY, target=artifact.target, n_valid=9)
    params = SamplingParams(temperature=50.0, seed=0, max_new_tokens=40)
    tokens = list(engine.generate([1], params))
    assert len(tokens) == 40
    assert set(tokens) <= set(range(9))
    assert set(engine.generate([1], SamplingParams(temperature=0.0))) <= set(range(9))


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 5])
def test_halt_is_asked_before_every_call_and_ends_the_work(engine, monkeypatch, calls):
    monkeypatch.setattr(engine, "prefill_chunk", 4)
    asked = []

    def before_call(n_tokens):
        asked.append(n_tokens)
        return len(asked) > calls

    cache, halt = engine.new_cache(), Halt(before_call=before_call)
    tokens = list(engine.generate(PROMPT, GREEDY, cache=cache, halt=halt))
    assert asked == [4, 3, 1, 1, 1, 1][: calls + 1]
    assert len(tokens) == max(0, calls - 1)
    assert cache.length == sum(asked[:calls])


# --- what cannot be ---


@pytest.mark.parametrize("capacity", [0, -1, TINY.block_size + 1])
def test_a_capacity_the_model_does_not_have_is_refused(artifact, capacity):
    with pytest.raises(EngineError, match=f"capacity must be within 1 to block_size 48, got {capacity}"):
        Engine.from_artifact(artifact, capacity=capacity)


@pytest.mark.parametrize("size", [12.5, 12.0, True, "12"])
def test_a_size_that_is_no_whole_number_is_refused(artifact, size):
    with pytest.raises(EngineError, match=f"^capacity must be a whole number, got {size!r}$"):
        Engine.from_artifact(artifact, capacity=size)
    with pytest.raises(EngineError, match=f"^n_valid must be a whole number, got {size!r}$"):
        Engine(artifact.session, TINY, n_valid=size)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([], "the prompt has no tokens"),
        ([1] * 49, "the prompt has 49 tokens but the context has room for 48 of 48"),
        ([1, 272], "token id 272 is outside the vocabulary's 0 to 271"),
        ([1, -1], "token id -1 is outside"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused_and_leaves_the_cache(engine, ids, words):
    cache = engine.new_cache()
    with pytest.raises(PromptError, match=words):
        list(engine.generate(ids, GREEDY, cache=cache))
    assert cache.length == 0


@pytest.mark.parametrize("token_id", [-1, 272, 100_000])
def test_a_token_outside_the_vocabulary_is_not_decoded(engine, token_id):
    cache = engine.new_cache()
    engine.prefill(cache, PROMPT)
    with pytest.raises(PromptError, match=f"token id {token_id} is outside the vocabulary's 0 to 271"):
        engine.decode_one_token(cache, token_id)
    assert cache.length == len(PROMPT)
    close(engine.decode_one_token(cache, 271), torch_logits([*PROMPT, 271]))


def test_a_full_cache_decodes_no_further(engine):
    cache = engine.new_cache()
    engine.prefill(cache, [1] * TINY.block_size)
    with pytest.raises(CacheError, match="with 48 of 48 in use"):
        engine.decode_one_token(cache, 1)


def test_a_failure_of_onnxruntime_is_typed_short_and_leaves_engine_and_cache(engine):
    make_step, cache = engine._make_step, engine.new_cache()
    engine.prefill(cache, PROMPT)

    def spoiled(session, ids, positions, logits, arrays):
        step = make_step(session, ids, positions, logits, arrays)

        def run():
            ids[:] = 100_000  # beyond the embedding
            step()

        return run

    engine._make_step = spoiled
    fork = cache.fork()  # is not bound yet
    with pytest.raises(EngineError, match="onnxruntime failed at position 7: ") as error:
        engine.decode_one_token(fork, 8)
    assert fork.length == len(PROMPT)
    assert len(str(error.value)) < 200
    assert cache.length == len(PROMPT)
    close(engine.decode_one_token(cache, 8), torch_logits([*PROMPT, 8]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 130, 269])
def test_one_bad_logit_is_found_while_decoding_and_in_the_prompt(engine, bad, row):
    cache = engine.new_cache()
    make_step = engine._make_step

    def spoiled(session, ids, positions, logits, arrays):
        step = make_step(session, ids, positions, logits, arrays)

        def run():
            step()
            logits[0, -1, row] = bad

        return run

    engine.prefill(cache, PROMPT)
    engine._make_step = spoiled
    with pytest.raises(NonFiniteLogitsError, match="logits at position 6 hold NaN, infinity"):
        engine.prefill(engine.new_cache(), PROMPT)
    fork = cache.fork()  # is not bound yet
    with pytest.raises(NonFiniteLogitsError, match="logits at position 7 hold NaN, infinity"):
        engine.decode_one_token(fork, 1)
    assert fork.length == 7
    close(engine.decode_one_token(cache, 8), torch_logits([*PROMPT, 8]))


def test_a_bad_logit_of_padding_is_nobodys_business(engine):
    cache = engine.new_cache()
    make_step = engine._make_step

    def spoiled(session, ids, positions, logits, arrays):
        step = make_step(session, ids, positions, logits, arrays)

        def run():
            step()
            logits[0, -1, 270:] = np.nan

        return run

    engine._make_step = spoiled
    engine.prefill(cache, PROMPT)
    engine.decode_one_token(cache, 3)


# --- buffers and threads ---


def test_a_step_reads_and_writes_the_very_arrays_it_was_given(tmp_path):
    session = open_artifact(tiny_file(tmp_path)).session
    ids, positions = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)
    logits = np.zeros((1, 1, TINY.vocab_size), np.float32)
    cache = Engine(session, TINY).new_cache()
    step = bind_shared_kv(session, ids, positions, logits, cache.arrays)
    for position, token in enumerate(PROMPT):
        ids[0, 0], positions[0, 0] = token, position
        step()
        close(logits[0, 0], torch_logits(PROMPT[: position + 1]))
    for array in cache.arrays:
        assert (array[:, :, : len(PROMPT)] != 0).any(axis=(0, 1, 3)).all()
        assert not array[:, :, len(PROMPT) :].any()


def test_what_is_bound_to_a_cache_goes_with_it(engine):
    cache = engine.new_cache()
    list(engine.generate(PROMPT, GREEDY, cache=cache))
    assert len(engine._decoders) == 1
    del cache
    assert len(engine._decoders) == 0


def test_threads_share_an_engine_and_each_gets_what_it_gets_alone(engine):
    requests = [(PROMPT[n:], SamplingParams(seed=n, max_new_tokens=30)) for n in range(4)]
    alone = [list(engine.generate(*request)) for request in requests]
    together = [[] for _ in requests]

    def work(n):
        together[n].extend(engine.generate(*requests[n]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert together == alone


def test_an_abandoned_generation_blocks_nobody(engine):
    abandoned = engine.generate(PROMPT, GREEDY)
    next(abandoned)
    assert list(engine.generate(PROMPT, GREEDY)) == torch_greedy(PROMPT, 12, engine.n_valid)
    assert next(abandoned) == torch_greedy(PROMPT, 2, engine.n_valid)[1]


def test_generations_in_threads_take_turns_token_by_token(engine):
    params = SamplingParams(temperature=0.0, max_new_tokens=30)
    make_step, ran = engine._make_step, []

    def noting(session, ids, positions, logits, arrays):
        step = make_step(session, ids, positions, logits, arrays)

        def run():
            ran.append(threading.current_thread().name)
            while len(ran) == 1 and not engine._lock.waiting:  # the other one has yet to come
                time.sleep(0.001)
            time.sleep(0.002)  # longer than a busy machine takes to wake a thread
            step()

        return run

    engine._make_step = noting
    threads = [
        threading.Thread(target=list, args=(engine.generate(PROMPT, params),), daemon=True) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    in_a_row = [len(list(group)) for _, group in groupby(ran)]
    assert len(ran) == 60
    assert max(in_a_row) < 10


def test_who_asks_in_between_sees_the_engine_free_before_each_call_and_may_end_the_work(engine):
    answers = iter([False, False, False, True])

    def cancelled():
        other = threading.Thread(target=list, args=(engine.generate(PROMPT, GREEDY),))
        other.start()
        other.join(30)
        assert not other.is_alive()
        return next(answers)

    assert len(list(engine.generate(PROMPT, GREEDY, halt=Halt(cancelled)))) == 3
