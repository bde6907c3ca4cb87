"""Write the JSON Schemas by which an editor checks and completes our YAML files.

Run `python -m edgegpt.schemas` in the repository after a change to a config class.
"""

import json
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from edgegpt.atomic import write_text
from edgegpt.config import ModelConfig

FOLDER: Final = Path("configs/schemas")
SCHEMAS: Final[dict[str, type[BaseModel]]] = {"model.schema.json": ModelConfig}


def schema_text(model: type[BaseModel]) -> str:
    """The JSON Schema of one config class, as the text of its file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, model in SCHEMAS.items():
        write_text(FOLDER / name, schema_text(model))
