"""Two robots in one network, with clients at full rate, never receive each other's data."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from edgegpt_msgs.msg import ErrorCode, GenerationOptions
from edgegpt_msgs.srv import Complete
from std_msgs.msg import String

from .helpers.peer import Goal, Peer, until
from .helpers.process import GeneratorProcess, environment, own_domain

IN_FLIGHT = 4  # requests of each interface that are on their way at any time
REQUESTS = 80  # of each interface
PROMPTS = ["drive forward two metres", "turn left 90 degrees", "stop", "go to the kitchen", "find a mug"]
SENT = [PROMPTS[n % len(PROMPTS)] for n in range(REQUESTS)]


@pytest.fixture(scope="module")
def robots(model_file: Path) -> Iterator[tuple[Peer, Peer]]:
    """Two robots whose answers to the same prompts differ: the second one samples, with its own seed."""
    parameters = {"model": model_file, "chunk_ms": 0, "queue_depth": 100, "tokens_depth": 20000}
    sampling = {"temperature": 5.0, "seed": 7, "max_new_tokens": 24}
    with own_domain() as domain:
        env = environment(domain)
        with (
            GeneratorProcess(env, parameters, namespace="/robot1"),
            GeneratorProcess(env, parameters | sampling, namespace="/robot2"),
            Peer(domain, "/robot1", depth=20000) as one,
            Peer(domain, "/robot2", depth=20000) as two,
        ):
            for peer in (one, two):
                peer.wait_for_node()
                until(lambda peer=peer: peer.state() == "active", "active node")
            yield one, two


def at_full_rate(send: Callable[[str], Any], receive: Callable[[Any], Any]) -> list[Any]:
    """Send all prompts, never more than IN_FLIGHT at a time, and return what was received."""
    waiting: deque[Any] = deque()
    received = []
    for prompt in SENT:
        if len(waiting) == IN_FLIGHT:
            received.append(receive(waiting.popleft()))
        waiting.append(send(prompt))
    return received + [receive(sent) for sent in waiting]


def by_action(peer: Peer) -> list[Goal]:
    def ended(goal: Goal) -> Goal:
        goal.result()
        return goal

    return at_full_rate(peer.goal, ended)


def by_complete(peer: Peer) -> list[Complete.Response]:
    def ask(prompt: str) -> Any:
        return peer.ask("complete", Complete.Request(prompt=prompt, options=GenerationOptions()))

    return at_full_rate(ask, peer.wait)


def by_prompt(peer: Peer) -> list[str]:
    publisher = peer.node.create_publisher(String, "prompt", 100)
    until(publisher.get_subscription_count, "subscriber of prompt")
    before = len(peer.responses)
    numbers = iter(range(before, before + REQUESTS))

    def publish(prompt: str) -> int:
        publisher.publish(String(data=prompt))
        return next(numbers)

    def receive(number: int) -> str:
        until(lambda: len(peer.responses) > number, f"response {number}")
        return peer.responses[number]

    responses = at_full_rate(publish, receive)
    peer.destroy(peer.node.destroy_publisher, publisher)
    return responses


def wait_for_last_chunks(peer: Peer, n: int) -> None:
    """Wait until the topic `tokens` has carried n whole answers."""
    until(lambda: sum(chunk.last for chunk in list(peer.tokens)) == n, f"last chunk of {n} answers")


def test_two_robots_with_clients_at_full_rate_receive_only_their_own_answers(
    robots: tuple[Peer, Peer],
) -> None:
    alone = {peer: {prompt: peer.complete(prompt).text for prompt in PROMPTS} for peer in robots}
    assert not set(alone[robots[0]].values()) & set(alone[robots[1]].values())
    for peer in robots:
        peer.say("stop")
        wait_for_last_chunks(peer, len(PROMPTS) + 1)
        peer.tokens.clear()

    interfaces = (by_action, by_complete, by_prompt)
    with ThreadPoolExecutor(len(robots) * len(interfaces)) as pool:
        work = {peer: [pool.submit(ask, peer) for ask in interfaces] for peer in robots}
        came = {peer: [future.result() for future in futures] for peer, futures in work.items()}

    for peer in robots:
        goals, responses, texts = came[peer]
        expected = [alone[peer][prompt] for prompt in SENT]
        assert [goal.end()[::2] for goal in goals] == [("succeeded", ErrorCode.OK)] * REQUESTS
        assert [goal.result().text for goal in goals] == expected
        assert [response.text for response in responses] == expected
        assert texts == expected  # in the order of the prompts
        for goal in goals:
            assert {chunk.request_id for chunk in goal.feedback} <= {goal.id.hex}
        # They did compete: most requests had to wait.
        waited = [answer.stats.queue_ms for answer in (*(goal.result() for goal in goals), *responses)]
        assert sum(ms > 0.5 for ms in waited) > REQUESTS
        # The topic `tokens` has carried the answers of all interfaces, and of this robot alone.
        wait_for_last_chunks(peer, 3 * REQUESTS)
        streams: dict[str, str] = {}
        for chunk in peer.tokens:
            streams[chunk.request_id] = streams.get(chunk.request_id, "") + chunk.text
        assert {goal.id.hex for goal in goals} < set(streams)
        assert sorted(streams.values()) == sorted(expected * 3)
    one, two = ({chunk.request_id for chunk in peer.tokens} for peer in robots)
    assert not one & two
