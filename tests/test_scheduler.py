"""edgegpt.serving.scheduler: which request runs, waits, is refused or preempted under each policy."""

import threading
from typing import Any, get_args

import pytest
from conftest import Refused
from helpers.scripted import Script
from hypothesis import given, settings, strategies as st

from edgegpt.errors import ConfigError, OverloadedError
from edgegpt.runtime import SamplingParams
from edgegpt.serving import Overload, RequestHandle
from edgegpt.serving.request import Request
from edgegpt.serving.scheduler import Scheduler

STREAM = Script("go", "ab").generator.stream("go")
OVERLOADS = get_args(Overload)
REFUSED = None


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
    assert [scheduler.submit(each) for each in handles] == [[] for _ in handles]
    return scheduler, handles


@pytest.mark.parametrize(
    ("overload", "depth", "priorities", "new", "preempted", "left"),
    [
        *((overload, depth, [], -1, [], [0]) for overload in OVERLOADS for depth in (0, 1)),
        ("reject", 5, [0], 9, REFUSED, [0]),
        ("queue", 2, [0, 0, 0], 9, REFUSED, [0, 1, 2]),
        *((overload, 9, [5, 0, 1, 0, 1, -1], 2, [], [0, 6, 2, 4, 1, 3, 5]) for overload in OVERLOADS[1:3]),
        *((overload, 9, [5, 1, 1], 1, [], [0, 1, 2, 3]) for overload in OVERLOADS[1:3]),
        *(("preempt", 1, [0, -1], priority, [0], [0, 2, 1]) for priority in (0, 1)),
        ("preempt", 1, [5, 0], 1, REFUSED, [0, 1]),
        ("latest", 1, [0, 0], 0, [1], [0, 2]),
        ("latest", 2, [0, 5, 0], 0, [2], [0, 1, 3]),
        ("latest", 1, [0, 5], 0, REFUSED, [0, 1]),
    ],
)
def test_a_new_request_preempts_waits_or_is_refused_by_the_policy(
    refused: Refused,
    overload: Overload,
    depth: int,
    priorities: list[int],
    new: int,
    preempted: list[int] | None,
    left: list[int],
) -> None:
    scheduler, handles = filled(overload, depth, *priorities)
    handles.append(request(new))
    if preempted is REFUSED:
        with refused(OverloadedError, "reject" if overload == "reject" else f"queue_depth is {depth}"):
            scheduler.submit(handles[-1])
    else:
        assert scheduler.submit(handles[-1]) == [handles[n] for n in preempted]
    assert order(scheduler) == [handles[n] for n in left]


def test_preempt_before_the_switch_is_done_ends_the_one_that_was_to_be_next() -> None:
    scheduler, [running] = filled("preempt", 1, 0)
    second, third, urgent, modest = request(), request(), request(5), request(4)
    assert scheduler.submit(second) == [running]
    assert scheduler.submit(third) == [second]
    assert scheduler.submit(urgent) == [third]
    assert scheduler.submit(modest) == []
    assert order(scheduler) == [running, urgent, modest]


def test_preempt_goes_before_its_waiting_equals_since_it_replaces_the_running_request() -> None:
    scheduler, [_, *waiting] = filled("preempt", 2, 5, 0, 0)
    scheduler.advance()
    new = request()
    assert scheduler.submit(new) == [waiting[0]]
    assert order(scheduler) == [waiting[0], new, waiting[1]]


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
    st.sampled_from(OVERLOADS),
    st.integers(0, 3),
    st.lists(st.one_of(st.integers(-2, 2), st.sampled_from(["advance", "remove"])), max_size=20),
)
def test_every_request_is_in_one_place_of_an_ordered_queue(
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
                kept = [each for each in inside if each not in displaced or each is scheduler.running]
                inside = [*kept, new]
        waiting = scheduler.waiting
        assert len(scheduler) == len(waiting) <= depth + (overload == "preempt")
        assert sorted(map(id, inside)) == sorted(map(id, [*filter(None, [scheduler.running]), *waiting]))
        priorities = [each.request.priority for each in waiting]
        assert priorities == sorted(priorities, reverse=True)
