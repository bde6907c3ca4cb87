"""Generate the reference of the ROS 2 interfaces from the .action, .srv and .msg files."""

import re
from pathlib import Path

_PARTS = {"action": ("Goal", "Result", "Feedback"), "srv": ("Request", "Response"), "msg": ("Fields",)}
_KINDS = {"action": "action", "srv": "service", "msg": "message"}
_FIELD = re.compile(r"^(?P<type>[\w/\[\]<=]+)\s+(?P<name>\w+)\s*(?P<rest>=?\s*.*)$")


def ros_page(package: Path) -> str:
    """Return Markdown with one section per interface and one table for each of its parts."""
    sections = [
        "# ROS 2 interfaces\n\nPackage `edgegpt_msgs`. The node's topics, services and parameters: "
        "[serve over ROS 2](../how-to/serve-over-ros2.md).\n"
    ]
    for folder, parts in _PARTS.items():
        for path in sorted((package / folder).glob(f"*.{folder}")):
            sections.append(_interface(path, _KINDS[folder], parts))
    return "\n".join(sections)


def _interface(path: Path, kind: str, parts: tuple[str, ...]) -> str:
    text = path.read_text(encoding="utf-8")
    head, body = text.split("\n\n", 1)  # the comment on top describes the interface
    lines = [f"## {path.stem} ({kind})", "", _comment(head.splitlines()), ""]
    for part, fields in zip(parts, re.split(r"^---$", body, flags=re.MULTILINE), strict=True):
        if len(parts) > 1:
            lines += [f"**{part}**", ""]
        lines += [*_table(fields), ""]
    return "\n".join(lines)


def _table(fields: str) -> list[str]:
    """Return the rows; a comment describes the fields under it, up to the next empty line."""
    rows = ["| field | type | default or value | |", "|---|---|---|---|"]
    comment: list[str] = []
    for line in fields.splitlines():
        if line.startswith("#"):
            comment.append(line)
        elif not line.strip():
            comment = []
        elif match := _FIELD.match(line):
            value = match["rest"].lstrip("= ").strip()
            cell = f"`{value}`" if value else ""
            rows.append(f"| `{match['name']}` | {_type(match['type'])} | {cell} | {_comment(comment)} |")
    return rows


def _type(name: str) -> str:
    """Return the type as code, and as a link where it is a message of this package."""
    return f"[`{name}`](#{name.lower()}-message)" if name[0].isupper() else f"`{name}`"


def _comment(lines: list[str]) -> str:
    return " ".join(" ".join(line.lstrip("# ") for line in lines).split()).replace("|", "\\|")
