"""What a maker of graphs has to offer; `edgegpt_export.synthetic` is one, and needs onnx."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from edgegpt.config.model import ModelConfig

# Writes an engine file of a config with random weights: path, config, precision.
WriteFile = Callable[[Path, ModelConfig, str], None]


class Graphs(Protocol):
    """Serialised models of one kind of node; inputs and outputs as edgegpt_export.op_graphs says."""

    def products(self, n: int, outputs: int, inputs: int, bits: int) -> bytes:
        """n products with a matrix each."""

    def write_products(self, path: Path, n: int, outputs: int, inputs: int, bits: int) -> None:
        """The same as a file, with its weights where an engine file has them."""

    def attention(self, n_layer: int, n_head: int, head_dim: int) -> bytes:
        """n_layer times attention, a cache each."""

    def norms(self, n: int, width: int) -> bytes:
        """A chain of n."""

    def gelus(self, n: int, width: int) -> bytes:
        """A chain of n."""

    def additions(self, n: int, width: int) -> bytes:
        """A chain of n."""

    def lookups(self, n: int, rows: int, width: int, bits: int) -> bytes:
        """n lookups with a table each."""
