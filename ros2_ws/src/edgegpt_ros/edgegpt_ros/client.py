"""Ask the node `edgegpt` from another node.

    client = GeneratorClient(node)
    answer = client.generate("drive forward two metres", timeout_s=2.0, temperature=0.0)
    print(answer.text, answer.finish_reason, answer.timing.total_ms)

The client spins a small node of its own on a thread of its own, so waiting for an answer is allowed
everywhere: in a callback of your node's executor too. Your callback waits, nothing deadlocks.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from time import monotonic
from types import TracebackType
from typing import Any, Final
from uuid import UUID, uuid4

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import GenerationOptions, TokenChunk
from rclpy.action import ActionClient
from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from unique_identifier_msgs import msg as unique_identifier

from edgegpt.reply import FinishReason, Timing, Usage

# Chunks kept for a slow reader of a stream; as the node's tokens_depth.
_DEPTH: Final = 4096
_WATCH_S: Final = 1.0  # between two looks whether the node is still there


class ClientError(Exception):
    """A request that got no whole answer."""


class NoServerError(ClientError):
    """There is no node that serves the action."""


class RefusedError(ClientError):
    """The node gave an error instead of a whole answer.

    Attributes:
        code: one of edgegpt_msgs.msg.ErrorCode.
        text: the answer until then.
    """

    def __init__(self, code: int, sentence: str, text: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.text = text


@dataclass(frozen=True)
class Answer:
    """A finished answer, as edgegpt.Reply without the token ids.

    `finish_reason` is eos, stop, length, context, deadline or cancelled.
    """

    text: str
    finish_reason: FinishReason
    usage: Usage
    timing: Timing


class Pending:
    """A request on its way.

    Attributes:
        request_id: of its chunks on the topic `tokens`.
    """

    def __init__(self, client: "GeneratorClient", on_text: Callable[[str], object] | None) -> None:
        self._uuid: Final = uuid4()
        self.request_id: Final = self._uuid.hex
        self._client = client
        self._on_text = on_text
        self._lock = threading.RLock()  # on_text may cancel
        self._done = threading.Event()
        self._texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._sent_bytes = 0  # of the answer, given to the stream
        self._next_index = 0
        self._answer: Answer | None = None
        self._error: ClientError | None = None
        self._accepted = False
        self._cancelled = False

    def result(self, timeout_s: float | None = None) -> Answer:
        """Wait for the answer.

        Raises:
            TimeoutError: timeout_s have passed; the request goes on, `cancel` ends it.
            RefusedError: the node has no whole answer.
            NoServerError: there is no node, or it is gone.
        """
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"no answer within {timeout_s} s")
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer

    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Ask the node to end the request; the result is then what there was, and `cancelled`."""
        with self._lock:
            self._cancelled = True
            known = self._accepted and not self.done()
        if known:  # a node that does not know the goal yet would not hear of it
            self._client._cancel(self._uuid)

    def __iter__(self) -> Iterator[str]:
        """The answer's text while it grows; it joins to the whole. Raises as `result` at the end."""
        while (text := self._texts.get()) is not None:
            yield text
        self._texts.put(None)  # for whoever iterates again
        self.result(0)

    # Called on the client's thread

    def _accept(self) -> None:
        with self._lock:
            self._accepted = True
            cancelled = self._cancelled
        if cancelled:
            self._client._cancel(self._uuid)

    def _guarded(self, callback: Callable[[Any], None], value: Any) -> None:
        """Whatever goes wrong on the client's thread ends the request, so that nobody waits for ever."""
        try:
            callback(value)
        except Exception as error:
            self._end(ClientError(f"the client failed: {error!r}"))

    def _chunk(self, chunk: TokenChunk) -> None:
        with self._lock:
            # Behind a gap nothing more is given out: the result holds it all.
            if not self.done() and chunk.index == self._next_index and chunk.byte_offset == self._sent_bytes:
                self._next_index += 1
                self._give(chunk.text)

    def _finish(self, response: Any) -> None:
        if response.status == GoalStatus.STATUS_UNKNOWN:  # it comes with an empty result
            self._end(NoServerError("the node no longer knows the request; it was restarted meanwhile"))
            return
        result = response.result
        stats = result.stats
        answer = Answer(
            text=result.text,
            finish_reason=result.finish_reason,
            usage=Usage(**{field.name: getattr(stats, field.name) for field in fields(Usage)}),
            timing=Timing(**{field.name: getattr(stats, field.name) for field in fields(Timing)}),
        )
        with self._lock:
            self._give(result.text.encode("utf-8")[self._sent_bytes :].decode("utf-8", "replace"))
            self._answer = answer
        code = result.error_code
        self._end(RefusedError(code, result.error, result.text) if code else None)

    def _end(self, error: ClientError | None) -> None:
        with self._lock:
            if self.done():
                return
            self._error = error
            self._done.set()
            self._texts.put(None)
        self._client._forget(self.request_id)

    def _give(self, text: str) -> None:
        if text:
            self._sent_bytes += len(text.encode("utf-8"))
            self._texts.put(text)
            if self._on_text is not None:
                try:
                    self._on_text(text)
                except Exception as error:  # it must not cost the answer
                    self._on_text = None
                    self._client._warn(f"on_text failed and is not called again: {error!r}")


