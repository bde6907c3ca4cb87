"""Turn a checkpoint into a verified ONNX file, on a workstation.

Public names are imported when they are first used: `graph` and `synthetic` build graphs from arrays with
onnx alone, and importing them must not load torch.
"""

from typing import TYPE_CHECKING

from edgegpt import lazy_names
from edgegpt.runtime import Evidence as Evidence

if TYPE_CHECKING:
    from edgegpt_export.export import ExportReport as ExportReport, export_checkpoint as export_checkpoint
    from edgegpt_export.graph import build_engine_graph as build_engine_graph
    from edgegpt_export.verify import verify_file as verify_file

__getattr__ = lazy_names(
    __name__,
    {
        "export": "ExportReport export_checkpoint",
        "graph": "build_engine_graph",
        "verify": "verify_file",
    },
)
