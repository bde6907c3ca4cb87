"""Generate the reference of the command line from the typer application."""

import inspect
from typing import Any

import typer.main

from edgegpt.cli.main import app


def cli_page() -> str:
    """Return Markdown with one section per command: usage, arguments, options with defaults and ranges."""
    group: Any = typer.main.get_command(app)
    sections = [_command(name, command) for name, command in group.commands.items()]
    head = (
        "# Command line\n\n"
        "Every command has `--help` and `--json`. Exit codes: 0 done, 1 a check failed, 2 bad input, "
        "130 interrupted by Ctrl-C; see [errors and exit codes](errors.md).\n"
    )
    return "\n".join([head, *sections])


def _command(name: str, command: Any) -> str:
    parameters = [p for p in command.params if p.name != "help"]
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    options = [p for p in parameters if p.param_type_name == "option"]
    usage = " ".join(["edgegpt", name, *(_metavar(p) for p in arguments), "[OPTIONS]"])
    lines = [f"## edgegpt {name}", "", inspect.cleandoc(command.help or ""), "", "```text", usage, "```", ""]
    if arguments:
        lines += ["| argument | |", "|---|---|"]
        lines += [f"| `{_metavar(p)}` | {_cell(p.help)} |" for p in arguments]
        lines.append("")
    lines += ["| option | default | |", "|---|---|---|"]
    lines += [f"| {_names(p)} | {_default(p)} | {_cell(p.help)}{_range(p)} |" for p in options]
    return "\n".join([*lines, ""])


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).strip("{}").replace(" ", "_")


def _names(parameter: Any) -> str:
    names = " / ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} `{parameter.metavar or _type(parameter)}`"


def _type(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    return annotation.__name__ if isinstance(annotation, type) and annotation is not list else str(annotation)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.is_flag or parameter.default in (None, [], ()):
        return ""
    return f"`{parameter.default}`"


def _range(parameter: Any) -> str:
    low, high = parameter.min, parameter.max
    if low is None and high is None:
        return ""
    return f" At least {low:,}." if high is None else f" From {low:,} to {high:,}."


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
