import threading

import pytest
from hypothesis import given, settings, strategies as st

from edgegpt.errors import ConfigError, OverloadedError
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.serving.request import Request, RequestHandle
from edgegpt.serving.scheduler import Scheduler


def ticket(priority=0, deadline_ms=None):
    request = Request("go", SamplingParams(deadline_ms=deadline_ms), "", priority, 0.0)
    return RequestHandle(request, None, threading.Event(), None, lambda ticket: None)


def order(queue):
    """The tickets that are left, in the order in which they run."""
    tickets = []
    while queue.running is not None:
        tickets.append(queue.running)
        queue.advance()
    return tickets


def filled(overload, depth, *priorities):
    queue = Scheduler(overload, depth)
    tickets = [ticket(priority) for priority in priorities]
    for each in tickets:
        assert queue.offer(each) == []
    return queue, tickets


@pytest.mark.parametrize("overload", ["reject", "queue", "preempt", "latest"])
@pytest.mark.parametrize("depth", [0, 1])
def test_nothing_is_refused_while_none_is_at_work(overload, depth):
    queue, [first] = filled(overload, depth, 0)
    assert queue.running is first
    queue.advance()
    assert queue.running is None
    assert queue.offer(ticket(-1)) == []


def test_reject_refuses_while_one_is_at_work_whatever_the_priority():
    queue, [running] = filled("reject", 5, 0)
    with pytest.raises(OverloadedError, match="at work and overload is 'reject'"):
        queue.offer(ticket(9))
    assert order(queue) == [running]


def test_queue_refuses_when_queue_depth_requests_wait_whatever_the_priority():
    queue, tickets = filled("queue", 2, 0, 0, 0)
    with pytest.raises(OverloadedError, match="2 requests wait already and queue_depth is 2"):
        queue.offer(ticket(9))
    assert order(queue) == tickets


@pytest.mark.parametrize("overload", ["queue", "preempt"])
def test_a_higher_priority_overtakes_those_that_wait_and_equals_keep_their_order(overload):
    queue, _ = filled(overload, 9, 5, 0, 1, 0, 1, -1, 2)
    assert [each.request.priority for each in order(queue)] == [5, 2, 1, 1, 0, 0, -1]
    queue, tickets = filled(overload, 9, 5, 1, 1, 1)
    assert order(queue) == tickets


@pytest.mark.parametrize("priority", [0, 1])
def test_preempt_ends_the_one_at_work_for_an_equal_or_higher_priority(priority):
    queue, [running, waiting] = filled("preempt", 1, 0, -1)
    new = ticket(priority)
    assert queue.offer(new) == [running]
    assert order(queue) == [running, new, waiting]


def test_preempt_lets_a_lower_priority_wait_and_refuses_it_when_the_queue_is_full():
    queue, tickets = filled("preempt", 1, 5, 0)
    with pytest.raises(OverloadedError):
        queue.offer(ticket(1))
    assert order(queue) == tickets


def test_preempt_before_the_switch_is_done_ends_the_one_that_was_to_be_next():
    queue, [running] = filled("preempt", 1, 0)
    second, third, urgent = ticket(), ticket(), ticket(5)
    assert queue.offer(second) == [running]
    assert queue.offer(third) == [second]
    assert queue.offer(urgent) == [third]
    modest = ticket(4)
    assert queue.offer(modest) == []
    assert order(queue) == [running, urgent, modest]


def test_preempt_goes_before_its_equals_that_wait_since_it_takes_the_place_of_the_one_at_work():
    queue, [_, *waiting] = filled("preempt", 2, 5, 0, 0)
    queue.advance()
    new = ticket()
    assert queue.offer(new) == [waiting[0]]
    assert order(queue) == [waiting[0], new, waiting[1]]


def test_latest_replaces_those_that_wait_and_not_the_one_at_work():
    queue, [running] = filled("latest", 1, 0)
    tickets = [ticket() for _ in range(3)]
    assert [queue.offer(each) for each in tickets] == [[], [tickets[0]], [tickets[1]]]
    assert order(queue) == [running, tickets[2]]


def test_latest_does_not_replace_a_higher_priority():
    queue, [running, urgent] = filled("latest", 2, 0, 5)
    first, second = ticket(), ticket()
    assert queue.offer(first) == []
    assert queue.offer(second) == [first]
    assert order(queue) == [running, urgent, second]
    queue, _ = filled("latest", 1, 0, 5)
    with pytest.raises(OverloadedError):
        queue.offer(first)


def test_those_whose_deadline_has_passed_leave_and_the_next_deadline_is_known():
    queue, _ = filled("queue", 9, 0)
    assert queue.next_deadline == float("inf")
    late, soon, never = ticket(deadline_ms=2000), ticket(deadline_ms=1000), ticket()
    for each in (late, soon, never):
        queue.offer(each)
    assert queue.next_deadline == 1.0
    assert queue.remove_expired(0.5) == []
    assert queue.remove_expired(1.0) == [soon]
    assert queue.next_deadline == 2.0
    assert queue.remove_waiting() == [late, never]
    assert queue.next_deadline == float("inf")


@pytest.mark.parametrize(
    ("overload", "depth", "words"),
    [
        ("drop", 1, "overload must be one of reject, queue, preempt, latest, got 'drop'"),
        ("queue", -1, "queue_depth must be a whole number of at least 0, got -1"),
        ("queue", 1.0, "queue_depth must be a whole number of at least 0, got 1.0"),
    ],
)
def test_an_option_outside_its_range_is_refused(overload, depth, words):
    with pytest.raises(ConfigError, match=words):
        Scheduler(overload, depth)


@settings(max_examples=50)
@given(
    st.sampled_from(["reject", "queue", "preempt", "latest"]),
    st.integers(0, 3),
    st.lists(st.one_of(st.integers(-2, 2), st.sampled_from(["advance", "remove"])), max_size=20),
)
def test_every_request_is_in_one_place_and_the_queue_is_bounded_and_in_order(overload, depth, events):
    queue = Scheduler(overload, depth)
    inside: list[RequestHandle] = []
    for event in events:
        if event == "advance":
            if queue.running is not None:
                inside.remove(queue.running)
                queue.advance()
        elif event == "remove":
            if inside and queue.remove(inside[-1]):
                inside.pop()
        else:
            new = ticket(event)
            try:
                displaced = queue.offer(new)
            except OverloadedError:
                assert len(inside) > (0 if overload == "reject" else depth)
            else:
                inside = [*(each for each in inside if each not in displaced or each is queue.running), new]
        waiting = queue._waiting
        assert len(queue) == len(waiting) <= depth + (overload == "preempt")
        assert sorted(map(id, inside)) == sorted(map(id, [*filter(None, [queue.running]), *waiting]))
        priorities = [each.request.priority for each in waiting]
        assert priorities == sorted(priorities, reverse=True)
