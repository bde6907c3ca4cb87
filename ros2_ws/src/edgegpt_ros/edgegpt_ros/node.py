"""The lifecycle node `edgegpt`: it translates, and leaves the work to edgegpt.server."""

import threading
from time import monotonic
from typing import Final

from edgegpt_msgs.msg import ModelInfo, TokenChunk
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from edgegpt.errors import ConfigError, EdgeGPTError, first_line
from edgegpt.serving import GenerationServer
from edgegpt_ros.convert import options_of
from edgegpt_ros.diagnostics import Diagnostics
from edgegpt_ros.doors.complete import open_complete
from edgegpt_ros.doors.count_tokens import CountTokensService
from edgegpt_ros.doors.generate import GenerateAction
from edgegpt_ros.doors.prompt import open_prompt
from edgegpt_ros.events import NO_PUBLISHER_EVENTS
from edgegpt_ros.lifecycle import Transitions
from edgegpt_ros.loading import Loaded, load_model
from edgegpt_ros.log import NodeLog
from edgegpt_ros.parameters import Parameters
from edgegpt_ros.requests import Requests

_DONE: Final = TransitionCallbackReturn.SUCCESS
_FAILED: Final = TransitionCallbackReturn.FAILURE

# A request at work ends before its next token, which is there in milliseconds; a model call that takes longer
# than this hangs, or the model is far too large for the machine.
_END_S: Final = 3.0


