"""edgegpt.serving.scheduler: which request runs, waits, is refused or preempted under each policy."""

import threading
from typing import Any

import pytest
from conftest import Refused
from helpers.scripted import Script
from hypothesis import given, settings, strategies as st

from edgegpt.errors import ConfigError, OverloadedError
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.serving.request import Request, RequestHandle
from edgegpt.serving.scheduler import Overload, Scheduler

STREAM = Script("go", "ab").generator.stream("go")


def request(priority: int = 0, deadline_ms: float | None = None) -> RequestHandle:
    wanted = Request("go", SamplingParams(deadline_ms=deadline_ms), "", priority, 0.0)
    return RequestHandle(wanted, STREAM, threading.Event(), None, lambda handle: None)


def order(scheduler: Scheduler) -> list[RequestHandle]:
    """The requests that are left, in the order in which they run."""
    handles = []
    while scheduler.running is not None:
        handles.append(scheduler.running)
        scheduler.advance()
    return handles


def filled(overload: Overload, depth: int, *priorities: int) -> tuple[Scheduler, list[RequestHandle]]:
    scheduler = Scheduler(overload, depth)
    handles = [request(priority) for priority in priorities]
    for each in handles:
        assert scheduler.submit(each) == []
    return scheduler, handles


@pytest.mark.parametrize("overload", ["reject", "queue", "preempt", "latest"])
@pytest.mark.parametrize("depth", [0, 1])
def test_no_request_is_refused_while_none_runs(overload: Overload, depth: int) -> None:
    scheduler, [first] = filled(overload, depth, 0)
    assert scheduler.running is first
    scheduler.advance()
    assert scheduler.running is None
    assert scheduler.submit(request(-1)) == []


def test_reject_refuses_while_one_runs_whatever_the_priority(refused: Refused) -> None:
    scheduler, [running] = filled("reject", 5, 0)
    with refused(OverloadedError, "reject"):
        scheduler.submit(request(9))
    assert order(scheduler) == [running]


def test_queue_refuses_when_queue_depth_requests_wait_whatever_the_priority(refused: Refused) -> None:
    scheduler, handles = filled("queue", 2, 0, 0, 0)
    with refused(OverloadedError, "queue_depth", 2):
        scheduler.submit(request(9))
    assert order(scheduler) == handles


@pytest.mark.parametrize("overload", ["queue", "preempt"])
def test_a_higher_priority_overtakes_waiting_requests_and_equals_keep_their_order(overload: Overload) -> None:
    scheduler, _ = filled(overload, 9, 5, 0, 1, 0, 1, -1, 2)
    assert [each.request.priority for each in order(scheduler)] == [5, 2, 1, 1, 0, 0, -1]
    scheduler, handles = filled(overload, 9, 5, 1, 1, 1)
    assert order(scheduler) == handles


@pytest.mark.parametrize("priority", [0, 1])
def test_preempt_ends_the_running_request_for_an_equal_or_higher_priority(priority: int) -> None:
    scheduler, [running, waiting] = filled("preempt", 1, 0, -1)
    new = request(priority)
    assert scheduler.submit(new) == [running]
    assert order(scheduler) == [running, new, waiting]


def test_preempt_lets_a_lower_priority_wait_and_refuses_it_when_the_queue_is_full() -> None:
    scheduler, handles = filled("preempt", 1, 5, 0)
    with pytest.raises(OverloadedError):
        scheduler.submit(request(1))
    assert order(scheduler) == handles


def test_preempt_before_the_switch_is_done_ends_the_one_that_was_to_be_next() -> None:
    scheduler, [running] = filled("preempt", 1, 0)
    second, third, urgent = request(), request(), request(5)
    assert scheduler.submit(second) == [running]
    assert scheduler.submit(third) == [second]
    assert scheduler.submit(urgent) == [third]
    modest = request(4)
    assert scheduler.submit(modest) == []
    assert order(scheduler) == [running, urgent, modest]


def test_preempt_goes_before_its_waiting_equals_since_it_replaces_the_running_request() -> None:
    scheduler, [_, *waiting] = filled("preempt", 2, 5, 0, 0)
    scheduler.advance()
    new = request()
    assert scheduler.submit(new) == [waiting[0]]
    assert order(scheduler) == [waiting[0], new, waiting[1]]


def test_latest_replaces_waiting_requests_and_not_the_running_one() -> None:
    scheduler, [running] = filled("latest", 1, 0)
    handles = [request() for _ in range(3)]
    assert [scheduler.submit(each) for each in handles] == [[], [handles[0]], [handles[1]]]
    assert order(scheduler) == [running, handles[2]]


def test_latest_does_not_replace_a_higher_priority() -> None:
    scheduler, [running, urgent] = filled("latest", 2, 0, 5)
    first, second = request(), request()
    assert scheduler.submit(first) == []
    assert scheduler.submit(second) == [first]
    assert order(scheduler) == [running, urgent, second]
    scheduler, _ = filled("latest", 1, 0, 5)
    with pytest.raises(OverloadedError):
        scheduler.submit(first)


def test_requests_whose_deadline_has_passed_leave_and_the_next_deadline_is_known() -> None:
    scheduler, _ = filled("queue", 9, 0)
    assert scheduler.next_deadline == float("inf")
    late, soon, never = request(deadline_ms=2000), request(deadline_ms=1000), request()
    for each in (late, soon, never):
        scheduler.submit(each)
    assert scheduler.next_deadline == 1.0
    assert scheduler.remove_expired(0.5) == []
    assert scheduler.remove_expired(1.0) == [soon]
    assert scheduler.next_deadline == 2.0
    assert scheduler.remove_waiting() == [late, never]
    assert scheduler.next_deadline == float("inf")


@pytest.mark.parametrize(
    ("overload", "depth", "value"), [("drop", 1, "'drop'"), ("queue", -1, -1), ("queue", 1.0, 1.0)]
)
def test_an_option_outside_its_range_is_refused(
    refused: Refused, overload: Any, depth: Any, value: object
) -> None:
    with refused(ConfigError, value):
        Scheduler(overload, depth)


@settings(max_examples=50)
@given(
    st.sampled_from(["reject", "queue", "preempt", "latest"]),
    st.integers(0, 3),
    st.lists(st.one_of(st.integers(-2, 2), st.sampled_from(["advance", "remove"])), max_size=20),
)
def test_every_request_is_in_one_place_and_the_queue_is_bounded_and_in_order(
    overload: Overload, depth: int, events: list[Any]
) -> None:
    scheduler = Scheduler(overload, depth)
    inside: list[RequestHandle] = []
    for event in events:
        if event == "advance":
            if scheduler.running is not None:
                inside.remove(scheduler.running)
                scheduler.advance()
        elif event == "remove":
            if inside and scheduler.remove(inside[-1]):
                inside.pop()
        else:
            new = request(event)
            try:
                displaced = scheduler.submit(new)
            except OverloadedError:
                assert len(inside) > (0 if overload == "reject" else depth)
            else:
                inside = [
                    *(each for each in inside if each not in displaced or each is scheduler.running),
                    new,
                ]
        waiting = scheduler.waiting
        assert len(scheduler) == len(waiting) <= depth + (overload == "preempt")
        assert sorted(map(id, inside)) == sorted(map(id, [*filter(None, [scheduler.running]), *waiting]))
        priorities = [each.request.priority for each in waiting]
        assert priorities == sorted(priorities, reverse=True)
