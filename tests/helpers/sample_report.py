"""A report with known times, made by hand, on a real file."""

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from edgegpt.budget import Budget, Check, Estimate, rows
from edgegpt.measure import Bandwidth, Bench, Distribution, Machine, MeasureSpec, ProcessResult
from edgegpt.prediction import Target
from edgegpt.report.commands import Options, commands
from edgegpt.report.facts import read_facts, read_weights
from edgegpt.report.report import Report
from edgegpt.report.roofline import compare, roofline
from edgegpt.runtime import CheckResult, open_artifact, read_evidence, read_file
from helpers.sample_figures import FIGURES as MADE, MACHINE

# A legal name of a file that would do harm on a page that does not escape it.
NAME = '<img src=x onerror=alert(1)> & "co" $a_b$.onnx'
BUDGET = Budget(name="<script>alert(2)</script>", parameters=1_000_000, artifact_mb=0.1, peak_rss_mb=100.0)


def around(ms: float) -> Distribution:
    return Distribution((ms,) * 97 + (1.2 * ms, 1.5 * ms, 2 * ms))


FIGURES = replace(
    MADE,
    cache_bytes=24_576,
    first_token={8: around(4.0), 32: around(11.0), 47: around(16.5)},
    token={16: around(2.0), 24: around(2.25), 35: around(2.5)},
)


def made_bench(file: Path, figures: ProcessResult = FIGURES, machine: Machine = MACHINE) -> Bench:
    return Bench(
        file=read_file(file),
        machine=machine,
        spec=MeasureSpec(bandwidth=True),
        processes=(figures,) * 3,
        first_token=figures.first_token,
        token=figures.token,
        bandwidth=(Bandwidth(16_000_000, 9e9), Bandwidth(4_000_000, 18e9)),
        noise=(),
    )


def made_check(file: Path) -> Check:
    """A check with one limit kept, one broken and one within noise."""
    figures: dict[str, Estimate | None] = {
        "parameters": Estimate.exact(50_000),
        "artifact_mb": Estimate.exact(0.25),
        "peak_rss_mb": Estimate(99.0, 97.5, 101.0),
    }
    return Check(file, BUDGET, 1, MACHINE, 6, rows(BUDGET.limits(), figures), ())


def made_report(
    file: Path, *, bench: Bench | None = None, checked: Check | None = None, profile: Target | None = None
) -> Report:
    artifact = open_artifact(file)
    bench = made_bench(file) if bench is None else bench
    facts, budget = read_facts(artifact), None if checked is None else Path("robot.yaml")
    options = Options(Path("out.html"), budget, None if profile is None else Path("board.yaml"), 1, 10.0)
    weights = read_weights(artifact)
    return Report(
        made=datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc),
        options=options,
        facts=facts,
        weights=weights,
        evidence=read_evidence(artifact),
        repeated=(CheckResult("causality", 0.0, 1e-6, "nats"), CheckResult("determinism", 0, 0, "tokens")),
        bench=bench,
        roofline=roofline(facts.config, bench),
        checked=checked,
        budget_sha256=None if checked is None else "b" * 64,
        comparison=None if profile is None else compare(profile, facts, weights, bench),
        profile_sha256=None if profile is None else "c" * 64,
        commands=commands(facts, options, bench.machine),
    )
