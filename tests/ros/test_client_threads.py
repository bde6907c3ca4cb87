"""Where a client may block: on any thread, in a callback of the robot's executor, but not in `on_text`."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from edgegpt_ros.client import Answer, ClientError, GeneratorClient, NoServerError, Pending
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from .helpers.peer import SOON
from .helpers.process import own_domain
from .helpers.robot import robot_node, slow_generator, wait_until_answered


def test_each_of_many_threads_gets_its_own_answers(client: GeneratorClient) -> None:
    threads, each = 16, 4
    together = threading.Barrier(threads)

    def ask(number: int) -> list[int]:
        together.wait(SOON)
        pending = [client.start("stop", max_new_tokens=1 + number % 4) for _ in range(each)]
        return [p.result(SOON).usage.completion_tokens for p in pending]

    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(ask, range(threads)))
    assert answers == [[1 + number % 4] * each for number in range(threads)]


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
def test_a_callback_of_the_robots_executor_may_block(
    client: GeneratorClient, robot: Node, ask: Callable[[GeneratorClient], Answer], reason: str
) -> None:
    assert in_callback(robot, lambda: ask(client)).finish_reason == reason


def test_a_callback_may_create_a_client_and_close_it(client: GeneratorClient, robot: Node) -> None:
    def create_and_close() -> Answer:
        with GeneratorClient(robot) as other:
            wait_until_answered(other)
            return generate(other)

    assert in_callback(robot, create_and_close).finish_reason == "length"


def in_callback(node: Node, work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a callback of the node's only executor thread."""
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
def test_an_exception_in_on_text_does_not_cost_the_answer(
    client: GeneratorClient, error: type[BaseException]
) -> None:
    heard = []

    def fail(text: str) -> None:
        heard.append(text)
        raise error("injected")

    assert client.generate("stop", max_new_tokens=8, on_text=fail, timeout_s=SOON).text
    assert len(heard) == 1
    assert generate(client).finish_reason == "length"  # the client's thread still runs


def start_with(client: GeneratorClient, on_text: Callable[[Pending], None], **options: Any) -> Pending:
    """Start a request whose `on_text` gets the request itself, the first time only."""
    pending: list[Pending] = []
    known, called = threading.Event(), threading.Event()

    def first_text(text: str) -> None:
        known.wait(SOON)
        if not called.is_set():
            called.set()
            on_text(pending[0])

    pending.append(client.start("stop", on_text=first_text, **options))
    known.set()
    return pending[0]


BLOCKING: dict[str, Callable[[GeneratorClient, Pending], object]] = {
    "generate": lambda client, pending: client.generate("stop"),
    "result": lambda client, pending: pending.result(),
    "the stream": lambda client, pending: list(pending),
    "close": lambda client, pending: client.close(),
}


@pytest.mark.parametrize("what", BLOCKING)
def test_a_call_that_would_block_inside_on_text_is_refused(client: GeneratorClient, what: str) -> None:
    refused: list[ClientError] = []

    def on_text(pending: Pending) -> None:
        try:
            BLOCKING[what](client, pending)
        except ClientError as error:
            refused.append(error)

    assert start_with(client, on_text, max_new_tokens=4).result(SOON).finish_reason == "length"
    assert str(refused[0]).startswith(what)
    assert generate(client).finish_reason == "length"  # the client still works


def test_on_text_may_start_another_request_and_let_a_thread_cancel_its_own(client: GeneratorClient) -> None:
    started: list[Pending] = []

    def on_text(pending: Pending) -> None:
        started.append(client.start("stop", max_new_tokens=2))
        canceller = threading.Thread(target=pending.cancel)  # no lock is held meanwhile
        canceller.start()
        canceller.join(SOON)
        assert not canceller.is_alive()

    assert start_with(client, on_text).result(SOON).finish_reason == "cancelled"
    assert started[0].result(SOON).usage.completion_tokens == 2


def test_closing_ends_the_wait_of_every_thread(client: GeneratorClient, robot: Node) -> None:
    other = GeneratorClient(robot)
    wait_until_answered(other)
    grows = threading.Event()
    pending = other.start("stop", max_new_tokens=150, on_text=lambda _: grows.set())
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(pending.result), pool.submit(list, pending), pool.submit(pending.result, SOON)]
        assert grows.wait(SOON)
        for closed in [pool.submit(other.close), pool.submit(other.close)]:  # twice does no harm
            closed.result(SOON)
        for future in waiting:
            with pytest.raises(NoServerError):
                future.result(SOON)
    other.close()
    for ask in (other.start, other.generate):
        with pytest.raises(NoServerError):
            ask("stop")


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
            with pytest.raises(NoServerError):
                future.result(SOON)


def test_a_context_that_is_shut_down_ends_the_wait(client: GeneratorClient, slow_domain: int) -> None:
    with robot_node(slow_domain) as node, GeneratorClient(node) as other:
        wait_until_answered(other)
        pending = other.start("stop", max_new_tokens=150)
        assert next(iter(pending))
        node.context.shutdown()
        with pytest.raises(NoServerError):
            pending.result(SOON)
        with pytest.raises(NoServerError):
            other.start("stop")


@pytest.mark.slow
def test_a_node_that_dies_ends_the_wait(model_file: Path) -> None:
    with own_domain() as domain, robot_node(domain) as node:
        generator = slow_generator(domain, model_file)
        try:
            with GeneratorClient(node) as client:
                wait_until_answered(client)
                pending = client.start("stop", max_new_tokens=150)
                assert next(iter(pending))
                generator.process.kill()
                with pytest.raises(NoServerError):
                    pending.result(SOON)
                for _ in range(2):  # a later iteration gets the error again
                    with pytest.raises(NoServerError):
                        list(pending)
        finally:
            generator.process.kill()
            generator.process.wait()
