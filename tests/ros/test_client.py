"""The client library in a robot's own node, and the terminal chat."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import rclpy
from edgegpt_msgs.msg import ErrorCode
from edgegpt_ros.client import Answer, GeneratorClient, NoServerError, RefusedError
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from .generator_process import GeneratorProcess
from .peer import SOON, until
from .workspace import environment, executable, own_domain

N = 60  # tokens of a whole answer, 20 ms each
SLOW = {"step_ms": 20, "endless": 1}


@pytest.fixture(scope="module")
def domain(model_file: Path) -> Iterator[int]:
    parameters = {"model": model_file, "chunk_ms": 0, "max_new_tokens": N}
    with own_domain() as domain, GeneratorProcess(environment(domain), parameters, faults=SLOW):
        yield domain


@pytest.fixture(scope="module")
def node(domain: int) -> Iterator[Node]:
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    node = Node("robot", context=context)
    yield node
    node.destroy_node()
    rclpy.shutdown(context=context)


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[GeneratorClient]:
    with GeneratorClient(node) as client:
        assert client.wait_for_server(SOON)

        def active() -> bool:
            try:
                return bool(client.generate("stop", max_new_tokens=1))
            except (RefusedError, TimeoutError):  # a first answer may be lost while they discover each other
                return False

        until(active, "active node")
        yield client


def test_a_reply_is_typed_and_whole(client: GeneratorClient) -> None:
    answer = client.generate("stop", timeout_s=SOON, temperature=0)
    assert isinstance(answer, Answer)
    assert answer.finish_reason == "length"
    assert answer.usage.completion_tokens == N
    assert answer.timing.total_ms > answer.timing.ttft_ms > 0


def test_the_stream_joins_to_the_text_and_comes_while_it_grows(client: GeneratorClient) -> None:
    pending = client.start("stop")
    texts, times = [], []
    for text in pending:
        texts.append(text)
        times.append(time.monotonic())
    assert "".join(texts) == pending.result().text
    assert len(texts) > 5
    assert times[-1] - times[0] > 0.2


def test_a_request_that_is_not_streamed_comes_in_one_piece(client: GeneratorClient) -> None:
    pending = client.start("stop", stream=False, max_new_tokens=5)
    assert list(pending) == [pending.result(SOON).text]


def test_cancelling_gives_what_there_was(client: GeneratorClient) -> None:
    pending = client.start("stop")
    next(iter(pending))
    pending.cancel()
    answer = pending.result(SOON)
    assert answer.finish_reason == "cancelled"
    assert 0 < answer.usage.completion_tokens < N


def test_cancelling_at_once_is_not_lost(client: GeneratorClient) -> None:
    pending = client.start("stop")
    pending.cancel()
    assert pending.result(SOON).finish_reason == "cancelled"


def test_a_timeout_cancels_the_request(client: GeneratorClient) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        client.generate("stop", max_new_tokens=150, timeout_s=0.2)
    assert client.generate("stop", max_new_tokens=1, timeout_s=SOON).text is not None
    assert time.monotonic() - began < 2  # the whole would have taken 3 s


def test_a_refusal_has_code_and_sentence(client: GeneratorClient) -> None:
    with pytest.raises(RefusedError, match="the prompt '' is empty") as refused:
        client.generate("")
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("prompt", "options", "sentence"),
    [
        ("a\0b", {}, "the prompt holds a NUL character at position 1"),
        ("a\ud800", {}, "the prompt holds half a character at position 1"),
        ("a", {"top": 1}, "there is no option 'top'"),
        ("a", {"top_k": "many"}, "top_k must be of type int32, got 'many'"),
        ("a", {"top_k": 2**31}, "top_k must fit into int32"),
        ("a", {"stop": ["x\0"]}, "the stop holds a NUL character"),
    ],
)
def test_what_no_message_can_hold_is_refused_before_it_is_sent(
    client: GeneratorClient, prompt: str, options: dict, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        client.start(prompt, **options)


def test_what_on_text_raises_does_not_cost_the_answer(client: GeneratorClient) -> None:
    heard = []

    def fail(text: str) -> None:
        heard.append(text)
        raise RuntimeError("injected by the test")

    assert client.generate("stop", max_new_tokens=8, on_text=fail, timeout_s=SOON).text
    assert len(heard) == 1


def test_a_callback_of_the_robots_executor_may_wait_for_an_answer(
    client: GeneratorClient, node: Node
) -> None:
    answers = []

    def callback() -> None:
        timer.cancel()
        answers.append(client.generate("stop", max_new_tokens=3, timeout_s=SOON))

    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    timer = node.create_timer(0.01, callback)
    end = time.monotonic() + SOON
    while not answers and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
    executor.remove_node(node)
    executor.shutdown()
    assert answers[0].usage.completion_tokens == 3


def test_many_quick_requests_from_many_threads_are_all_answered(client: GeneratorClient) -> None:
    pending = [client.start("stop", max_new_tokens=1) for _ in range(8)]
    assert all(p.result(SOON).usage.completion_tokens == 1 for p in pending)


def test_without_a_node_there_is_an_error_in_time(node: Node) -> None:
    with (
        GeneratorClient(node, action="elsewhere/generate") as client,
        pytest.raises(NoServerError, match="elsewhere"),
    ):
        client.generate("stop", timeout_s=0.3)


@contextmanager
def chat_process(domain: int) -> Iterator[subprocess.Popen[str]]:
    """The terminal chat with pipes for a terminal; killed at the end, however the test ends."""
    chat = subprocess.Popen(
        [executable("chat")],
        env=environment(domain),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield chat
    finally:
        chat.kill()
        chat.wait()


def test_the_chat_streams_cancels_and_ends(domain: int, client: GeneratorClient) -> None:
    with chat_process(domain) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        chat.stdin.write("stop\n")
        chat.stdin.flush()
        seen = ""
        while "total" not in seen:
            character = chat.stdout.read(1)
            assert character, seen
            seen += character
        out, _ = chat.communicate("\n/new\n/quit\n", timeout=SOON)
        assert chat.returncode == 0
        assert "[length, first" in seen
        assert "Traceback" not in seen + out


def test_ctrl_c_ends_a_chat_that_waits_for_a_line(domain: int, client: GeneratorClient) -> None:
    with chat_process(domain) as chat:
        assert chat.stdout is not None
        assert chat.stdout.read(2) == "> "
        chat.send_signal(signal.SIGINT)
        out, _ = chat.communicate(timeout=SOON)
        assert (chat.returncode, "Traceback" in out) == (0, False)


def test_the_readmes_ten_lines_run(domain: int, node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[2] / "ros2_ws/src/edgegpt_ros/README.md").read_text(encoding="utf-8")
    code = readme.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 12
    names = {"node": node}
    exec(code, names)
    names["client"].close()
    assert capsys.readouterr().out


def test_a_node_that_dies_ends_the_wait_and_so_does_a_closed_client(model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 150}
    with own_domain() as domain:
        process = GeneratorProcess(environment(domain), parameters, faults=SLOW)
        context = rclpy.Context()
        rclpy.init(context=context, domain_id=domain)
        node = Node("robot", context=context)
        try:
            client = GeneratorClient(node)
            assert client.wait_for_server(SOON)
            until(lambda: "active" in process.text, "active node")
            pending = client.start("stop")
            assert next(iter(pending))
            process.process.kill()
            with pytest.raises(NoServerError, match="no node serves the action any more"):
                pending.result(SOON)
            with pytest.raises(NoServerError):
                list(pending)
            with pytest.raises(NoServerError):
                list(pending)  # and again
            client.close()
            with pytest.raises(NoServerError, match="the client is closed"):
                client.start("stop")
        finally:
            process.process.kill()
            process.process.wait()
            node.destroy_node()
            rclpy.shutdown(context=context)
