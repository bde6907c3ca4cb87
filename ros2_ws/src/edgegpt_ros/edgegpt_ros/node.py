"""The lifecycle node `edgegpt`: it translates, and leaves the work to edgegpt.server."""

from typing import Final

from edgegpt_msgs.msg import ModelInfo, TokenChunk
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from edgegpt.errors import ConfigError, EdgeGPTError
from edgegpt.server import GenerationServer
from edgegpt.short_cause import short_cause
from edgegpt_ros.convert import options_of
from edgegpt_ros.diagnostics import Diagnostics
from edgegpt_ros.doors.complete import open_complete
from edgegpt_ros.doors.count_tokens import CountTokensService
from edgegpt_ros.doors.generate import GenerateAction
from edgegpt_ros.doors.prompt import open_prompt
from edgegpt_ros.lifecycle import refuse_invalid_transitions
from edgegpt_ros.loading import Loaded, load_model
from edgegpt_ros.parameters import Parameters
from edgegpt_ros.requests import Requests

_DONE: Final = TransitionCallbackReturn.SUCCESS
_FAILED: Final = TransitionCallbackReturn.FAILURE

# A request at work ends before its next token, which is there in milliseconds.
_END_S: Final = 1.0


class GeneratorNode(LifecycleNode):
    """Answers prompts while it is active. Its doors are open from the start, and say so when it is not."""

    def __init__(self) -> None:
        super().__init__("edgegpt")
        refuse_invalid_transitions(self)
        self._loaded: Loaded | None = None
        self._parameters_of = Parameters(self, self._apply_parameters)
        depth = self.get_parameter("tokens_depth").value
        self._tokens = self.create_publisher(TokenChunk, "tokens", depth)
        latched = QoSProfile(
            depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE
        )
        self._model_info = self.create_publisher(ModelInfo, "model_info", latched)
        self._requests = Requests(self._tokens.publish, self.get_logger())
        self._diagnostics = Diagnostics(self, self._requests)
        self._generate = GenerateAction(self, self._requests)
        open_complete(self, self._requests)
        self._count_tokens = CountTokensService(self, self._requests)
        open_prompt(self, self._requests)
        if problem := self._parameters_of.problem:
            self.get_logger().error(problem)

    def autostart(self) -> None:
        """Become active without being asked to, if the parameter says so."""
        if self.get_parameter("autostart").value and self.trigger_configure() == _DONE:
            self.trigger_activate()

    def close(self) -> None:
        """End all work; the doors stay open and say so."""
        self._requests.state = "shutting down"
        self._count_tokens.close()
        self._free()

    def destroy_node(self) -> None:
        """Leave the graph at once; what holds on to the node would let it linger for the others."""
        self._generate.destroy()
        super().destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model that the parameters name; fails with a sentence in the log and the diagnostics."""
        try:
            self._load()
        except EdgeGPTError as error:
            self._free()
            return self._fail(str(error))
        except Exception as error:  # rclpy would swallow it
            self._free()
            return self._fail(f"configuring failed in a way that nobody expected: {short_cause(error)}")
        self._diagnostics.problem = ""
        return self._enter("inactive", super().on_configure(state))

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take requests."""
        assert self._requests.server is not None
        self._requests.server.activate()
        return self._enter("active", super().on_activate(state))

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse new requests and end those at work, which keep the text they have."""
        assert self._requests.server is not None
        self._requests.state = "inactive"
        self._requests.server.deactivate(_END_S)
        return self._enter("inactive", super().on_deactivate(state))

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free the model."""
        self._free()
        return self._enter("unconfigured", super().on_cleanup(state))

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End all work and free the model."""
        self._requests.state = "finalized"
        self._free()
        return self._enter("finalized", super().on_shutdown(state))

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin again from unconfigured."""
        self._free()
        return self._enter("unconfigured", _DONE)

    def _load(self) -> None:
        parameters = self._parameters_of
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
        parameters.own(loaded.generator.sampling)  # refuses before anything is kept
        self._requests.server = GenerationServer(
            loaded.generator,
            overload=values["overload"],
            queue_depth=values["queue_depth"],
            session_bytes=values["session_bytes"],
            session_ttl_s=values["session_ttl_s"],
            active=False,
        )
        self._loaded = loaded
        parameters.configured(loaded.generator.sampling)
        self._diagnostics.hardware_id = loaded.info.name
        self._apply_parameters()

    def _apply_parameters(self) -> None:
        """Have the next request see the parameters; what runs keeps those it began with."""
        values = self._parameters_of.values
        self._requests.stream, self._requests.chunk_ms = values["stream"], values["chunk_ms"]
        if self._loaded is not None:
            self._requests.own = self._parameters_of.own(self._loaded.generator.sampling)
            self._loaded.info.options = options_of(self._requests.own, stream=values["stream"])
            self._model_info.publish(self._loaded.info)

    def _free(self) -> None:
        server, self._requests.server, self._loaded = self._requests.server, None, None
        self._parameters_of.unconfigured()
        if server is not None:
            server.close(_END_S)

    def _fail(self, sentence: str) -> TransitionCallbackReturn:
        self.get_logger().error(sentence)
        self._diagnostics.problem = sentence
        return _FAILED

    def _enter(self, name: str, result: TransitionCallbackReturn) -> TransitionCallbackReturn:
        self._requests.state = name
        self.get_logger().info(f"{name}" if self._loaded is None else f"{name}: {self._loaded.info.name}")
        return result
