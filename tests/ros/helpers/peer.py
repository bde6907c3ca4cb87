"""Another node of the robot, in the test's process: it sends requests and waits, never without a limit."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import rclpy
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import ErrorCode, GenerationOptions, TokenChunk
from edgegpt_msgs.srv import Complete, CountTokens
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters, SetParameters, SetParametersAtomically
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from unique_identifier_msgs.msg import UUID

SOON = 60  # seconds after which a hanging test fails; on a busy machine discovery alone takes some

ENDED = {
    GoalStatus.STATUS_SUCCEEDED: "succeeded",
    GoalStatus.STATUS_CANCELED: "canceled",
    GoalStatus.STATUS_ABORTED: "aborted",
}
TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "cleanup": Transition.TRANSITION_CLEANUP,
    "shutdown": Transition.TRANSITION_ACTIVE_SHUTDOWN,
}


def until(condition: Callable[[], Any], what: str, timeout_s: float = SOON) -> Any:
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, f"after {timeout_s} s still no {what}"
        time.sleep(0.002)
    return value


class Goal:
    """A goal of the action `generate`.

    Attributes:
        feedback: chunks that arrived as feedback.
        peer: the node that sent it.
        results: number of results that arrived, which must be one.
        sent, first, ended: time.perf_counter() when it was sent, and when its first feedback and its
            result arrived.
    """

    def __init__(self, peer: "Peer", goal: Generate.Goal) -> None:
        self.id = uuid4()
        self.feedback: list[TokenChunk] = []
        self.first = self.ended = 0.0
        self.results = 0
        self._done = threading.Event()
        self._response: Any = None
        self.sent = time.perf_counter()
        self.peer = peer
        self._handle: Any = None
        accepted = threading.Event()

        def on_response(future: Any) -> None:
            self._handle = future.result()
            self._handle.get_result_async().add_done_callback(self._finish)
            accepted.set()

        def send() -> None:
            uuid = UUID(uuid=list(self.id.bytes))
            peer.action.send_goal_async(goal, self._on_feedback, uuid).add_done_callback(on_response)

        # On the peer's thread: rclpy's action client drops a response that arrives before the sending call
        # has returned.
        peer.executor.create_task(send)
        assert accepted.wait(SOON), f"no goal response after {SOON} s"
        assert self._handle.accepted

    def _on_feedback(self, message: Any) -> None:
        self.first = self.first or time.perf_counter()
        self.feedback.append(message.feedback.chunk)

    def _finish(self, future: Any) -> None:
        self.ended = time.perf_counter()
        self.results += 1
        self._response = future.result()
        self._done.set()

    def cancel(self) -> None:
        """Cancel the goal, and wait for the node's reply to that."""
        done = threading.Event()
        self.peer.executor.create_task(
            lambda: self._handle.cancel_goal_async().add_done_callback(lambda _: done.set())
        )
        assert done.wait(SOON), f"no answer to the cancellation after {SOON} s"

    @property
    def done(self) -> bool:
        """Return whether there is a result."""
        return self._done.is_set()

    def result(self, timeout_s: float = SOON) -> Generate.Result:
        """Wait for the result."""
        assert self._done.wait(timeout_s), f"no result after {timeout_s} s"
        return self._response.result

    def end(self) -> tuple[str, str, int]:
        """Wait for the result; return status, finish reason and error code."""
        result = self.result()
        return ENDED[self._response.status], result.finish_reason, result.error_code

    def chunks(self) -> list[TokenChunk]:
        """Wait for the last chunk on the topic `tokens`, and return all of them."""

        def mine() -> list[TokenChunk]:
            return [chunk for chunk in list(self.peer.tokens) if chunk.request_id == self.id.hex]

        until(lambda: any(chunk.last for chunk in mine()), "last chunk")
        return mine()


