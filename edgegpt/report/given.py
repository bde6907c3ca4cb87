"""What is given beside the model, a budget and a profile: read once, and hashed as it was read."""

import hashlib
from pathlib import Path

from edgegpt.budget.budget import Budget
from edgegpt.config.schema import parse_model
from edgegpt.config.yaml_reader import read_bytes
from edgegpt.prediction.target import Target


def read_budget(path: Path) -> tuple[Budget, str]:
    """A budget file and the sha256 of the very bytes that say so; raises ConfigError."""
    content = read_bytes(path)
    return Budget.parse(content, path), hashlib.sha256(content).hexdigest()


def read_target(path: Path) -> tuple[Target, str]:
    """A target file and the sha256 of the very bytes that say so; raises ConfigError."""
    content = read_bytes(path)
    return parse_model(content, path, Target), hashlib.sha256(content).hexdigest()
