"""Send requests to the node `edgegpt` from another node.

    client = GeneratorClient(node)
    answer = client.generate("drive forward two metres", timeout_s=2.0, temperature=0.0)
    print(answer.text, answer.finish_reason, answer.timing.total_ms)

The client spins a small node on its own thread, so any other thread may block on an answer, a callback of
your node's executor too. The exception is `on_text`, which runs on the client's thread: a blocking call
inside it raises a ClientError.
"""

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Final

from action_msgs.srv import CancelGoal
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import GenerationOptions, TokenChunk
from rclpy.action import ActionClient
from rclpy.node import Node
from unique_identifier_msgs import msg as unique_identifier

from edgegpt_ros.client_request import (
    Answer,
    ClientError,
    NoServerError,
    Pending,
    RefusedError,
    refuse_to_block,
)
from edgegpt_ros.qos import BURST, CHUNK_DEPTH
from edgegpt_ros.spinner import Spinner

__all__ = ["Answer", "ClientError", "GeneratorClient", "NoServerError", "Pending", "RefusedError"]

_WATCH_S: Final = 1.0  # period of the check that a node serves the action


class GeneratorClient:
    """Sends requests to one generator and waits for the answers; any thread may use it."""

    def __init__(self, node: Node, *, action: str = "generate", tokens: str = "tokens") -> None:
        """Create a client in the namespace and context of `node`.

        Args:
            node: the node whose namespace and context are used.
            action: name of the action, relative to the namespace unless it begins with a slash.
            tokens: name of the topic of chunks, from which answers are streamed.
        """
        self._pending: dict[str, Pending] = {}
        self._misses = 0
        self._name = action
        self._spinner = Spinner(node, f"{node.get_name()}_edgegpt_client", self._fail_all)
        own = self._spinner.node
        self._action = ActionClient(
            own, Generate, action, goal_service_qos_profile=BURST, result_service_qos_profile=BURST
        )
        self._cancels = own.create_client(CancelGoal, f"{action}/_action/cancel_goal", qos_profile=BURST)
        own.create_subscription(TokenChunk, tokens, self._on_chunk, CHUNK_DEPTH)
        own.create_timer(_WATCH_S, self._watch)
        self._spinner.start()

    def wait_for_server(self, timeout_s: float | None = None) -> bool:
        """Wait for a node that serves the action, and return whether there is one.

        Raises:
            NoServerError: the client is closed, before or during the call.
        """
        self._refuse_when_ended()
        began = monotonic()
        try:
            found = self._action.wait_for_server(timeout_s)
            return found and bool(self._cancels.wait_for_service(_left(timeout_s, began)))
        except RuntimeError:  # rclpy's error when another thread has closed the client or the context
            self._refuse_when_ended()
            raise

    def generate(
        self,
        prompt: str,
        *,
        session: str = "",
        timeout_s: float | None = 10.0,
        on_text: Callable[[str], object] | None = None,
        **options: Any,
    ) -> Answer:
        """Answer a prompt.

        Args:
            prompt: text to answer.
            session: name of the conversation to continue; empty for none.
            timeout_s: seconds to wait, None for no limit; the request is cancelled when they have passed.
            on_text: called with each new text, on the client's thread; it must not block.
            options: fields of GenerationOptions; the others keep the node's own values.

        Raises:
            TimeoutError, RefusedError, NoServerError: as Pending.result.
            ClientError: called inside on_text, where waiting would block forever.
            ValueError: an option or a text that no message can hold.
        """
        refuse_to_block(self._spinner, "generate")
        began = monotonic()
        if timeout_s is not None and not timeout_s >= 0:
            raise ValueError(f"timeout_s must be at least 0 seconds, got {timeout_s}")
        if not self.wait_for_server(timeout_s):
            raise NoServerError(f"no node serves the action {self._name!r}")
        pending = self.start(prompt, session=session, on_text=on_text, **options)
        try:
            return pending.result(_left(timeout_s, began))
        except TimeoutError:
            pending.cancel()
            raise TimeoutError(f"no answer within {timeout_s} s") from None
        except BaseException:
            pending.cancel()  # does nothing if the request has ended
            raise

    def start(
        self,
        prompt: str,
        *,
        session: str = "",
        on_text: Callable[[str], object] | None = None,
        **options: Any,
    ) -> Pending:
        """Send a prompt and return at once; arguments and ValueError as `generate`."""
        for name, text in (("prompt", prompt), ("session", session)):
            _check_text(name, text)
        goal = Generate.Goal(prompt=prompt, session=session, options=_options_message(options))
        self._refuse_when_ended()
        pending = Pending(self._spinner, on_text, self._cancel, self._forget)
        self._pending[pending.request_id] = pending
        # On the client's thread: rclpy's action client drops a response that arrives before the sending
        # call has returned.
        self._spinner.call(pending.guarded, self._send, goal, pending)
        if self._spinner.ended:  # meanwhile, on another thread, which may have missed this request
            pending.fail(NoServerError(self._spinner.ended))
        return pending

    def close(self) -> None:
        """End all requests with NoServerError, and destroy the client's node; may be called twice.

        Raises:
            ClientError: called inside on_text.
        """
        refuse_to_block(self._spinner, "close")
        if self._spinner.stop():
            self._action.destroy()  # otherwise the node would stay in the graph
            self._spinner.node.destroy_node()

    def __enter__(self) -> "GeneratorClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_when_ended(self) -> None:
        if self._spinner.ended:
            raise NoServerError(f"{self._spinner.ended}; create a new one")

    def _send(self, goal: Any, pending: Pending) -> None:
        def on_response(future: Any) -> None:
            handle = future.result()
            if not handle.accepted:
                pending.fail(NoServerError("the node did not accept the goal"))
                return
            pending.accepted()
            handle.get_result_async().add_done_callback(
                lambda future: pending.guarded(lambda: pending.finish(future.result()))
            )

        uuid = unique_identifier.UUID(uuid=list(pending.uuid.bytes))
        sent = self._action.send_goal_async(goal, goal_uuid=uuid)
        sent.add_done_callback(lambda future: pending.guarded(on_response, future))

    def _on_chunk(self, chunk: TokenChunk) -> None:
        if (pending := self._pending.get(chunk.request_id)) is not None:
            pending.guarded(pending.receive, chunk)

    def _cancel(self, pending: Pending) -> None:
        request = CancelGoal.Request()
        request.goal_info.goal_id.uuid = list(pending.uuid.bytes)
        self._cancels.call_async(request)

    def _forget(self, pending: Pending) -> None:
        self._pending.pop(pending.request_id, None)

    def _watch(self) -> None:
        """Fail all requests once the node was missing in two successive checks."""
        self._misses = 0 if self._action.server_is_ready() else self._misses + 1
        if self._misses > 1:
            self._fail_all("no node serves the action any more")

    def _fail_all(self, sentence: str) -> None:
        for pending in list(self._pending.values()):
            pending.fail(NoServerError(sentence))


