"""A report for machines."""

from dataclasses import asdict
from typing import Any

from edgegpt.budget.check import check_json
from edgegpt.measure.bench import bench_json
from edgegpt.report.predicted import Predicted
from edgegpt.report.report import Report
from edgegpt.report.roofline import Point
from edgegpt.runtime.self_check import Number


def report_json(report: Report) -> dict[str, Any]:
    """Everything that the page says; bytes, milliseconds and FLOPs, as the names say."""
    facts, weights, evidence = report.facts, report.weights, report.evidence
    return {
        "made": report.made.isoformat(timespec="seconds"),
        "page": str(report.options.out),
        "passed": report.passed,
        "unproved": list(report.unproved),
        "broken": list(report.broken),
        "noise": list(report.noise),
        "file": {
            **asdict(facts),
            "path": str(facts.path),
        },
        "weights": {**asdict(weights), "bits": dict(weights.bits)},
        "evidence": {
            **asdict(evidence),
            "checks": [_number(number) for number in evidence.checks],
        },
        "repeated": [_number(number) for number in report.repeated],
        "bench": bench_json(report.bench),
        "roofline": {
            "tokens": [_point(point) for point in report.roofline.tokens],
            "prompts": [_point(point) for point in report.roofline.prompts],
        },
        "prediction": None if report.predicted is None else _predicted(report.predicted),
        "target_sha256": report.target_sha256,
        "budget": None if report.checked is None else check_json(report.checked),
        "budget_sha256": report.budget_sha256,
        "commands": [asdict(command) for command in report.commands],
    }


def _number(number: Number) -> dict[str, Any]:
    return {**asdict(number), "passed": number.passed}


def _predicted(predicted: Predicted) -> dict[str, Any]:
    figures = [{**asdict(figure), "off": figure.off} for figure in predicted.figures]
    return {**asdict(predicted), "figures": figures}


def _point(point: Point) -> dict[str, Any]:
    return {**asdict(point), "intensity": point.intensity, "flops_per_second": point.flops_per_second}
