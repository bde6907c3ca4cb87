"""Who may wait for an answer, and where: any thread, a callback of the robot's executor, not `on_text`."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from edgegpt_ros.client import Answer, ClientError, GeneratorClient, NoServerError, Pending
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from .peer import SOON
from .robot import robot_node, slow_generator, wait_until_answered
from .workspace import own_domain


def test_many_threads_get_each_its_own_answers(client: GeneratorClient) -> None:
    threads, each = 16, 4
    together = threading.Barrier(threads)

    def ask(number: int) -> list[int]:
        together.wait(SOON)
        tokens = 1 + number % 4
        return [
            client.generate("stop", max_new_tokens=tokens, timeout_s=SOON).usage.completion_tokens
            for _ in range(each)
        ]

    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(ask, range(threads)))
    assert answers == [[1 + number % 4] * each for number in range(threads)]


def test_many_quick_requests_of_one_thread_are_all_answered(client: GeneratorClient) -> None:
    pending = [client.start("stop", max_new_tokens=1) for _ in range(32)]
    assert all(p.result(SOON).usage.completion_tokens == 1 for p in pending)


def generate(client: GeneratorClient) -> Answer:
    return client.generate("stop", max_new_tokens=3, timeout_s=SOON)


def stream(client: GeneratorClient) -> Answer:
    pending = client.start("stop", max_new_tokens=3)
    assert "".join(pending) == pending.result(0).text
    return pending.result(0)


def cancel(client: GeneratorClient) -> Answer:
    pending = client.start("stop")
    next(iter(pending))
    pending.cancel()
    return pending.result(SOON)


@pytest.mark.parametrize(("ask", "reason"), [(generate, "length"), (stream, "length"), (cancel, "cancelled")])
def test_a_callback_of_the_robots_executor_may_wait(
    client: GeneratorClient, robot: Node, ask: Callable[[GeneratorClient], Answer], reason: str
) -> None:
    answers = in_callback(robot, lambda: ask(client))
    assert answers.finish_reason == reason


def test_a_callback_may_make_a_client_and_close_it(client: GeneratorClient, robot: Node) -> None:
    def make_and_close() -> Answer:
        with GeneratorClient(robot) as other:
            wait_until_answered(other)
            return generate(other)

    assert in_callback(robot, make_and_close).finish_reason == "length"


def in_callback(node: Node, work: Callable[[], Any]) -> Any:
    """What `work` gives in a callback of the node's only executor thread."""
    results: list[Any] = []

    def callback() -> None:
        timer.cancel()
        results.append(work())

    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    timer = node.create_timer(0.01, callback)
    end = time.monotonic() + SOON
    while not results and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
    node.destroy_timer(timer)
    executor.remove_node(node)
    executor.shutdown()
    return results[0]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_what_on_text_raises_does_not_cost_the_answer(
    client: GeneratorClient, error: type[BaseException]
) -> None:
    heard = []

    def fail(text: str) -> None:
        heard.append(text)
        raise error("injected by the test")

    assert client.generate("stop", max_new_tokens=8, on_text=fail, timeout_s=SOON).text
    assert len(heard) == 1
    assert generate(client).finish_reason == "length"  # its thread lives


WAITING = {
    "generate": lambda client, pending: client.generate("stop"),
    "result": lambda client, pending: pending.result(),
    "the stream": lambda client, pending: list(pending),
    "close": lambda client, pending: client.close(),
}


@pytest.mark.parametrize("what", WAITING)
def test_what_would_wait_for_ever_inside_on_text_is_refused(client: GeneratorClient, what: str) -> None:
    refused: list[ClientError] = []
    mine: list[Pending] = []
    known = threading.Event()

    def on_text(text: str) -> None:
        known.wait(SOON)
        try:
            WAITING[what](client, mine[0])
        except ClientError as error:
            refused.append(error)

    mine.append(client.start("stop", max_new_tokens=4, on_text=on_text))
    known.set()
    assert mine[0].result(SOON).finish_reason == "length"
    assert str(refused[0]).startswith(f"{what} would wait for ever inside on_text")
    assert generate(client).finish_reason == "length"  # it lives


