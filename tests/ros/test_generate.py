"""The interfaces of one active node, and what they answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from edgegpt_msgs.msg import ErrorCode, GenerationOptions, ModelInfo

from .helpers.peer import Peer, until
from .helpers.process import GeneratorProcess
from .helpers.robot import generator_and_peer

DRIVE = "drive forward two metres"


@pytest.fixture(scope="module")
def pair(model_file: Path) -> Iterator[tuple[GeneratorProcess, Peer]]:
    with generator_and_peer({"model": model_file, "chunk_ms": 0}) as pair:
        yield pair


@pytest.fixture
def peer(pair: tuple[GeneratorProcess, Peer]) -> Iterator[Peer]:
    """A peer; after each test the node must still answer."""
    process, peer = pair
    yield peer
    assert process.process.poll() is None
    assert peer.complete(DRIVE).error_code == ErrorCode.OK


@pytest.mark.parametrize("prompt", [DRIVE, "find the 😀 mug", "naïve café 漢字", "e\u0301 \u200d \ufffd"])
def test_every_interface_gives_the_same_answer(peer: Peer, prompt: str) -> None:
    goal = peer.goal(prompt)
    status, _, code = goal.end()
    assert (status, code) == ("succeeded", ErrorCode.OK)
    text = goal.result().text
    assert peer.complete(prompt).text == text
    assert peer.say(prompt) == text
    if prompt == DRIVE:
        assert json.loads(text)["commands"]


def test_the_tokens_topic_and_the_result_hold_the_whole_text(peer: Peer) -> None:
    goal = peer.goal(DRIVE)
    text, chunks = goal.result().text, goal.chunks()
    assert "".join(chunk.text for chunk in chunks) == text
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    offsets = [len("".join(chunk.text for chunk in chunks[:n]).encode()) for n in range(len(chunks))]
    assert [chunk.byte_offset for chunk in chunks] == offsets
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    # ROS 2 may drop feedback; what has arrived is the same.
    whole = {chunk.index: chunk.text for chunk in chunks}
    assert {chunk.index: chunk.text for chunk in goal.feedback}.items() <= whole.items()


def test_a_request_may_ask_for_no_stream(peer: Peer) -> None:
    goal = peer.goal(DRIVE, stream=0)
    assert goal.result().text
    assert peer.goal(DRIVE, stream=1).chunks()
    assert not [chunk for chunk in peer.tokens if chunk.request_id == goal.id.hex]
    assert not goal.feedback


def test_the_stats_are_filled(peer: Peer) -> None:
    stats = peer.complete(DRIVE).stats
    assert stats.prompt_tokens > 0 < stats.completion_tokens
    assert 0 < stats.token_p50_ms <= stats.token_p99_ms <= stats.token_max_ms
    assert 0 < stats.prefill_ms <= stats.ttft_ms <= stats.total_ms


def test_options_and_session_reach_the_server(peer: Peer) -> None:
    text = peer.complete(DRIVE).text
    assert peer.complete(DRIVE, max_new_tokens=3).finish_reason == "length"
    stopped = peer.complete(DRIVE, stop=["forward"])
    assert (stopped.finish_reason, stopped.text) == ("stop", text.partition("forward")[0])
    drawn = [peer.complete(DRIVE, temperature=3.0, seed=seed, max_new_tokens=20).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    first, second = (peer.complete(DRIVE, session="s").stats for _ in range(2))
    assert (first.cached_tokens, first.prompt_tokens) < (second.cached_tokens, second.prompt_tokens)
    assert peer.count("stop", "s").remaining < peer.count("stop").remaining
    assert peer.complete(DRIVE).stats.prompt_tokens == first.prompt_tokens


def test_counting_gives_tokens_and_predicted_times(peer: Peer) -> None:
    counted = peer.count(DRIVE)
    assert counted.tokens == peer.complete(DRIVE).stats.prompt_tokens
    assert counted.tokens + counted.remaining == peer.latest(ModelInfo, "model_info", latched=True).capacity
    assert counted.predicted_ttft_ms > 0 < counted.predicted_token_ms
    assert peer.count("drive " * 1000).remaining < 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"schema": '{"type": "object"}'}, "schema"),
        ({"regex": "[0-9]+"}, "regex"),
        ({"choices": ["yes", "no"]}, "choices"),
        ({"temperature": -0.5}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"seed": -3}, "seed"),
        ({"stream": 2}, "stream"),
        ({"deadline_ms": float("nan")}, "deadline_ms"),
    ],
    ids=str,
)
def test_an_invalid_or_reserved_option_is_refused_by_name(
    peer: Peer, options: dict[str, Any], name: str
) -> None:
    goal = peer.goal(DRIVE, **options)
    assert goal.end() == ("aborted", "error", ErrorCode.INVALID_REQUEST)
    assert name in goal.result().error
    response = peer.complete(DRIVE, **options)
    assert (response.error_code, response.error) == (ErrorCode.INVALID_REQUEST, goal.result().error)


@pytest.mark.parametrize(
    "prompt",
    ["", " \n", "drive " * 2000, "drive forward " * 75_000],
    ids=["empty", "blank", "too-long", "megabyte"],
)
def test_a_prompt_without_an_answer_is_refused_by_every_interface(peer: Peer, prompt: str) -> None:
    goal = peer.goal(prompt)
    assert goal.end() == ("aborted", "error", ErrorCode.INVALID_REQUEST)
    assert goal.result().error
    assert [chunk.text for chunk in goal.chunks()] == [""]
    assert peer.complete(prompt).error_code == ErrorCode.INVALID_REQUEST
    assert peer.say(prompt) == ""
    if len(prompt) > 1e6:
        assert peer.count(prompt).error_code == ErrorCode.INVALID_REQUEST


def test_cancelling_a_goal_that_has_ended_does_no_harm(peer: Peer) -> None:
    goal = peer.goal(DRIVE)
    goal.result()
    goal.cancel()
    assert goal.end()[0] == "succeeded"


def test_a_late_subscriber_gets_the_model_info(peer: Peer, model_file: Path) -> None:
    info = peer.latest(ModelInfo, "model_info", latched=True)
    assert (info.path, info.name, info.bytes) == (str(model_file), model_file.stem, model_file.stat().st_size)
    assert info.parameters > 0 < info.kv_cache_bytes
    assert info.options.max_new_tokens > 0
    assert info.options.seed == GenerationOptions.SEED_FRESH
    assert (list(info.options.stop), info.options.deadline_ms, info.options.stream) == ([""], 0.0, 1)


@pytest.mark.alone
def test_diagnostics_come_every_second(peer: Peer) -> None:
    heard: list[DiagnosticArray] = []
    subscription = peer.node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
    until(lambda: len(heard) > 5, "six of them")
    peer.destroy(peer.node.destroy_subscription, subscription)
    # By the node's own clock, and over several: one may be late on a busy machine, the next one makes up.
    first, last = (heard[n].header.stamp.sec + heard[n].header.stamp.nanosec / 1e9 for n in (0, 5))
    assert 0.8 < (last - first) / 5 < 1.3


def test_diagnostics_count_and_measure(peer: Peer) -> None:
    status = peer.status()
    assert (status.name, status.level) == ("edgegpt: generation", DiagnosticStatus.OK)
    outcomes = {"eos": {}, "length": {"max_new_tokens": 3}, "stop": {"stop": ["forward"]}}
    before = peer.diagnostics()
    for options in outcomes.values():
        assert peer.complete(DRIVE, **options).error_code == ErrorCode.OK
    assert peer.complete("").error_code == ErrorCode.INVALID_REQUEST

    def grew_by_one(status: dict[str, str]) -> bool:
        names = [f"requests.{outcome}" for outcome in (*outcomes, "invalid")]
        return all(int(status[name]) == int(before[name]) + 1 for name in names)

    after = until(lambda: grew_by_one(status := peer.diagnostics()) and status, "one more of each outcome")
    assert (after["state"], after["work"], after["queue"]) == ("active", "idle", "0")
    assert float(after["rss_mb"]) > 10
    assert 0 < float(after["ttft_p50_ms"]) <= float(after["ttft_p99_ms"])
    assert 0 < float(after["token_p50_ms"]) <= float(after["token_p99_ms"])