class Peer:
    """A node in the namespace of a generator, spun by a thread of its own.

    Attributes:
        tokens: chunks received on `tokens`.
        responses: texts received on `response`.
        executor: the executor of its thread.
    """

    def __init__(self, domain: int, namespace: str = "", *, depth: int = 4096) -> None:
        """Begin to spin; `depth` is the queue depth of its subscriptions."""
        self.context = rclpy.Context()
        os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"  # read by init
        rclpy.init(context=self.context, domain_id=domain)
        self.node = Node(f"peer_{uuid4().hex[:8]}", namespace=namespace, context=self.context)
        self.tokens: list[TokenChunk] = []
        self.responses: list[str] = []
        self.action = ActionClient(self.node, Generate, "generate")
        self._clients = {
            name: self.node.create_client(kind, name)
            for name, kind in {
                "complete": Complete,
                "count_tokens": CountTokens,
                "edgegpt/change_state": ChangeState,
                "edgegpt/get_state": GetState,
                "edgegpt/get_parameters": GetParameters,
                "edgegpt/set_parameters": SetParameters,
                "edgegpt/set_parameters_atomically": SetParametersAtomically,
            }.items()
        }
        self._prompts = self.node.create_publisher(String, "prompt", 10)
        self.node.create_subscription(TokenChunk, "tokens", self.tokens.append, depth)
        self.node.create_subscription(String, "response", lambda m: self.responses.append(m.data), depth)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._thread = threading.Thread(target=self.executor.spin, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the node and its thread."""
        self.executor.shutdown()
        self._thread.join(SOON)
        self.action.destroy()  # otherwise the node would stay in the graph
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, future: Any, timeout_s: float = SOON) -> Any:
        """Wait for a future, and return its result."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        assert done.wait(timeout_s), f"no answer after {timeout_s} s"
        return future.result()

    def wait_for_node(self) -> None:
        """Wait until the node and this one have discovered each other's interfaces."""
        for name, client in self._clients.items():
            assert client.wait_for_service(SOON), f"no service {name}"
        assert self.action.wait_for_server(SOON)
        for topic in ("tokens", "response"):
            until(lambda topic=topic: self.node.count_publishers(topic), f"publisher of {topic}")
        until(self._prompts.get_subscription_count, "subscriber of prompt")
        # DDS drops the response to a client whose reader the node has not discovered yet.
        requests = {
            "edgegpt/get_state": GetState.Request(),
            "edgegpt/get_parameters": GetParameters.Request(),
            "count_tokens": CountTokens.Request(prompt="stop"),
        }
        for name, request in requests.items():
            until(lambda name=name, request=request: self._answers(name, request), f"answer of {name}")

    def _answers(self, name: str, request: Any) -> bool:
        answered = threading.Event()
        self.ask(name, request).add_done_callback(lambda _: answered.set())
        return answered.wait(1)

    def call(self, name: str, request: Any) -> Any:
        """Call a service, and return its response."""
        return self.wait(self.ask(name, request))

    def ask(self, name: str, request: Any) -> Any:
        """Call a service, and return a future of its response."""
        return self._clients[name].call_async(request)

    def state(self) -> str:
        """Return the state of the generator's life cycle."""
        return self.call("edgegpt/get_state", GetState.Request()).current_state.label

    def change(self, *transitions: str) -> bool:
        """Request transitions one after another, and return whether the last one succeeded."""
        success = False
        for name in transitions:
            request = ChangeState.Request(transition=Transition(id=TRANSITIONS[name]))
            success = self.call("edgegpt/change_state", request).success
        return success

    def set(self, *, atomically: bool = False, **values: Any) -> list[Any]:
        """Set parameters, and return a result for each, or one if set atomically."""
        parameters = [
            (value if isinstance(value, Parameter) else Parameter(name, value=value)).to_parameter_msg()
            for name, value in values.items()
        ]
        if atomically:
            request = SetParametersAtomically.Request(parameters=parameters)
            return [self.call("edgegpt/set_parameters_atomically", request).result]
        return self.call("edgegpt/set_parameters", SetParameters.Request(parameters=parameters)).results

    def get(self, *names: str) -> list[Any]:
        """Return the values of parameters."""
        values = self.call("edgegpt/get_parameters", GetParameters.Request(names=list(names))).values
        return [rclpy.parameter.parameter_value_to_python(value) for value in values]

    def goal(self, prompt: str, *, session: str = "", **options: Any) -> Goal:
        """Send a goal."""
        goal = Generate.Goal(prompt=prompt, session=session, options=GenerationOptions(**options))
        return Goal(self, goal)

    def complete(self, prompt: str, *, session: str = "", **options: Any) -> Complete.Response:
        """Call `complete`."""
        options_ = GenerationOptions(**options)
        return self.call("complete", Complete.Request(prompt=prompt, session=session, options=options_))

    def count(self, prompt: str, session: str = "") -> CountTokens.Response:
        """Call `count_tokens`."""
        return self.call("count_tokens", CountTokens.Request(prompt=prompt, session=session))

    def say(self, prompt: str | bytes) -> str:
        """Publish a prompt, as bytes a serialised String, and wait for the response."""
        before = len(self.responses)
        self._prompts.publish(prompt if isinstance(prompt, bytes) else String(data=prompt))
        until(lambda: len(self.responses) > before, "response")
        return self.responses[before]

    def status(self) -> DiagnosticStatus:
        """Wait for the next status of the node."""
        [status] = self.latest(DiagnosticArray, "/diagnostics").status
        return status

    def diagnostics(self) -> dict[str, str]:
        """Wait for the next status, and return its values."""
        return {value.key: value.value for value in self.status().values}

    def counted(self, outcome: str) -> int:
        """Return the number of requests with this outcome, from the diagnostics."""
        return int(self.diagnostics()[f"requests.{outcome}"])

    def destroy(self, how: Callable[[Any], bool], entity: Any) -> None:
        """Destroy a part of the node on the peer's thread, whose spin could end otherwise."""
        self.wait(self.executor.create_task(how, entity))

    def latest(self, kind: type, topic: str, latched: bool = False) -> Any:
        """Subscribe, and wait for one message."""
        heard: list[Any] = []
        qos = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL) if latched else 10
        subscription = self.node.create_subscription(kind, topic, heard.append, qos)
        try:
            return until(lambda: heard and heard[-1], f"message on {topic}")
        finally:
            self.destroy(self.node.destroy_subscription, subscription)


def refused_by_every_interface(peer: Peer, state: str) -> None:
    """Assert that a node in this state refuses a request at each of its interfaces."""
    goal = peer.goal("stop")
    assert goal.end() == ("aborted", "error", ErrorCode.NOT_ACTIVE)
    assert state in goal.result().error
    assert [chunk.text for chunk in goal.chunks()] == [""]  # subscribers of the topic learn of the end too
    response = peer.complete("stop")
    assert (response.error_code, response.error) == (ErrorCode.NOT_ACTIVE, goal.result().error)
    assert peer.count("stop").error_code == ErrorCode.NOT_ACTIVE
    assert peer.say("stop") == ""
