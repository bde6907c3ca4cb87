"""From a checkpoint to a verified ONNX file. For the workstation; the robot does without."""

from edgegpt_export.evidence import Evidence
from edgegpt_export.export import ExportReport, export_checkpoint
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.verify import verify_file

__all__ = ["Evidence", "ExportReport", "build_engine_graph", "export_checkpoint", "verify_file"]