def test_on_text_may_start_another_request_and_cancel_its_own(client: GeneratorClient) -> None:
    started: list[Pending] = []
    mine: list[Pending] = []
    known = threading.Event()

    def on_text(text: str) -> None:
        known.wait(SOON)
        if not started:
            started.append(client.start("stop", max_new_tokens=2))
            mine[0].cancel()

    mine.append(client.start("stop", on_text=on_text))
    known.set()
    assert mine[0].result(SOON).finish_reason == "cancelled"
    assert started[0].result(SOON).usage.completion_tokens == 2


def test_no_lock_is_held_while_on_text_is_called(client: GeneratorClient) -> None:
    """Another thread may do with the request what it likes meanwhile."""
    cancelled = threading.Event()
    mine: list[Pending] = []
    known = threading.Event()

    def on_text(text: str) -> None:
        known.wait(SOON)
        canceller = threading.Thread(target=lambda: (mine[0].cancel(), cancelled.set()))
        canceller.start()
        assert cancelled.wait(SOON)

    mine.append(client.start("stop", on_text=on_text))
    known.set()
    assert mine[0].result(SOON).finish_reason == "cancelled"
    assert cancelled.is_set()


def test_closing_ends_the_wait_of_every_thread(client: GeneratorClient, robot: Node) -> None:
    other = GeneratorClient(robot)
    wait_until_answered(other)
    grows = threading.Event()
    pending = other.start("stop", max_new_tokens=150, on_text=lambda _: grows.set())
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(pending.result), pool.submit(list, pending), pool.submit(pending.result, SOON)]
        assert grows.wait(SOON)
        other.close()
        for future in waiting:
            with pytest.raises(NoServerError, match="the client was closed"):
                future.result(SOON)
    with pytest.raises(NoServerError, match="the client was closed; make a new one"):
        other.start("stop")
    with pytest.raises(NoServerError, match="the client was closed; make a new one"):
        other.generate("stop")


def test_closing_twice_and_from_two_threads_is_harmless(client: GeneratorClient, robot: Node) -> None:
    other = GeneratorClient(robot)
    with ThreadPoolExecutor(2) as pool:
        for closed in [pool.submit(other.close), pool.submit(other.close)]:
            closed.result(SOON)
    other.close()
    with pytest.raises(NoServerError, match="the client was closed"):
        other.wait_for_server(1)


def test_closing_while_others_wait_for_a_node_and_send_to_it(robot: Node) -> None:
    other = GeneratorClient(robot, action="elsewhere/generate")

    def send() -> None:
        while True:
            other.start("stop")

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(other.wait_for_server), pool.submit(other.generate, "stop"), pool.submit(send)]
        time.sleep(0.3)
        other.close()
        for future in waiting:
            with pytest.raises(NoServerError, match="the client was closed"):
                future.result(SOON)


def test_a_context_that_is_shut_down_ends_the_wait(client: GeneratorClient, slow_domain: int) -> None:
    with robot_node(slow_domain) as node, GeneratorClient(node) as other:
        wait_until_answered(other)
        pending = other.start("stop", max_new_tokens=150)
        assert next(iter(pending))
        node.context.shutdown()
        with pytest.raises(NoServerError, match="the client's context was shut down"):
            pending.result(SOON)
        with pytest.raises(NoServerError, match="the client's context was shut down"):
            other.start("stop")


@pytest.mark.slow
def test_a_node_that_dies_ends_the_wait(model_file: Any) -> None:
    with own_domain() as domain, robot_node(domain) as node:
        generator = slow_generator(domain, model_file)
        try:
            with GeneratorClient(node) as client:
                wait_until_answered(client)
                pending = client.start("stop", max_new_tokens=150)
                assert next(iter(pending))
                generator.process.kill()
                with pytest.raises(NoServerError, match="no node serves the action any more"):
                    pending.result(SOON)
                for _ in range(2):  # whoever reads again is told again
                    with pytest.raises(NoServerError):
                        list(pending)
        finally:
            generator.process.kill()
            generator.process.wait()
