"""The node's parameters: names, defaults, ranges, and which combinations are valid."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, Literal, get_args

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from edgegpt.errors import ConfigError, EdgeGPTError, first_line
from edgegpt.runtime import SamplingParams
from edgegpt.serving import Overload
from edgegpt_ros.convert import params_of
from edgegpt_ros.qos import CHUNK_DEPTH

# When a parameter may be changed: never, while no model is loaded, or at any time for the next request.
Change = Literal["read-only", "unconfigured", "always"]

_INT32: Final = 2**31 - 1


@dataclass(frozen=True)
class Entry:
    """One parameter. The range includes both ends; a double also accepts an integer."""

    name: str
    default: bool | int | float | str | list[str]
    change: Change
    description: str
    range: tuple[float, float] | None = None


PARAMETERS: Final = (
    Entry("autostart", True, "read-only", "Configure and activate at startup."),
    Entry(
        "tokens_depth",
        CHUNK_DEPTH,
        "read-only",
        "Queue depth of the topic `tokens`, in chunks.",
        (1, 100_000),
    ),
    Entry("model", "", "unconfigured", "Path of the .onnx file made by `edgegpt export`."),
    Entry("budget", "", "unconfigured", "Path of a budget file that the model must keep; empty: none."),
    Entry(
        "threads",
        1,
        "unconfigured",
        "CPU threads per call of the model; 0: the result of `edgegpt tune` on this machine, or 1.",
        (0, 64),
    ),
    Entry(
        "capacity",
        0,
        "unconfigured",
        "Context length in tokens, prompt and answer together; 0: the model's block_size.",
        (0, _INT32),
    ),
    Entry(
        "overload",
        "queue",
        "unconfigured",
        "Policy for a request that arrives while another one is running: reject, queue, preempt or latest.",
    ),
    Entry("queue_depth", 8, "unconfigured", "Maximum number of waiting requests.", (0, 10_000)),
    Entry(
        "session_bytes",
        256 * 2**20,
        "unconfigured",
        "Maximum bytes of the KV caches of all sessions together; 0: no sessions.",
        (0, 2**62),
    ),
    Entry(
        "session_ttl_s",
        600.0,
        "unconfigured",
        "Seconds without use after which a session is dropped.",
        (0.001, 1e9),
    ),
    Entry("stream", True, "always", "Stream answers unless the request says otherwise."),
    Entry(
        "chunk_ms",
        20.0,
        "always",
        "Minimum milliseconds between two chunks of an answer; 0: a chunk per token.",
        (0.0, 60_000.0),
    ),
    Entry(
        "max_new_tokens",
        -1,
        "always",
        "Maximum number of generated tokens; -1: the model's own.",
        (-1, _INT32),
    ),
    Entry(
        "temperature",
        -1.0,
        "always",
        "Divisor of the logits; 0: greedy; -1: the model's own.",
        (-1.0, 1000.0),
    ),
    Entry(
        "top_k",
        -1,
        "always",
        "Sample from this many most likely tokens; 0: off; -1: the model's own.",
        (-1, _INT32),
    ),
    Entry(
        "top_p",
        -1.0,
        "always",
        "Sample from the most likely tokens with this total probability; 1: off; -1: the model's own.",
        (-1.0, 1.0),
    ),
    Entry(
        "min_p",
        -1.0,
        "always",
        "Drop tokens below this fraction of the top probability; 0: off; -1: the model's own.",
        (-1.0, 1.0),
    ),
    Entry(
        "repetition_penalty",
        -1.0,
        "always",
        "Above 1: tokens that already occurred become less likely; 1: off; -1: the model's own.",
        (-1.0, 100.0),
    ),
    Entry(
        "seed",
        -1,
        "always",
        "Random seed of every request; -2: a fresh one each; -1: the model's own.",
        (-2, 2**63 - 1),
    ),
    Entry("stop", [], "always", "Strings that end an answer; ['']: none; []: the model's own."),
    Entry(
        "deadline_ms",
        -1.0,
        "always",
        "Deadline of a request in milliseconds from its arrival; 0: none; -1: the model's own.",
        (-1.0, 1e9),
    ),
)


_ENTRIES: Final = {entry.name: entry for entry in PARAMETERS}


class Parameters:
    """The parameters of one node. A refused change leaves all values as they were."""

    def __init__(self, node: Node, on_change: Callable[[], None]) -> None:
        """Declare all parameters; an invalid initial value is reported in `problem`, and the default used.

        `on_change` is called after parameters were set.
        """
        self._node = node
        self._on_change = on_change
        self.unconfigured()
        self._problems: dict[str, str] = {}
        given = node._parameter_overrides  # rclpy has no public access to them
        for entry in PARAMETERS:
            self._declare(entry, given.get(entry.name))
        self._check_combination()
        for name in sorted(given):
            if not node.has_parameter(name) and not name.startswith("qos_overrides"):
                node.get_logger().warning(f"there is no parameter {name!r}; its value is ignored")
        node.add_pre_set_parameters_callback(self._to_declared)
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._changed)

    @property
    def values(self) -> dict[str, Any]:
        """Return all values by name."""
        return {name: self._node.get_parameter(name).value for name in _ENTRIES}

    @property
    def problem(self) -> str:
        """Return what is wrong with the initial values; empty once they have been corrected."""
        return " ".join(self._problems.values())

    def configuring(self) -> None:
        """Fix the parameters that only an unconfigured node may change: a model is being loaded."""
        self._fixed = True

    def configured(self, sampling: SamplingParams, context: int) -> None:
        """Check the parameters against the loaded model.

        Args:
            sampling: the model's own sampling defaults.
            context: its context length in tokens.

        Raises:
            ConfigError: the parameters are not valid for this model.
        """
        self._sampling, self._context = sampling, context
        if reason := self._refusal(self.values):
            raise ConfigError(reason)

    def unconfigured(self) -> None:
        """Allow all changes again: no model is loaded."""
        self._fixed, self._sampling, self._context = False, SamplingParams(), 0

    def own(self) -> SamplingParams:
        """Return the sampling options of a request that sets none.

        Raises:
            SamplingError: a parameter is outside its range.
        """
        return params_of(SimpleNamespace(**self.values), self._sampling)

    def _declare(self, entry: Entry, given: Parameter | None) -> None:
        value: Any = entry.default
        if given is not None:
            given = _as_declared(given)
            if isinstance(entry.default, list) and given.type_ == Parameter.Type.NOT_SET:
                given = Parameter(entry.name, Parameter.Type.STRING_ARRAY, [])  # rcl has no type for []
            if reason := _misfit(entry, given):
                self._problems[entry.name] = reason
            else:
                value = given.value
        if isinstance(entry.default, list):  # declared by type: rclpy takes [] for a list of bytes
            kind = Parameter.Type.STRING_ARRAY
            self._node.declare_parameter(entry.name, kind, _descriptor(entry), ignore_override=True)
            self._node.set_parameters([Parameter(entry.name, kind, value)])
        else:
            self._node.declare_parameter(entry.name, value, _descriptor(entry), ignore_override=True)

    def _to_declared(self, parameters: list[Parameter]) -> list[Parameter]:
        return [_as_declared(parameter) for parameter in parameters]

    def _check(self, parameters: list[Parameter]) -> SetParametersResult:
        try:
            new = {parameter.name: parameter.value for parameter in parameters if parameter.name in _ENTRIES}
            reason = self._too_late(new) or self._refusal({**self.values, **new})
        except Exception as error:  # rclpy's spin would end with it
            reason = f"the parameters cannot be checked: {error!r}"
        return SetParametersResult(successful=not reason, reason=reason)

    def _changed(self, parameters: list[Parameter]) -> None:
        try:
            for parameter in parameters:
                self._problems.pop(parameter.name, None)
            self._check_combination()
            if any(parameter.name in _ENTRIES for parameter in parameters):
                self._on_change()
        except Exception as error:  # rclpy's spin would end with it
            self._node.get_logger().error(f"the parameters were set but not applied: {first_line(error)}")

    def _check_combination(self) -> None:
        self._problems.pop("", None)
        if reason := self._refusal(self.values):
            self._problems[""] = reason

    def _too_late(self, new: Mapping[str, Any]) -> str:
        if self._fixed:
            for name, value in new.items():
                if _ENTRIES[name].change == "unconfigured" and value != self._node.get_parameter(name).value:
                    return f"{name} can be changed only while the node is unconfigured, got {value!r}"
        return ""

    def _refusal(self, values: Mapping[str, Any]) -> str:
        """Return why these values are not valid together; empty when they are."""
        if values["overload"] not in get_args(Overload):
            return f"overload must be one of {', '.join(get_args(Overload))}, got {values['overload']!r}"
        capacity, depth, most = values["capacity"], values["tokens_depth"], values["max_new_tokens"]
        if capacity > depth:
            return f"capacity must be at most tokens_depth, or chunks get lost, got {capacity} and {depth}"
        if 0 < capacity <= most:
            return f"max_new_tokens must be below capacity, got {most} and {capacity}"
        if 0 < self._context <= most:
            return f"max_new_tokens must be below the model's context, got {most} and {self._context}"
        try:
            params_of(SimpleNamespace(**values), self._sampling)
        except EdgeGPTError as error:
            return str(error)
        return ""


def _as_declared(parameter: Parameter) -> Parameter:
    """Return the parameter with its declared type; an integer becomes a double, and [] a list of strings."""
    entry = _ENTRIES.get(parameter.name)
    if entry is None:
        return parameter
    if isinstance(entry.default, float) and parameter.type_ == Parameter.Type.INTEGER:
        return Parameter(parameter.name, Parameter.Type.DOUBLE, float(parameter.value))
    # An empty list arrives as one of bytes, or of any type that the sender's library chose.
    if isinstance(entry.default, list) and parameter.type_.name.endswith("_ARRAY") and not parameter.value:
        return Parameter(parameter.name, Parameter.Type.STRING_ARRAY, [])
    return parameter


def _misfit(entry: Entry, given: Parameter) -> str:
    """Return why an initial value cannot be declared; empty when it can."""
    if given.type_ != _type_of(entry):
        wanted = _type_of(entry).name.lower().replace("_", " ")
        return f"{entry.name} must be of type {wanted}, got {given.value!r}."
    if entry.range is not None and not entry.range[0] <= given.value <= entry.range[1]:
        return f"{entry.name} must be from {entry.range[0]} to {entry.range[1]}, got {given.value!r}."
    return ""


def _type_of(entry: Entry) -> Parameter.Type:
    if isinstance(entry.default, list):
        return Parameter.Type.STRING_ARRAY
    return Parameter.Type.from_parameter_value(entry.default)


def _descriptor(entry: Entry) -> ParameterDescriptor:
    descriptor = ParameterDescriptor(
        description=entry.description,
        additional_constraints="only while unconfigured" if entry.change == "unconfigured" else "",
        read_only=entry.change == "read-only",
    )
    if entry.range is not None:
        low, high = entry.range
        if isinstance(entry.default, float):
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=float(low), to_value=float(high))
            ]
        else:
            descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    return descriptor