class GeneratorClient:
    """Sends requests to one generator and waits for the answers; any thread may use it."""

    def __init__(self, node: Node, *, action: str = "generate", tokens: str = "tokens") -> None:
        """Listen beside `node`, in its namespace and context.

        Args:
            node: whose namespace and context to use.
            action: name of the action, relative to the namespace unless it begins with a slash.
            tokens: name of the topic of chunks, from which answers are streamed.
        """
        name = f"{node.get_name()}_edgegpt_client"
        self._node = Node(
            name,
            namespace=node.get_namespace(),
            context=node.context,
            # A remapping of the node's name is not meant for this one.
            cli_args=["--ros-args", "-r", f"__node:={name}", "-r", f"__ns:={node.get_namespace()}"],
            start_parameter_services=False,
            enable_rosout=False,
        )
        self._context = node.context
        self._pending: dict[str, Pending] = {}
        self._action = ActionClient(self._node, Generate, action)
        self._cancels = self._node.create_client(CancelGoal, f"{action}/_action/cancel_goal")
        self._node.create_subscription(TokenChunk, tokens, self._on_chunk, _DEPTH)
        self._missed = 0
        self._node.create_timer(_WATCH_S, self._watch)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        self._closed = False
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
        self._thread.start()

    def wait_for_server(self, timeout_s: float | None = None) -> bool:
        """Wait until the node is there; whether it is."""
        began = monotonic()
        if not self._action.wait_for_server(timeout_s):
            return False
        left = None if timeout_s is None else max(0.0, timeout_s - (monotonic() - began))
        return bool(self._cancels.wait_for_service(left))

    def generate(
        self,
        prompt: str,
        *,
        session: str = "",
        timeout_s: float = 10.0,
        on_text: Callable[[str], object] | None = None,
        **options: Any,
    ) -> Answer:
        """The answer to a prompt.

        Args:
            prompt: what to answer.
            session: name of the conversation that it goes on with; empty for none.
            timeout_s: seconds to wait; the request is cancelled when they have passed.
            on_text: called with the text while it grows, on the client's thread.
            options: fields of GenerationOptions; the rest are the node's own.

        Raises:
            TimeoutError, RefusedError, NoServerError: as Pending.result.
            ValueError: an option or a text that no message can hold.
        """
        began = monotonic()
        if not self.wait_for_server(timeout_s):
            raise NoServerError(f"no node serves the action {self._action._action_name!r}")
        pending = self.start(prompt, session=session, on_text=on_text, **options)
        try:
            return pending.result(max(0.0, timeout_s - (monotonic() - began)))
        except BaseException:
            pending.cancel()  # nothing to do for one that has ended
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
        if self._closed:
            raise NoServerError("the client is closed; make a new one")
        for name, text in (("prompt", prompt), ("session", session)):
            _check_text(name, text)
        goal = Generate.Goal(prompt=prompt, session=session, options=_options(options))
        pending = Pending(self, on_text)
        self._pending[pending.request_id] = pending
        # On the client's thread: rclpy's action client drops a response that is there before the caller
        # has noted its request.
        self._executor.create_task(self._send, goal, pending)
        return pending

    def close(self) -> None:
        """Forget what is on its way, and end the client's node and thread."""
        self._closed = True
        self._executor.create_task(lambda: None)  # spin_once returns after work only, not when merely woken
        self._thread.join(2.0)
        self._executor.shutdown(0)
        self._end_all("the client was closed")
        self._action.destroy()  # or the node would not go, and the others would not hear that it has
        self._node.destroy_node()

    def __enter__(self) -> "GeneratorClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spin(self) -> None:
        while not self._closed and self._context.ok():
            try:
                self._executor.spin_once()
            except (ExternalShutdownException, ShutdownException):
                break
            except Exception as error:
                self._node.get_logger().error(f"a callback of the client failed: {error!r}")
        self._end_all("the client was closed" if self._closed else "the client's context was shut down")

    def _watch(self) -> None:
        """End what waits for a node that has gone: it has been missed twice in a row."""
        self._missed = 0 if self._action.server_is_ready() else self._missed + 1
        if self._missed > 1:
            self._end_all("no node serves the action any more")

    def _end_all(self, sentence: str) -> None:
        for pending in list(self._pending.values()):
            pending._end(NoServerError(sentence))

    def _send(self, goal: Any, pending: Pending) -> None:
        def on_response(future: Any) -> None:
            pending._guarded(accepted, future.result())

        def accepted(handle: Any) -> None:
            if not handle.accepted:
                pending._end(NoServerError("the node did not accept the goal"))
                return
            pending._accept()
            handle.get_result_async().add_done_callback(
                lambda future: pending._guarded(pending._finish, future.result())
            )

        uuid = unique_identifier.UUID(uuid=list(pending._uuid.bytes))
        self._action.send_goal_async(goal, goal_uuid=uuid).add_done_callback(on_response)

    def _on_chunk(self, chunk: TokenChunk) -> None:
        if (pending := self._pending.get(chunk.request_id)) is not None:
            pending._chunk(chunk)

    def _cancel(self, uuid: UUID) -> None:
        request = CancelGoal.Request()
        request.goal_info.goal_id.uuid = list(uuid.bytes)
        self._cancels.call_async(request)

    def _warn(self, sentence: str) -> None:
        self._node.get_logger().warning(sentence)

    def _forget(self, request_id: str) -> None:
        self._pending.pop(request_id, None)