def _left(timeout_s: float | None, began: float) -> float | None:
    """Return the seconds left of timeout_s; None for no limit."""
    return None if timeout_s is None else max(0.0, timeout_s - (monotonic() - began))


def _options_message(options: dict[str, Any]) -> GenerationOptions:
    """Return the options as a message, checked: rclpy itself fails in C on a value of a wrong type.

    Raises:
        ValueError: an unknown option, or a value of another type.
    """
    message = GenerationOptions()
    kinds = message.get_fields_and_field_types()
    for name, value in options.items():
        if name not in kinds:
            raise ValueError(f"there is no option {name!r}; the options are {', '.join(kinds)}")
        setattr(message, name, _field_value(name, value, kinds[name]))
    return message


def _field_value(name: str, value: Any, kind: str) -> Any:
    """Return the value as a field of this ROS type takes it."""
    is_bool = isinstance(value, bool)
    if kind == "double" and isinstance(value, int | float) and not is_bool:
        try:
            return float(value)
        except OverflowError as error:
            raise ValueError(f"{name} must fit into a double, got a larger number") from error
    if kind == "boolean" and is_bool:
        return value
    if kind.startswith("int") and isinstance(value, int) and (name == "stream" or not is_bool):
        limit = 1 << int(kind.removeprefix("int")) - 1
        if not -limit <= value < limit:
            raise ValueError(f"{name} must fit into {kind}, got {value}")
        return int(value)
    if kind == "string":
        _check_text(name, value)
        return value
    if kind == "sequence<string>" and isinstance(value, list | tuple):
        for text in value:
            _check_text(name, text)
        return list(value)
    raise ValueError(f"{name} must be of type {kind}, got {value!r}")


def _check_text(name: str, text: Any) -> None:
    """Raise ValueError for what no ROS string holds: a NUL cuts it silently, a lone surrogate fails late."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be text, got {text!r}")
    if "\0" in text:
        raise ValueError(f"{name} holds a NUL character at position {text.index(chr(0))}; remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} holds a lone surrogate at position {error.start}; remove it") from error
