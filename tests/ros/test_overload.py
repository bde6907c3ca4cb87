"""What happens to goals that meet: policies, cancellation, deadlines and failures, on a slow model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from edgegpt_msgs.msg import ErrorCode

from .pair import generator_and_peer
from .peer import Goal, Peer, until

WHOLE = ("succeeded", "length", ErrorCode.OK)
N = 60  # tokens of a whole answer, 20 ms each
LONG = 200  # of one that something must happen beside, also on a busy machine


@pytest.fixture(scope="module")
def fail_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fail") / "now"


@pytest.fixture(scope="module")
def peer(model_file: Path, fail_file: Path) -> Iterator[Peer]:
    parameters = {"model": model_file, "max_new_tokens": N, "chunk_ms": 0, "queue_depth": 1}
    faults = {"step_ms": 20, "endless": 1, "fail": fail_file}
    with generator_and_peer(parameters, faults=faults) as (_, peer):
        yield peer


def under(peer: Peer, policy: str) -> None:
    """Bring the node under an overload policy."""
    assert peer.change("deactivate", "cleanup")
    assert peer.set(overload=policy)[0].successful
    assert peer.change("configure", "activate")


def at_work(peer: Peer, **options: object) -> Goal:
    goal = peer.goal("stop", **options)
    until(lambda: len(goal.feedback) > 1, "feedback")
    return goal


def came_before(first: Goal, second: Goal) -> bool:
    """Whether all of one answer came before the other one began, in the one order of the topic `tokens`."""
    first.chunks(), second.chunks()
    ids = [chunk.request_id for chunk in list(first.peer.tokens)]
    return max(n for n, of in enumerate(ids) if of == first.id.hex) < ids.index(second.id.hex)


def test_a_busy_node_rejects(peer: Peer) -> None:
    under(peer, "reject")
    first = at_work(peer)
    second = peer.goal("stop")
    assert second.end() == ("aborted", "error", ErrorCode.REJECTED)
    assert second.result().error == "another request is running and overload is 'reject'; try again later"
    assert not first.done
    assert peer.complete("stop").error_code == ErrorCode.REJECTED
    assert first.end() == WHOLE
    assert peer.goal("stop").end() == WHOLE


def test_a_busy_node_queues_until_the_queue_is_full(peer: Peer) -> None:
    under(peer, "queue")
    first, second = at_work(peer), peer.goal("stop")
    third = peer.goal("stop")
    assert third.end() == ("aborted", "error", ErrorCode.REJECTED)
    assert (first.end(), second.end()) == (WHOLE, WHOLE)
    assert second.result().stats.queue_ms > 100
    assert came_before(first, second)


def test_an_urgent_goal_overtakes_those_that_wait(peer: Peer) -> None:
    assert peer.change("deactivate", "cleanup")
    assert peer.set(overload="queue", queue_depth=2)[1].successful
    assert peer.change("configure", "activate")
    first = at_work(peer)
    patient, urgent = peer.goal("stop", max_new_tokens=3), peer.goal("stop", max_new_tokens=3, priority=5)
    assert [goal.end() for goal in (first, patient, urgent)] == [WHOLE] * 3
    assert came_before(first, urgent)
    assert came_before(urgent, patient)


def test_a_new_goal_preempts_and_the_old_one_ends_once_with_its_text(peer: Peer) -> None:
    under(peer, "preempt")
    before = peer.counted("preempted")
    first = at_work(peer)
    second = peer.goal("stop")
    assert first.end() == ("aborted", "cancelled", ErrorCode.PREEMPTED)
    result = first.result()
    assert result.error == "a newer request of priority 0 replaced this one"
    assert 1 < result.stats.completion_tokens < N
    chunks = first.chunks()
    assert result.text == "".join(chunk.text for chunk in chunks) != ""
    assert second.end() == WHOLE
    # Once: one result, one last chunk with nothing behind it, one more in the node's own count.
    assert came_before(first, second)
    assert first.chunks() == chunks
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert first.results == second.results == 1
    until(lambda: peer.counted("preempted") == before + 1, "one more preempted request")


def test_a_goal_of_lower_priority_does_not_preempt(peer: Peer) -> None:
    under(peer, "preempt")
    first = at_work(peer, priority=1)
    second = peer.goal("stop", max_new_tokens=3)
    assert (first.end(), second.end()) == (WHOLE, WHOLE)


def test_only_the_latest_of_those_that_wait_is_kept(peer: Peer) -> None:
    under(peer, "latest")
    first, second = at_work(peer), peer.goal("stop")
    third = peer.goal("stop", max_new_tokens=3)
    assert second.end() == ("aborted", "cancelled", ErrorCode.PREEMPTED)
    assert not first.done
    assert (first.end(), third.end()) == (WHOLE, WHOLE)


def test_cancelling_midway_gives_the_text_so_far(peer: Peer) -> None:
    under(peer, "queue")
    goal = at_work(peer, session="s", max_new_tokens=LONG)
    goal.cancel()
    assert goal.end() == ("canceled", "cancelled", ErrorCode.OK)
    text = "".join(chunk.text for chunk in goal.chunks())
    assert goal.result().text == text != ""
    assert 1 < goal.result().stats.completion_tokens < LONG
    again = peer.goal("stop", session="s", max_new_tokens=3)
    assert again.end() == WHOLE
    assert again.result().stats.cached_tokens == 0  # the session is as it was


def test_cancelling_a_goal_that_waits_ends_it_before_its_turn(peer: Peer) -> None:
    under(peer, "queue")
    first, second = at_work(peer), peer.goal("stop")
    second.cancel()
    assert second.end() == ("canceled", "cancelled", ErrorCode.OK)
    assert not first.done
    assert first.end() == WHOLE


@pytest.mark.alone
def test_a_deadline_ends_the_goal_with_what_there_is(peer: Peer) -> None:
    under(peer, "queue")
    goal = peer.goal("stop", deadline_ms=400.0)
    assert goal.end() == ("succeeded", "deadline", ErrorCode.OK)
    result = goal.result()
    assert 1 < result.stats.completion_tokens < N
    assert result.text == "".join(chunk.text for chunk in goal.chunks()) != ""
    assert result.stats.total_ms < 20 * N  # what the whole takes at least
    assert peer.complete("stop", deadline_ms=250.0).finish_reason == "deadline"


def test_a_deadline_that_passes_while_a_goal_waits_ends_it_without_a_turn(peer: Peer) -> None:
    under(peer, "queue")
    first = at_work(peer, max_new_tokens=LONG)
    second = peer.goal("stop", deadline_ms=100.0)
    assert second.end() == ("succeeded", "deadline", ErrorCode.OK)
    assert (second.result().text, second.result().stats.completion_tokens) == ("", 0)
    assert not first.done
    first.cancel()
    assert first.end()[0] == "canceled"


def test_every_other_door_answers_while_a_goal_is_at_work(peer: Peer) -> None:
    """The model works on no thread of the executor."""
    under(peer, "queue")
    goal = at_work(peer, max_new_tokens=LONG)
    assert peer.state() == "active"
    assert peer.get("overload") == ["queue"]
    assert peer.count("stop").error_code == ErrorCode.OK
    assert peer.complete("").error_code == ErrorCode.INVALID_REQUEST
    assert peer.goal("").end()[0] == "aborted"
    assert peer.diagnostics()["work"] == "busy"
    assert not goal.done
    goal.cancel()
    assert goal.end()[0] == "canceled"


def test_an_engine_error_midway_ends_that_goal_and_the_next_one_works(peer: Peer, fail_file: Path) -> None:
    under(peer, "queue")
    fail_file.touch()
    goal = peer.goal("stop", session="s")
    assert goal.end() == ("aborted", "error", ErrorCode.ENGINE)
    assert "injected by the test" in goal.result().error
    assert goal.result().text == "".join(chunk.text for chunk in goal.chunks()) != ""
    again = peer.goal("stop", session="s", max_new_tokens=3)
    assert again.end() == WHOLE
    assert again.result().stats.cached_tokens == 0


def test_sessions_in_a_tight_budget_of_bytes(peer: Peer) -> None:
    assert peer.change("deactivate", "cleanup")
    assert peer.set(session_bytes=1000)[0].successful
    assert peer.change("configure", "activate")
    try:
        goal = peer.goal("stop", session="s")
        assert goal.end() == ("aborted", "error", ErrorCode.INVALID_REQUEST)
        assert "session_bytes is 1000" in goal.result().error
    finally:
        assert peer.change("deactivate", "cleanup")
        assert peer.set(session_bytes=2**28)[0].successful
        assert peer.change("configure", "activate")
