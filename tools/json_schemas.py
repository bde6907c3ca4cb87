"""Write the JSON Schemas with which an editor checks and completes our YAML files.

Run `.venv/bin/python tools/json_schemas.py` after a change to a config class.
"""

import json
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from edgegpt.budget import Budget
from edgegpt.config import ModelConfig
from edgegpt.files import write_text
from edgegpt.prediction import Target

FOLDER: Final = Path(__file__).parents[1] / "configs" / "schemas"


def schemas() -> dict[str, str]:
    """Return file name and text of every JSON Schema."""
    from edgegpt.training import RunConfig

    classes: dict[str, type] = {
        "model": ModelConfig,
        "training": RunConfig,
        "budget": Budget,
        "target": Target,
    }
    return {f"{name}.schema.json": _text(model) for name, model in classes.items()}


def _text(model: type) -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **TypeAdapter(model).json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        write_text(FOLDER / name, text)
