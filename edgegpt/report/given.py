"""What is given beside the model, a budget and a profile: read once, and hashed as it was read."""

import hashlib
from pathlib import Path

from edgegpt.budget import Budget
from edgegpt.target import Target
from edgegpt.yaml_file import read_bytes
from edgegpt.yaml_model import parse_model


def read_budget(path: Path) -> tuple[Budget, str]:
    """A budget file and the sha256 of the very bytes that say so; raises ConfigError."""
    content = read_bytes(path)
    return Budget.parse(content, path), hashlib.sha256(content).hexdigest()


def read_target(path: Path) -> tuple[Target, str]:
    """A target file and the sha256 of the very bytes that say so; raises ConfigError."""
    content = read_bytes(path)
    return parse_model(content, path, Target), hashlib.sha256(content).hexdigest()
