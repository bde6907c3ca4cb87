"""The engines and precisions that are compared."""

from dataclasses import dataclass
from importlib import metadata

from edgegpt.runtime import LIMITS


@dataclass(frozen=True)
class PeerSpec:
    """One engine at one precision.

    Attributes:
        name: name in the table.
        module: module of this package that runs it.
        variant: that module's name of the precision.
        bits: bits per weight; 32 computes the same as edgegpt fp32.
        package: distribution whose version is reported.
    """

    name: str
    module: str
    variant: str
    bits: int
    package: str

    @property
    def is_ours(self) -> bool:
        """Return whether this is edgegpt."""
        return self.module == "ours"


REFERENCE = "edgegpt fp32"  # all logits are compared with its logits

_OURS = {
    precision: bits for precision, bits in (("fp32", 32), ("int8", 8), ("int4", 4)) if precision in LIMITS
}

ROSTER = [
    *(PeerSpec(f"edgegpt {p}", "ours", p, bits, "onnxruntime") for p, bits in _OURS.items()),
    *(
        PeerSpec(f"onnxruntime-genai, our {p} file", "genai", p, bits, "onnxruntime-genai")
        for p, bits in _OURS.items()
    ),
    PeerSpec("CTranslate2 float32", "ctranslate", "float32", 32, "ctranslate2"),
    PeerSpec("CTranslate2 int8", "ctranslate", "int8", 8, "ctranslate2"),
    PeerSpec("llama.cpp F32", "llama", "F32", 32, "llama-cpp-python"),
    PeerSpec("llama.cpp Q8_0", "llama", "Q8_0", 8, "llama-cpp-python"),
    PeerSpec("llama.cpp Q4_0", "llama", "Q4_0", 4, "llama-cpp-python"),
    PeerSpec("OpenVINO, our portable file", "openvino", "f32", 32, "openvino"),
    PeerSpec("transformers", "hf", "fp32", 32, "transformers"),
]

NOT_INSTALLED = "not installed"


def version(spec: PeerSpec) -> str:
    """Return the installed version of the engine's package, or NOT_INSTALLED."""
    try:
        return metadata.version(spec.package)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