class GeneratorNode(LifecycleNode):
    """Answers prompts while it is active. Its doors are open from the start, and say so when it is not.

    The executor's thread takes requests and parameters; transitions run on threads of their own, one at a
    time. They share `Requests`, whose attributes they only ever replace.
    """

    def __init__(self) -> None:
        super().__init__("edgegpt")
        self._log = NodeLog(self.get_logger())
        self._transitions = Transitions(self)
        self._loaded: Loaded | None = None
        self._applying = threading.Lock()
        self._problem = ""  # why the last configuring failed
        self._parameters_of = Parameters(self, self._apply_parameters)
        depth = self.get_parameter("tokens_depth").value
        self._tokens = self.create_publisher(TokenChunk, "tokens", depth, event_callbacks=NO_PUBLISHER_EVENTS)
        latched = QoSProfile(
            depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE
        )
        self._model_info = self.create_publisher(
            ModelInfo, "model_info", latched, event_callbacks=NO_PUBLISHER_EVENTS
        )
        self._requests = Requests(self._tokens.publish, self.get_logger())
        self._diagnostics = Diagnostics(
            self, self._requests, lambda: self._problem or self._parameters_of.problem
        )
        self._generate = GenerateAction(self, self._requests)
        open_complete(self, self._requests)
        self._count_tokens = CountTokensService(self, self._requests)
        open_prompt(self, self._requests)
        if problem := self._parameters_of.problem:
            self.get_logger().error(problem)

    def autostart(self) -> None:
        """Begin to become active without being asked to, if the parameter says so."""
        if self.get_parameter("autostart").value:
            self._transitions.begin(self._start)

    def close(self, timeout_s: float) -> bool:
        """End all work; the doors stay open and say so.

        Returns:
            Whether all has ended; waits for that until timeout_s have passed.
        """
        until = monotonic() + timeout_s
        self._requests.state = "shutting down"
        self._count_tokens.refuse_all()
        ended = self._transitions.close(timeout_s / 4)  # nothing can end a model's loading
        return self._free(max(0.0, until - monotonic())) and ended

    def destroy_node(self) -> None:
        """Leave the graph at once; what holds on to the node would let it linger for the others."""
        self._log.close()
        self._generate.destroy()
        super().destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model that the parameters name; fails with a sentence in the log and the diagnostics."""
        self._enter("configuring")
        try:
            self._load()
        except EdgeGPTError as error:
            return self._refuse(str(error))
        except Exception as error:  # rclpy would swallow it
            return self._refuse(f"configuring failed in a way that nobody expected: {first_line(error)}")
        self._problem = ""
        self._say("inactive")
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take requests."""
        if (server := self._requests.server) is None:
            return _FAILED  # freed by `close`
        server.activate()
        self._say("active")
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse new requests and end those at work, which keep the text they have.

        Fails, and the node goes on, when a call of the model does not return.
        """
        if (server := self._requests.server) is None:
            return _FAILED
        self._enter("deactivating")
        self._count_tokens.refuse_all()
        if not server.deactivate(_END_S):
            self.get_logger().error(
                f"deactivating failed: the model is in a call that has not returned within {_END_S:g} s; "
                "the node stays active, try again"
            )
            server.activate()
            self._enter("active")
            return _FAILED
        self._say("inactive")
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free the model."""
        self._free(_END_S)
        self._say("unconfigured")
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End all work and free the model."""
        self._enter("finalized")
        self._count_tokens.refuse_all()
        self._free(_END_S)
        self._say("finalized")
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin again from unconfigured."""
        self._free(_END_S)
        self._say("unconfigured")
        return _DONE

    def _start(self) -> bool:
        if self.trigger_configure() != _DONE or self._transitions.closed:
            return False
        activated: bool = self.trigger_activate() == _DONE
        return activated

    def _load(self) -> None:
        parameters = self._parameters_of
        parameters.configuring()
        if problem := parameters.problem:
            raise ConfigError(problem)
        values = parameters.values
        loaded = load_model(
            values["model"],
            threads=values["threads"],
            capacity=values["capacity"],
            tokens_depth=values["tokens_depth"],
            budget=values["budget"],
            logger=self.get_logger(),
        )
        parameters.configured(loaded.generator.sampling, loaded.generator.engine.capacity)
        self._requests.server = GenerationServer(
            loaded.generator,
            overload=values["overload"],
            queue_depth=values["queue_depth"],
            session_bytes=values["session_bytes"],
            session_ttl_s=values["session_ttl_s"],
            active=False,
        )
        self._loaded = loaded
        self._diagnostics.hardware_id = loaded.info.name
        self._apply_parameters()

    def _apply_parameters(self) -> None:
        """Have the next request see the parameters; what runs keeps those it began with."""
        with self._applying:  # or an older value might come last
            values = self._parameters_of.values
            self._requests.stream, self._requests.chunk_ms = values["stream"], values["chunk_ms"]
            if (loaded := self._loaded) is not None:
                self._requests.own = self._parameters_of.own()
                loaded.info.options = options_of(self._requests.own, stream=values["stream"])
                self._model_info.publish(loaded.info)

    def _forget_model(self) -> None:
        with self._applying:  # or a parameter that is being set would publish it once more
            loaded, self._loaded = self._loaded, None
            if loaded is not None:
                self._model_info.publish(ModelInfo())  # takes the place of the latched one

    def _free(self, timeout_s: float) -> bool:
        """Let go of the model; whether it has no call at work any more."""
        server, self._requests.server = self._requests.server, None
        self._forget_model()
        self._diagnostics.hardware_id = ""
        self._parameters_of.unconfigured()
        if server is None or server.close(timeout_s):
            return True
        self.get_logger().warning(
            f"the model is in a call that has not returned within {timeout_s:.1f} s; "
            "its memory is free when that returns"
        )
        return False

    def _refuse(self, sentence: str) -> TransitionCallbackReturn:
        self._free(_END_S)
        self.get_logger().error(sentence)
        self._problem = sentence
        self._enter("unconfigured")
        return _FAILED

    def _enter(self, name: str) -> None:
        if not self._transitions.closed:  # a node that shuts down has no other state any more
            self._requests.state = name

    def _say(self, name: str) -> None:
        self._enter(name)
        self.get_logger().info(f"{name}" if self._loaded is None else f"{name}: {self._loaded.info.name}")