def _options(options: dict[str, Any]) -> GenerationOptions:
    """The options as a message. rclpy checks no types by itself, and fails in C where one is wrong.

    Raises:
        ValueError: there is no such option, or it is of another type.
    """
    message = GenerationOptions()
    kinds = message.get_fields_and_field_types()
    for name, value in options.items():
        if name not in kinds:
            raise ValueError(f"there is no option {name!r}; there are {', '.join(kinds)}")
        setattr(message, name, _fitting(name, value, kinds[name]))
    return message


def _fitting(name: str, value: Any, kind: str) -> Any:
    """The value as a field of this kind takes it."""
    if kind == "double" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if (
        kind.startswith("int")
        and isinstance(value, int)
        and (name == "stream" or not isinstance(value, bool))
    ):
        if not -(1 << int(kind[3:]) - 1) <= value < 1 << int(kind[3:]) - 1:
            raise ValueError(f"{name} must fit into {kind}, got {value}")
        return int(value)
    if kind == "string" and isinstance(value, str):
        _check_text(name, value)
        return value
    if kind == "sequence<string>" and isinstance(value, list | tuple):
        if wrong := [text for text in value if not isinstance(text, str)]:
            raise ValueError(f"{name} must hold strings, got {wrong[0]!r}")
        for text in value:
            _check_text(name, text)
        return list(value)
    raise ValueError(f"{name} must be of type {kind}, got {value!r}")


def _check_text(name: str, text: str) -> None:
    """Refuse what no ROS string holds: a NUL would cut the text silently, half a character raises."""
    if "\0" in text:
        raise ValueError(f"the {name} holds a NUL character at position {text.index(chr(0))}; remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"the {name} holds half a character at position {error.start}; remove it") from error
