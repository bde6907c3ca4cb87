"""From a checkpoint to a verified ONNX file. For the workstation; the robot does without.

The public names are loaded when they are first used: what builds graphs from arrays (`graph`,
`op_graphs`, `random_file`) needs onnx and no torch, and shall not wait for it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgegpt_export.evidence import Evidence
    from edgegpt_export.export import ExportReport, export_checkpoint
    from edgegpt_export.graph import build_engine_graph
    from edgegpt_export.verify import verify_file

__all__ = ["Evidence", "ExportReport", "build_engine_graph", "export_checkpoint", "verify_file"]

_HOME = {
    "Evidence": "evidence",
    "ExportReport": "export",
    "build_engine_graph": "graph",
    "export_checkpoint": "export",
    "verify_file": "verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'edgegpt_export' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"edgegpt_export.{_HOME[name]}"), name)
    globals()[name] = value
    return value
