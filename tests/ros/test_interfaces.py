"""The interfaces are built, their defaults are the documented ones, and every field has a comment."""

import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import ErrorCode, GenerationOptions, GenerationStats, ModelInfo, TokenChunk
from edgegpt_msgs.srv import Complete, CountTokens

from edgegpt.errors import SamplingError
from edgegpt.runtime import SamplingParams, Timing, Usage

from .helpers.process import WORKSPACE, start

SOURCES = WORKSPACE / "src" / "edgegpt_msgs"
INTERFACES = sorted(path.relative_to(SOURCES) for path in SOURCES.glob("*/*.*"))

# Each means "the node's own". No number is one that SamplingParams accepts.
NODES_OWN: dict[str, Any] = {
    "max_new_tokens": -1,
    "temperature": -1.0,
    "top_k": -1,
    "top_p": -1.0,
    "min_p": -1.0,
    "repetition_penalty": -1.0,
    "seed": -1,
    "stop": [],
    "deadline_ms": -1.0,
    "schema": "",
    "regex": "",
    "choices": [],
    "unconstrained": False,
    "stream": -1,
    "priority": 0,
}


def names(message: Any) -> list[str]:
    return list(message.get_fields_and_field_types())


@pytest.mark.parametrize("path", INTERFACES, ids=str)
def test_every_interface_is_built_and_has_type_support(path: Path) -> None:
    interface = getattr(import_module(f"edgegpt_msgs.{path.parent}"), path.stem)
    interface.__import_type_support__()
    assert interface._TYPE_SUPPORT is not None


def test_options_are_those_of_sampling_params_and_default_to_the_nodes_own() -> None:
    options = GenerationOptions()
    assert {name: getattr(options, name) for name in names(options)} == NODES_OWN
    assert {field.name for field in fields(SamplingParams)} <= set(names(options))
    assert isinstance(ModelInfo().options, GenerationOptions)
    assert GenerationOptions.SEED_FRESH < NODES_OWN["seed"] < 0


@pytest.mark.parametrize("name", [field.name for field in fields(SamplingParams) if field.name != "stop"])
def test_no_default_is_a_value_that_a_request_could_mean(name: str) -> None:
    with pytest.raises(SamplingError):
        SamplingParams(**{name: NODES_OWN[name]})


def test_stats_are_named_as_usage_and_timing() -> None:
    assert names(GenerationStats) == [field.name for kind in (Usage, Timing) for field in fields(kind)]


def test_the_service_has_the_fields_of_the_action() -> None:
    goal, result = Generate.Goal.get_fields_and_field_types(), Generate.Result.get_fields_and_field_types()
    assert list(goal) == ["prompt", "session", "options"]
    assert list(result) == ["text", "finish_reason", "error_code", "error", "stats"]
    assert Complete.Request.get_fields_and_field_types() == goal
    assert Complete.Response.get_fields_and_field_types() == result
    assert names(Generate.Feedback) == ["chunk"]
    assert names(TokenChunk) == ["request_id", "index", "byte_offset", "text", "last"]


def test_error_codes_are_stable_and_0_is_ok() -> None:
    codes = [ErrorCode.OK, ErrorCode.INVALID_REQUEST, ErrorCode.NOT_ACTIVE, ErrorCode.REJECTED]
    assert [*codes, ErrorCode.PREEMPTED, ErrorCode.ENGINE] == list(range(6))
    assert {m().error_code for m in (Generate.Result, Complete.Response, CountTokens.Response)} == {0}


@pytest.mark.parametrize("path", INTERFACES, ids=str)
def test_every_field_is_commented(path: Path) -> None:
    """A comment above a field covers those that follow without a blank line."""
    uncommented = []
    for block in (SOURCES / path).read_text(encoding="utf-8").replace("---\n", "\n").split("\n\n"):
        lines = [line for line in block.splitlines() if line]
        declares = [line for line in lines if not line.startswith("#")]
        # Whole messages are explained in their own file.
        known = {"GenerationOptions options", "GenerationStats stats", "TokenChunk chunk", "uint8 OK=0"}
        if declares and not lines[0].startswith("#") and not known.issuperset(declares):
            uncommented += declares
    assert not uncommented


def test_the_node_loads_no_library_of_a_workstation(ros_env: dict[str, str]) -> None:
    unwanted = {"torch", "onnx", "pydantic", "yaml", "typer", "rich", "matplotlib"}
    code = f"""
import sys, rclpy.action, rclpy.lifecycle
of_rclpy = set(sys.modules)  # rclpy itself imports yaml
import edgegpt_ros.node
print({unwanted} & (set(sys.modules) - of_rclpy))"""
    process = start([sys.executable, "-c", code], ros_env, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (out.strip(), err) == ("set()", "")
