"""The interfaces are built, and what they say by default is what they document."""

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
from edgegpt.runtime.reply import Timing, Usage
from edgegpt.runtime.sampling import SamplingParams

from .workspace import WORKSPACE, start

SOURCES = WORKSPACE / "src" / "edgegpt_msgs"
INTERFACES = sorted(path.relative_to(SOURCES) for path in SOURCES.glob("*/*.*"))

# Each means "the node's own". No number is one that SamplingParams accepts.
NODES_OWN = {
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


def test_options_default_to_the_nodes_own() -> None:
    options = GenerationOptions()
    assert {name: getattr(options, name) for name in names(options)} == NODES_OWN


def test_options_have_every_field_of_sampling_params() -> None:
    assert {field.name for field in fields(SamplingParams)} <= set(names(GenerationOptions))


@pytest.mark.parametrize("name", [field.name for field in fields(SamplingParams) if field.name != "stop"])
def test_no_default_is_a_value_that_a_request_could_mean(name: str) -> None:
    with pytest.raises(SamplingError):
        SamplingParams(**{name: NODES_OWN[name]})


def test_a_fresh_seed_can_be_asked_for_and_is_no_seed() -> None:
    assert GenerationOptions.SEED_FRESH not in (NODES_OWN["seed"], *range(1000))
    assert GenerationOptions.SEED_FRESH < 0


def test_stats_are_named_as_usage_and_timing() -> None:
    assert names(GenerationStats) == [field.name for kind in (Usage, Timing) for field in fields(kind)]


def test_a_chunk_is_as_the_design_says() -> None:
    assert TokenChunk.get_fields_and_field_types() == {
        "request_id": "string",
        "index": "uint32",
        "byte_offset": "uint32",
        "text": "string",
        "last": "boolean",
    }


def test_the_service_asks_and_answers_as_the_action() -> None:
    goal, result = Generate.Goal.get_fields_and_field_types(), Generate.Result.get_fields_and_field_types()
    assert list(goal) == ["prompt", "session", "options"]
    assert list(result) == ["text", "finish_reason", "error_code", "error", "stats"]
    assert Complete.Request.get_fields_and_field_types() == goal
    assert Complete.Response.get_fields_and_field_types() == result
    assert names(Generate.Feedback) == ["chunk"]


def test_no_news_is_no_error() -> None:
    assert ErrorCode.OK == Generate.Result().error_code == Complete.Response().error_code == 0
    assert CountTokens.Response().error_code == ErrorCode.OK
    codes = [ErrorCode.OK, ErrorCode.INVALID_REQUEST, ErrorCode.NOT_ACTIVE, ErrorCode.REJECTED]
    assert [*codes, ErrorCode.PREEMPTED, ErrorCode.ENGINE] == list(range(6))


def test_model_info_tells_the_nodes_own_options() -> None:
    assert isinstance(ModelInfo().options, GenerationOptions)


@pytest.mark.parametrize("path", INTERFACES, ids=str)
def test_every_field_is_commented(path: Path) -> None:
    """A comment above a field speaks for it and for those that follow without a blank line."""
    uncommented = []
    for block in (SOURCES / path).read_text(encoding="utf-8").replace("---\n", "\n").split("\n\n"):
        lines = [line for line in block.splitlines() if line]
        declares = [line for line in lines if not line.startswith("#")]
        # Whole messages explain themselves in their own file.
        known = {"GenerationOptions options", "GenerationStats stats", "TokenChunk chunk", "uint8 OK=0"}
        if declares and not lines[0].startswith("#") and not known.issuperset(declares):
            uncommented += declares
    assert not uncommented


def test_edgegpt_and_rclpy_share_a_process_without_torch(ros_env: dict[str, str]) -> None:
    code = "import sys, rclpy, edgegpt_msgs.msg, edgegpt.generator; print('torch' in sys.modules)"
    process = start([sys.executable, "-c", code], ros_env, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (out.strip(), err) == ("False", "")
