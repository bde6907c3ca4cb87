"""Ask the node `edgegpt` from another node.

    client = GeneratorClient(node)
    answer = client.generate("drive forward two metres", timeout_s=2.0, temperature=0.0)
    print(answer.text, answer.finish_reason, answer.timing.total_ms)

The client spins a small node of its own on a thread of its own, so waiting for an answer is allowed
everywhere: in a callback of your node's executor too. Your callback waits, nothing deadlocks. The one
exception is `on_text`, which runs on that thread: what would wait there raises a ClientError.
"""

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Final

from action_msgs.srv import CancelGoal
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import TokenChunk
from rclpy.action import ActionClient
from rclpy.node import Node
from unique_identifier_msgs import msg as unique_identifier

from edgegpt_ros.client_answer import Answer, ClientError, NoServerError, RefusedError
from edgegpt_ros.client_options import check_text, options_message
from edgegpt_ros.own_thread import OwnThread
from edgegpt_ros.pending import Pending
from edgegpt_ros.qos import BURST

__all__ = ["Answer", "ClientError", "GeneratorClient", "NoServerError", "Pending", "RefusedError"]

# Chunks kept for a slow reader of a stream; as the node's tokens_depth.
_DEPTH: Final = 4096
_WATCH_S: Final = 1.0  # between two looks whether the node is still there


class GeneratorClient:
    """Sends requests to one generator and waits for the answers; any thread may use it."""

    def __init__(self, node: Node, *, action: str = "generate", tokens: str = "tokens") -> None:
        """Listen beside `node`, in its namespace and context.

        Args:
            node: whose namespace and context to use.
            action: name of the action, relative to the namespace unless it begins with a slash.
            tokens: name of the topic of chunks, from which answers are streamed.
        """
        self._pending: dict[str, Pending] = {}
        self._missed = 0
        self._name = action
        self._thread = OwnThread(node, f"{node.get_name()}_edgegpt_client", self._end_all)
        own = self._thread.node
        self._action = ActionClient(
            own, Generate, action, goal_service_qos_profile=BURST, result_service_qos_profile=BURST
        )
        self._cancels = own.create_client(CancelGoal, f"{action}/_action/cancel_goal", qos_profile=BURST)
        own.create_subscription(TokenChunk, tokens, self._on_chunk, _DEPTH)
        own.create_timer(_WATCH_S, self._watch)
        self._thread.start()

    def wait_for_server(self, timeout_s: float | None = None) -> bool:
        """Wait until the node is there; whether it is.

        Raises:
            NoServerError: the client is closed, or is closed meanwhile.
        """
        self._refuse_when_over()
        began = monotonic()
        try:
            here = self._action.wait_for_server(timeout_s)
            return here and bool(self._cancels.wait_for_service(_left(timeout_s, began)))
        except RuntimeError:  # rclpy's word for another thread's having closed the client, or the context
            self._refuse_when_over()
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
        """The answer to a prompt.

        Args:
            prompt: what to answer.
            session: name of the conversation that it goes on with; empty for none.
            timeout_s: seconds to wait, None for as long as it takes; the request is cancelled when they
                have passed.
            on_text: called with the text while it grows, on the client's thread: it must not wait there.
            options: fields of GenerationOptions; the rest are the node's own.

        Raises:
            TimeoutError, RefusedError, NoServerError: as Pending.result.
            ClientError: inside on_text, where nobody may wait.
            ValueError: an option or a text that no message can hold.
        """
        self._thread.refuse_to_wait("generate")
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
        for name, text in (("prompt", prompt), ("session", session)):
            check_text(name, text)
        goal = Generate.Goal(prompt=prompt, session=session, options=options_message(options))
        self._refuse_when_over()
        pending = Pending(self._thread, on_text, self._cancel, self._forget)
        self._pending[pending.request_id] = pending
        # On the client's thread: rclpy's action client drops a response that is there before the caller
        # has noted its request.
        self._thread.do(pending.guarded, self._send, goal, pending)
        if self._thread.over:  # meanwhile, on another thread, which may not have seen this one
            pending.fail(NoServerError(self._thread.over))
        return pending

    def close(self) -> None:
        """Forget what is on its way, and end the client's node and thread; once more does no harm.

        Raises:
            ClientError: inside on_text.
        """
        self._thread.refuse_to_wait("close")
        if self._thread.stop():
            self._action.destroy()  # or the node would not go, and the others would not hear that it has
            self._thread.node.destroy_node()

    def __enter__(self) -> "GeneratorClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_when_over(self) -> None:
        if self._thread.over:
            raise NoServerError(f"{self._thread.over}; make a new one")

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
            pending.guarded(pending.chunk, chunk)

    def _cancel(self, pending: Pending) -> None:
        request = CancelGoal.Request()
        request.goal_info.goal_id.uuid = list(pending.uuid.bytes)
        self._cancels.call_async(request)

    def _forget(self, pending: Pending) -> None:
        self._pending.pop(pending.request_id, None)

    def _watch(self) -> None:
        """End what waits for a node that has gone: it has been missed twice in a row."""
        self._missed = 0 if self._action.server_is_ready() else self._missed + 1
        if self._missed > 1:
            self._end_all("no node serves the action any more")

    def _end_all(self, sentence: str) -> None:
        for pending in list(self._pending.values()):
            pending.fail(NoServerError(sentence))


def _left(timeout_s: float | None, began: float) -> float | None:
    """Seconds that are left of timeout_s; None for ever."""
    return None if timeout_s is None else max(0.0, timeout_s - (monotonic() - began))
