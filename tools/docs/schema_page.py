"""Generate the reference of the YAML files from their JSON Schemas."""

import json
from pathlib import Path
from typing import Any

_FILES = {
    "model": "Model config: the shape of a GPT, as in `configs/models/`.",
    "training": "Run file of `edgegpt train`, as in `configs/training/`.",
    "budget": "Limits of `edgegpt check` and `edgegpt plan`, as in `configs/budgets/`.",
    "target": "Board profile written by `edgegpt profile`, as in `configs/targets/`.",
}


def schema_page(folder: Path) -> str:
    """Return Markdown with one section per schema, and a table of keys for each object in it."""
    parts = [
        "# YAML schemas\n\n"
        "Editors with a YAML language server complete and check these files from `configs/schemas/`: begin a "
        "file with `# yaml-language-server: $schema=PATH`. Unknown and duplicate keys are errors.\n"
    ]
    for path in sorted(folder.glob("*.schema.json"), key=lambda p: list(_FILES).index(p.name.split(".")[0])):
        kind = path.name.split(".")[0]
        schema = json.loads(path.read_text(encoding="utf-8"))
        parts.append(f"## {kind.capitalize()}\n\n{_FILES[kind]}\n\n{_keys(schema, kind)}")
        for name, definition in schema.get("$defs", {}).items():
            if "properties" in definition:
                # explicit ids: two schemas may define an object of one name
                title = f"### {name} {{ #{kind}-{name.lower()} }}"
                parts.append(f"{title}\n\n{_line(definition)}\n\n{_keys(definition, kind)}")
    return "\n".join(parts)


def _keys(thing: dict[str, Any], kind: str) -> str:
    required = set(thing.get("required", ()))
    rows = ["| key | type | default | |", "|---|---|---|---|"]
    for key, value in thing.get("properties", {}).items():
        default = "required" if key in required else f"`{json.dumps(value.get('default'))}`"
        rows.append(f"| `{key}` | {_type(value, kind)} | {default} | {_line(value)}{_limits(value)} |")
    return "\n".join([*rows, ""])


def _type(value: dict[str, Any], kind: str) -> str:
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{kind}-{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in value:
            return " or ".join(dict.fromkeys(_type(choice, kind) for choice in value[key]))
    if "enum" in value:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in value["enum"])
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}), kind)}"
    if value.get("type") == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"map to {_type(value['additionalProperties'], kind)}"
    return str(value.get("type", "any"))


def _limits(value: dict[str, Any]) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    found: dict[str, None] = {}
    for choice in [value, *value.get("anyOf", ())]:
        found |= {f"{word} {choice[key]:,}": None for key, word in words.items() if key in choice}
    return f" ({', '.join(found)})" if found else ""


def _line(value: dict[str, Any]) -> str:
    return " ".join(str(value.get("description", "")).split()).replace("|", "\\|")
