"""Launch files, parameter files and the security policy name only what exists."""

import re
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from edgegpt_ros.parameters import PARAMETERS
from rclpy.action import get_action_server_names_and_types_by_node

from .helpers.peer import until
from .helpers.process import WORKSPACE, executable
from .helpers.robot import generator_and_peer

PACKAGE = WORKSPACE / "src" / "edgegpt_ros"
SHARE = WORKSPACE / "install" / "edgegpt_ros" / "share" / "edgegpt_ros"
NAMES = {entry.name: entry for entry in PARAMETERS}
LAUNCH_FILES = sorted((PACKAGE / "launch").iterdir())
PARAMETER_FILES = sorted((PACKAGE / "config").glob("*.yaml"))


def parsed(file: Path) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return the arguments by name, and the nodes, of a launch file in XML or YAML."""
    if file.suffix == ".xml":
        root = ET.parse(file).getroot()
        arguments = {arg.get("name"): dict(arg.attrib) for arg in root.iter("arg")}
        nodes = [
            {**node.attrib, "param": [dict(p.attrib) for p in node.iter("param")]}
            for node in root.iter("node")
        ]
        return arguments, nodes
    entries = yaml.safe_load(file.read_text())["launch"]
    arguments = {entry["arg"]["name"]: entry["arg"] for entry in entries if "arg" in entry}
    return arguments, [entry["node"] for entry in entries if "node" in entry]


@pytest.mark.parametrize("file", LAUNCH_FILES, ids=lambda file: file.name)
def test_a_launch_file_names_only_what_is_installed(file: Path) -> None:
    arguments, [node] = parsed(file)
    assert set(arguments) == {"model", "params_file", "namespace", "log_level"}
    assert "default" not in arguments["model"]
    assert all(argument["description"] for argument in arguments.values())
    assert Path(executable(node["exec"], node["pkg"])).exists()
    assert node["name"] == "edgegpt"
    assert {param["name"] for param in node["param"] if "name" in param} <= set(NAMES)
    assert node["param"][0] == {"from": "$(var params_file)"}  # first, so that `model` overrides it
    assert set(re.findall(r"\$\(var (\w+)\)", file.read_text())) == set(arguments)
    assert (SHARE / "launch" / file.name).exists()
    default = arguments["params_file"]["default"].removeprefix("$(find-pkg-share edgegpt_ros)/")
    assert (SHARE / default).exists()


@pytest.mark.parametrize("file", PARAMETER_FILES, ids=lambda file: file.name)
def test_a_node_starts_in_a_namespace_with_a_parameter_file(file: Path, model_file: Path) -> None:
    parameters = yaml.safe_load(file.read_text())["/**"]["ros__parameters"]
    assert {name: type(value) for name, value in parameters.items()} == {
        name: type(NAMES[name].default) for name in parameters
    }
    expected = parameters | {"model": str(model_file)}
    arguments = ["--params-file", str(file)]
    with generator_and_peer({"model": model_file}, namespace="/robot1", ros_arguments=arguments) as (_, peer):
        assert dict(zip(expected, peer.get(*expected), strict=True)) == expected


def test_the_policy_grants_exactly_what_the_node_uses(model_file: Path) -> None:
    [profile] = ET.parse(PACKAGE / "config" / "policy.xml").getroot().iter("profile")

    def allowed(kind: str, way: str) -> set[str]:
        names = [
            entry.text
            for group in profile.findall(f"{kind}s")
            if group.get(way)
            for entry in group.iter(kind)
        ]
        return {
            name if name[0] == "/" else name.replace("~", "/edgegpt") if "~" in name else f"/{name}"
            for name in names
        }

    with generator_and_peer({"model": model_file}) as (_, peer):

        def names(ask: Any) -> set[str]:
            return {name for name, _ in ask("edgegpt", "/") if "/_action/" not in name}

        node = peer.node

        def actions() -> set[str]:
            return {name for name, _ in get_action_server_names_and_types_by_node(node, "edgegpt", "/")}

        # Discovery takes time, and rclpy raises an error for a node that it has not discovered.
        until(lambda: "edgegpt" in node.get_node_names(), "node in the graph")
        for offered, expected in (
            (lambda: names(node.get_publisher_names_and_types_by_node), allowed("topic", "publish")),
            (lambda: names(node.get_subscriber_names_and_types_by_node), allowed("topic", "subscribe")),
            (lambda: names(node.get_service_names_and_types_by_node), allowed("service", "reply")),
            (actions, allowed("action", "execute")),
        ):
            with suppress(AssertionError):  # the next line shows the difference
                until(lambda offered=offered, expected=expected: offered() == expected, "match", 10)
            assert offered() == expected
