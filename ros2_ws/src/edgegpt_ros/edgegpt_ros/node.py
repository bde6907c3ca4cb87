"""The lifecycle node `edgegpt`: loads a model, and connects its server to the ROS interfaces."""

import threading
from time import monotonic
from typing import Final

from edgegpt_msgs.msg import ModelInfo, TokenChunk
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from edgegpt.errors import ConfigError, EdgeGPTError, first_line
from edgegpt.serving import GenerationServer
from edgegpt_ros.convert import options_of
from edgegpt_ros.diagnostics import Diagnostics
from edgegpt_ros.interfaces import CountTokensService, GenerateAction, serve_complete, serve_prompt
from edgegpt_ros.lifecycle import Transitions
from edgegpt_ros.loading import LoadedModel, load_model
from edgegpt_ros.log import NodeLog
from edgegpt_ros.parameters import Parameters
from edgegpt_ros.qos import LATCHED, create_publisher
from edgegpt_ros.requests import Requests

_DONE: Final = TransitionCallbackReturn.SUCCESS
_FAILED: Final = TransitionCallbackReturn.FAILURE

# A running request ends before its next token, within milliseconds; a call of the model that takes longer
# than this hangs, or the model is far too large for the machine.
_END_S: Final = 3.0


class GeneratorNode(LifecycleNode):
    """Answers prompts while it is active; in every other state it refuses them with the reason.

    The executor's thread takes requests and parameters; transitions run on threads of their own, one at a
    time. They share `Requests`, whose attributes are only replaced, never changed in place.
    """

    def __init__(self) -> None:
        """Declare the parameters and serve all interfaces."""
        super().__init__("edgegpt")
        self._log = NodeLog(self.get_logger())
        self._transitions = Transitions(self)
        self._loaded: LoadedModel | None = None
        self._applying = threading.Lock()
        self._problem = ""  # why the last `configure` failed
        self._parameters_of = Parameters(self, self._apply_parameters)
        depth = self.get_parameter("tokens_depth").value
        self._tokens = create_publisher(self, TokenChunk, "tokens", depth)
        self._model_info = create_publisher(self, ModelInfo, "model_info", LATCHED)
        self._requests = Requests(self._tokens.publish, self.get_logger())
        self._diagnostics = Diagnostics(
            self, self._requests, lambda: self._problem or self._parameters_of.problem
        )
        self._generate = GenerateAction(self, self._requests)
        serve_complete(self, self._requests)
        self._count_tokens = CountTokensService(self, self._requests)
        serve_prompt(self, self._requests)
        if problem := self._parameters_of.problem:
            self.get_logger().error(problem)

    def autostart(self) -> None:
        """Begin to configure and activate the node, if the parameter `autostart` is true."""
        if self.get_parameter("autostart").value:
            self._transitions.begin(self._start)

    def close(self, timeout_s: float) -> bool:
        """End all work; requests that arrive later are refused.

        Returns:
            Whether all work has ended; waits for that up to timeout_s.
        """
        until = monotonic() + timeout_s
        self._requests.state = "shutting down"
        self._count_tokens.refuse_all()
        ended = self._transitions.close(timeout_s / 4)  # loading a model cannot be interrupted
        return self._free(max(0.0, until - monotonic())) and ended

    def destroy_node(self) -> None:
        """Destroy the node and its action server, which would keep the node in the graph."""
        self._log.close()
        self._generate.destroy()
        super().destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model that the parameters name; log and diagnostics hold the reason of a failure."""
        self._enter("configuring")
        try:
            self._load()
        except EdgeGPTError as error:
            return self._refuse(str(error))
        except Exception as error:  # rclpy would drop it
            return self._refuse(f"unexpected error in configure: {first_line(error)}")
        self._problem = ""
        self._report("inactive")
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to take requests."""
        if (server := self._requests.server) is None:
            return _FAILED  # freed by `close`
        server.activate()
        self._report("active")
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse new requests, and end the running and waiting ones with their text so far.

        Fails, and the node stays active, when a call of the model does not return.
        """
        if (server := self._requests.server) is None:
            return _FAILED
        self._enter("deactivating")
        self._count_tokens.refuse_all()
        if not server.deactivate(_END_S):
            self.get_logger().error(
                f"deactivate failed: a call of the model has not returned within {_END_S:g} s; "
                "the node stays active, try again"
            )
            server.activate()
            self._enter("active")
            return _FAILED
        self._report("inactive")
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free the model."""
        self._free(_END_S)
        self._report("unconfigured")
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End all work and free the model."""
        self._enter("finalized")
        self._count_tokens.refuse_all()
        self._free(_END_S)
        self._report("finalized")
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free the model, and return to unconfigured."""
        self._free(_END_S)
        self._report("unconfigured")
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
        """Use the current parameters for the next request; a running one keeps its own."""
        with self._applying:  # otherwise an older value could be applied last
            values = self._parameters_of.values
            self._requests.stream, self._requests.chunk_ms = values["stream"], values["chunk_ms"]
            if (loaded := self._loaded) is not None:
                self._requests.own = self._parameters_of.own()
                loaded.info.options = options_of(self._requests.own, stream=values["stream"])
                self._model_info.publish(loaded.info)

    def _forget_model(self) -> None:
        with self._applying:  # otherwise a parameter that is being set could publish it again
            loaded, self._loaded = self._loaded, None
            if loaded is not None:
                self._model_info.publish(ModelInfo())  # replaces the latched message

    def _free(self, timeout_s: float) -> bool:
        """Free the model, and return whether no call of it is running any more."""
        server, self._requests.server = self._requests.server, None
        self._forget_model()
        self._diagnostics.hardware_id = ""
        self._parameters_of.unconfigured()
        if server is None or server.close(timeout_s):
            return True
        self.get_logger().warning(
            f"a call of the model has not returned within {timeout_s:.1f} s; "
            "the model's memory is freed when it returns"
        )
        return False

    def _refuse(self, sentence: str) -> TransitionCallbackReturn:
        self._free(_END_S)
        self.get_logger().error(sentence)
        self._problem = sentence
        self._enter("unconfigured")
        return _FAILED

    def _enter(self, name: str) -> None:
        if not self._transitions.closed:  # shutting down is the last state
            self._requests.state = name

    def _report(self, name: str) -> None:
        self._enter(name)
        self.get_logger().info(f"{name}" if self._loaded is None else f"{name}: {self._loaded.info.name}")
