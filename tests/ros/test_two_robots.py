"""Two robots in one network, each with a generator and clients at full rate: nothing crosses over."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from edgegpt_msgs.msg import ErrorCode, GenerationOptions
from edgegpt_msgs.srv import Complete
from std_msgs.msg import String

from .helpers.peer import SOON, Goal, Peer, until
from .helpers.process import GeneratorProcess, environment, own_domain

IN_FLIGHT = 4  # requests of each door that are on their way at any time
REQUESTS = 80  # of each door
PROMPTS = [
    "drive forward two metres",
    "turn left 90 degrees",
    "stop",
    "go to the kitchen",
    "find the red mug",
]
ASKED = [PROMPTS[n % len(PROMPTS)] for n in range(REQUESTS)]


@pytest.fixture(scope="module")
def robots(model_file: Path) -> Iterator[tuple[Peer, Peer]]:
    """The same questions have other answers: the second robot draws them with a seed of its own."""
    parameters = {"model": model_file, "chunk_ms": 0, "queue_depth": 100, "tokens_depth": 20000}
    drawing = {"temperature": 5.0, "seed": 7, "max_new_tokens": 24}
    with own_domain() as domain:
        env = environment(domain)
        with (
            GeneratorProcess(env, parameters, namespace="/robot1"),
            GeneratorProcess(env, parameters | drawing, namespace="/robot2"),
            Peer(domain, "/robot1", depth=20000) as one,
            Peer(domain, "/robot2", depth=20000) as two,
        ):
            for peer in (one, two):
                peer.wait_for_node()
                until(lambda peer=peer: peer.state() == "active", "active node")
            yield one, two


def at_full_rate(send: Callable[[str], Any], receive: Callable[[Any], Any]) -> list[Any]:
    """Send all questions, the next one as soon as fewer than IN_FLIGHT are on their way; what came back."""
    waiting: deque[Any] = deque()
    received = []
    for prompt in ASKED:
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
    sent = iter(range(REQUESTS))

    def publish(prompt: str) -> int:
        publisher.publish(String(data=prompt))
        return next(sent)

    def receive(number: int) -> str:
        until(lambda: len(peer.responses) > before + number, f"response {number}", SOON)
        return peer.responses[before + number]

    responses = at_full_rate(publish, receive)
    peer.destroy(peer.node.destroy_publisher, publisher)
    return responses


def test_two_robots_with_clients_at_full_rate_do_not_hear_each_other(robots: tuple[Peer, Peer]) -> None:
    alone = {peer: {prompt: peer.complete(prompt).text for prompt in PROMPTS} for peer in robots}
    assert not set(alone[robots[0]].values()) & set(alone[robots[1]].values())
    for peer in robots:
        peer.say("stop")
        until(lambda peer=peer: sum(c.last for c in list(peer.tokens)) == len(PROMPTS) + 1, "last chunk")
        peer.tokens.clear()

    doors = (by_action, by_complete, by_prompt)
    with ThreadPoolExecutor(len(robots) * len(doors)) as pool:
        work = {peer: [pool.submit(door, peer) for door in doors] for peer in robots}
        came = {peer: [future.result() for future in futures] for peer, futures in work.items()}

    for peer in robots:
        goals, responses, texts = came[peer]
        expected = [alone[peer][prompt] for prompt in ASKED]
        assert [goal.end()[::2] for goal in goals] == [("succeeded", ErrorCode.OK)] * REQUESTS
        assert [goal.result().text for goal in goals] == expected
        assert [response.text for response in responses] == expected
        assert texts == expected  # in the order of the prompts
        for goal in goals:
            assert {chunk.request_id for chunk in goal.feedback} <= {goal.id.hex}
        # They did meet: hardly one found the node idle.
        waited = [answer.stats.queue_ms for answer in (*(goal.result() for goal in goals), *responses)]
        assert sum(ms > 0.5 for ms in waited) > REQUESTS

    for peer in robots:  # the topic `tokens` carried the answers of all doors, and of this robot alone
        until(
            lambda peer=peer: sum(c.last for c in list(peer.tokens)) == 3 * REQUESTS,
            "last chunk of each answer",
        )
        streams: dict[str, str] = {}
        for chunk in peer.tokens:
            streams[chunk.request_id] = streams.get(chunk.request_id, "") + chunk.text
        assert {goal.id.hex for goal in came[peer][0]} < set(streams)
        assert sorted(streams.values()) == sorted([alone[peer][prompt] for prompt in ASKED] * 3)
    one, two = ({chunk.request_id for chunk in peer.tokens} for peer in robots)
    assert not one & two
