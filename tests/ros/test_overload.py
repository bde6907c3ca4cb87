"""Goals that arrive together on a slow model: how the server's outcomes become status and error code.

The policies themselves are tests of the scheduler, tests/test_request_queue.py and test_server.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from edgegpt_msgs.msg import ErrorCode

from .helpers.peer import Goal, Peer, until
from .helpers.robot import generator_and_peer

WHOLE = ("succeeded", "length", ErrorCode.OK)
PREEMPTED = ("aborted", "cancelled", ErrorCode.PREEMPTED)
REJECTED = ("aborted", "error", ErrorCode.REJECTED)
N = 60  # tokens of a whole answer, 20 ms each
LONG = 200  # tokens of one during which something must happen, also on a busy machine


@pytest.fixture(scope="module")
def fail_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fail") / "now"


@pytest.fixture(scope="module")
def peer(model_file: Path, fail_file: Path) -> Iterator[Peer]:
    parameters = {"model": model_file, "max_new_tokens": N, "chunk_ms": 0, "queue_depth": 1}
    faults = {"step_ms": 20, "endless": 1, "fail": fail_file}
    with generator_and_peer(parameters, faults=faults) as (_, peer):
        yield peer


def configure(peer: Peer, **parameters: object) -> None:
    """Configure the node again, with these parameters."""
    assert peer.change("deactivate", "cleanup")
    assert all(result.successful for result in peer.set(**parameters))
    assert peer.change("configure", "activate")


def running(peer: Peer, **options: object) -> Goal:
    """Send a goal, and wait for its first chunks."""
    goal = peer.goal("stop", **options)
    until(lambda: len(goal.feedback) > 1, "feedback")
    return goal


def came_before(first: Goal, second: Goal) -> bool:
    """Return whether all chunks of one answer came before those of the other, on the topic `tokens`."""
    first.chunks(), second.chunks()
    ids = [chunk.request_id for chunk in list(first.peer.tokens)]
    return max(n for n, of in enumerate(ids) if of == first.id.hex) < ids.index(second.id.hex)


def test_a_busy_node_rejects_goals_and_service_calls(peer: Peer) -> None:
    configure(peer, overload="reject")
    first = running(peer)
    second = peer.goal("stop")
    assert second.end() == REJECTED
    assert "reject" in second.result().error
    assert peer.complete("stop").error_code == ErrorCode.REJECTED
    assert not first.done
    assert first.end() == WHOLE
    assert peer.goal("stop").end() == WHOLE


def test_a_busy_node_queues_by_priority_until_the_queue_is_full(peer: Peer) -> None:
    configure(peer, overload="queue", queue_depth=2)
    first = running(peer)
    patient, urgent = peer.goal("stop", max_new_tokens=3), peer.goal("stop", max_new_tokens=3, priority=5)
    assert peer.goal("stop").end() == REJECTED
    assert [goal.end() for goal in (first, patient, urgent)] == [WHOLE] * 3
    assert patient.result().stats.queue_ms > 100
    assert came_before(first, urgent)
    assert came_before(urgent, patient)


def test_a_preempted_goal_ends_once_with_its_text(peer: Peer) -> None:
    configure(peer, overload="preempt")
    before = peer.counted("preempted")
    first = running(peer)
    second = peer.goal("stop")
    assert first.end() == PREEMPTED
    result = first.result()
    assert result.error
    assert 1 < result.stats.completion_tokens < N
    chunks = first.chunks()
    assert result.text == "".join(chunk.text for chunk in chunks) != ""
    assert second.end() == WHOLE
    # Once: one result, one last chunk with none after it, one more in the node's own count.
    assert came_before(first, second)
    assert first.chunks() == chunks
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert first.results == second.results == 1
    until(lambda: peer.counted("preempted") == before + 1, "one more preempted request")


def test_only_the_latest_waiting_goal_is_kept(peer: Peer) -> None:
    configure(peer, overload="latest")
    first, second = running(peer), peer.goal("stop")
    third = peer.goal("stop", max_new_tokens=3)
    assert second.end() == PREEMPTED
    assert not first.done
    assert (first.end(), third.end()) == (WHOLE, WHOLE)


def test_a_cancelled_goal_has_its_text_so_far_and_leaves_its_session(peer: Peer) -> None:
    configure(peer, overload="queue")
    goal, waiting = running(peer, session="s", max_new_tokens=LONG), peer.goal("stop")
    for cancelled in (waiting, goal):
        cancelled.cancel()
        assert cancelled.end() == ("canceled", "cancelled", ErrorCode.OK)
    assert goal.result().text == "".join(chunk.text for chunk in goal.chunks()) != ""
    assert 1 < goal.result().stats.completion_tokens < LONG
    again = peer.goal("stop", session="s", max_new_tokens=3)
    assert again.end() == WHOLE
    assert again.result().stats.cached_tokens == 0


@pytest.mark.alone
def test_a_goal_that_meets_its_deadline_succeeds_with_the_text_so_far(peer: Peer) -> None:
    configure(peer, overload="queue")
    goal = peer.goal("stop", deadline_ms=400.0)
    assert goal.end() == ("succeeded", "deadline", ErrorCode.OK)
    result = goal.result()
    assert 1 < result.stats.completion_tokens < N
    assert result.text == "".join(chunk.text for chunk in goal.chunks()) != ""
    assert result.stats.total_ms < 20 * N  # the minimum for the whole answer
    assert peer.complete("stop", deadline_ms=250.0).finish_reason == "deadline"


def test_every_interface_answers_while_a_goal_runs(peer: Peer) -> None:
    """No thread of the executor runs the model."""
    configure(peer, overload="queue")
    goal = running(peer, max_new_tokens=LONG)
    expired = peer.goal("stop", deadline_ms=100.0)
    assert expired.end() == ("succeeded", "deadline", ErrorCode.OK)
    assert (expired.result().text, expired.result().stats.completion_tokens) == ("", 0)
    assert peer.state() == "active"
    assert peer.get("overload") == ["queue"]
    assert peer.count("stop").error_code == ErrorCode.OK
    assert peer.complete("").error_code == ErrorCode.INVALID_REQUEST
    assert peer.goal("").end()[0] == "aborted"
    assert peer.diagnostics()["work"] == "busy"
    assert not goal.done
    goal.cancel()
    assert goal.end()[0] == "canceled"


def test_an_engine_error_ends_its_goal_and_the_next_one_works(peer: Peer, fail_file: Path) -> None:
    configure(peer, overload="queue")
    fail_file.touch()
    goal = peer.goal("stop", session="s")
    assert goal.end() == ("aborted", "error", ErrorCode.ENGINE)
    assert "injected" in goal.result().error
    assert goal.result().text == "".join(chunk.text for chunk in goal.chunks()) != ""
    again = peer.goal("stop", session="s", max_new_tokens=3)
    assert again.end() == WHOLE
    assert again.result().stats.cached_tokens == 0


def test_a_session_larger_than_session_bytes_is_refused(peer: Peer) -> None:
    configure(peer, session_bytes=1000)
    goal = peer.goal("stop", session="s")
    assert goal.end() == ("aborted", "error", ErrorCode.INVALID_REQUEST)
    assert "1000" in goal.result().error
    configure(peer, session_bytes=2**28)
