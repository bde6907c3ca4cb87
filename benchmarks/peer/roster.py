"""Who takes part: one row per engine and precision."""

from dataclasses import dataclass
from importlib import metadata

from edgegpt.runtime import LIMITS


@dataclass(frozen=True)
class Row:
    """One engine at one precision.

    Attributes:
        name: as the table shows it.
        module: of this package.
        variant: what that module calls the precision.
        bits: of the weights; 32 computes what edgegpt's fp32 computes.
        package: the distribution whose version counts.
    """

    name: str
    module: str
    variant: str
    bits: int
    package: str

    @property
    def is_ours(self) -> bool:
        """Whether this is edgegpt, with which the others are compared."""
        return self.module == "ours"


REFERENCE = "edgegpt fp32"  # every other row's logits are compared with these

_OURS = {
    precision: bits for precision, bits in (("fp32", 32), ("int8", 8), ("int4", 4)) if precision in LIMITS
}

ROSTER = [
    *(Row(f"edgegpt {p}", "ours", p, bits, "onnxruntime") for p, bits in _OURS.items()),
    *(
        Row(f"onnxruntime-genai, our {p} file", "genai", p, bits, "onnxruntime-genai")
        for p, bits in _OURS.items()
    ),
    Row("CTranslate2 float32", "ctranslate", "float32", 32, "ctranslate2"),
    Row("CTranslate2 int8", "ctranslate", "int8", 8, "ctranslate2"),
    Row("llama.cpp F32", "llama", "F32", 32, "llama-cpp-python"),
    Row("llama.cpp Q8_0", "llama", "Q8_0", 8, "llama-cpp-python"),
    Row("llama.cpp Q4_0", "llama", "Q4_0", 4, "llama-cpp-python"),
    Row("OpenVINO, our portable file", "openvino_states", "f32", 32, "openvino"),
    Row("transformers", "hf", "fp32", 32, "transformers"),
]


NOT_INSTALLED = "not installed"


def version(row: Row) -> str:
    """The installed version of a row's package, or that there is none."""
    try:
        return metadata.version(row.package)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
