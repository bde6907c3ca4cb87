"""The page of `edgegpt report`: self-contained, harmless, and with the numbers of its JSON."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from helpers.page_text import Page
from helpers.sample_figures import BLIND, MACHINE, SILENT
from helpers.sample_report import FIGURES, NAME, made_bench, made_check, made_report
from helpers.sample_target import TARGET

from edgegpt.accounting import account
from edgegpt.errors import ArtifactError
from edgegpt.report.facts import read_weights
from edgegpt.report.html import breakable, million, number, page, percent, size
from edgegpt.report.report import Report
from edgegpt.runtime import open_artifact, repeat_checks
from edgegpt.runtime.onnx_file import file_sha256


@pytest.fixture(scope="module")
def report(file: Path) -> Report:
    """With a budget and a profile."""
    return made_report(file, checked=made_check(file), profile=TARGET)


@pytest.fixture(scope="module")
def html(report: Report) -> str:
    return page(report)


@pytest.fixture(scope="module")
def seen(html: str) -> Page:
    return Page(html)


@pytest.fixture(scope="module")
def document(report: Report) -> Any:
    return json.loads(json.dumps(report.to_json(), allow_nan=False))


# Self-contained and harmless


def test_the_page_loads_nothing_and_runs_no_script(html: str, seen: Page) -> None:
    sources = {"src", "srcset", "data", "poster", "action", "background", "ping"}
    assert {"link", "script", "iframe", "object", "embed", "base", "form", "img"}.isdisjoint(dict(seen.tags))
    for tag, attributes in seen.tags:
        assert sources.isdisjoint(attributes), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#"), attributes
    assert not re.findall(r"url\((?!['\"]?#)|@import|https?:", html)
    (policy,) = [m["content"] for m in seen.named("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_names_from_elsewhere_are_text(report: Report, seen: Page) -> None:
    assert NAME in seen.text
    assert "<script>alert(2)</script>" in seen.text
    odd = replace(report, facts=replace(report.facts, precision=r"$\frac$"))
    assert r"$\frac$" in Page(page(odd)).text  # no formula for matplotlib


def test_the_page_has_headings_table_headers_and_labelled_charts(seen: Page) -> None:
    assert next(seen.named("html"))["lang"] == "en"
    assert len(list(seen.named("h1"))) == 1
    assert len(list(seen.named("h2"))) == 8
    assert {header.get("scope") for header in seen.named("th")} == {"row", "col"}
    assert len(list(seen.named("table"))) == len(list(seen.named("caption")))
    charts = [div for div in seen.named("div") if div.get("role") == "img"]
    assert len(charts) == len(list(seen.named("svg"))) == 6
    assert all(chart["aria-label"] for chart in charts)


def test_ids_are_unique_and_colours_are_the_pages(html: str, seen: Page) -> None:
    ids = [attributes["id"] for _, attributes in seen.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)
    charts = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert not re.findall(r"(?:fill|stroke): #", charts)
    assert set(re.findall(r"var\((--[a-z]+)\)", html)) <= set(re.findall(r"(--[a-z]+):", html))


def test_the_same_report_gives_the_same_page_whatever_the_users_matplotlibrc(
    report: Report, html: str
) -> None:
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30, "lines.linewidth": 9}):
        assert page(report) == html


# Numbers on the page = numbers in the JSON


def test_the_page_names_the_file_its_origin_and_the_machine(seen: Page, document: Any, file: Path) -> None:
    artifact = open_artifact(file)
    assert document["file"]["sha256"] == file_sha256(file)
    assert document["file"]["config"]["n_layer"] == 2
    facts = [document["file"]["sha256"], document["budget_sha256"], document["target_sha256"]]
    facts += [artifact.weights_sha256, artifact.tool, MACHINE.cpu, "2026-01-02 03:04"]
    assert [fact for fact in facts if fact not in seen.text] == []


def test_the_verification_is_on_the_page_with_its_limits(seen: Page, document: Any) -> None:
    rows, evidence = seen.rows, document["evidence"]
    assert [row["tokens"] for row in evidence["lengths"]] == [1, 2, 7, 47, 48]
    for row in evidence["lengths"]:
        values = [str(row["tokens"]), number(row["max_abs"]), number(row["kl"]), percent(row["top1"])]
        assert [*(value.replace("\xa0", " ") for value in values), "✓ passed"] in rows
    for check in [*evidence["checks"], *document["repeated"]]:
        assert [check["name"], number(check["value"]), f"{check['limit']:g}", "✓ passed"] in rows


def test_every_time_is_on_the_page(seen: Page, document: Any) -> None:
    bench = document["bench"]
    for part in [*bench["token_ms"], *bench["first_token_ms"]]:
        low, high = part["p50_interval"]
        interval = f"{number(low)} to {'?' if high is None else number(high)}"
        times = [number(part[name]) for name in ("p50", "p90", "p99", "max", "jitter")]
        head = str(part.get("cache_fill", part.get("prompt_tokens")))
        assert [row for row in seen.rows if row[:7] == [head, times[0], interval, *times[1:]]], part
    assert bench["token_ms"][0]["p50"] == 2.0
    for name in ("load_ms", "first_reply_ms", "tokenise_ms", "draw_ms"):
        assert f"{number(bench[name]['p50'])} ms" in seen.text, name


def test_every_limit_is_on_the_page_with_its_verdict(seen: Page, document: Any) -> None:
    verdicts = ("kept", "BROKEN", "within noise")
    limits = [row for row in seen.rows if len(row) == 6 and row[5][2:] in verdicts]
    assert limits == [
        ["parameters", "1,000,000", "50,000", "", "+95%", "✓ kept"],
        ["artifact_mb", "0.1", "0.250", "", "-150%", "✗ BROKEN"],
        ["peak_rss_mb", "100", "99", "97.5 to 101", "+1%", "? within noise"],
    ]
    assert document["passed"] is False
    assert document["budget"]["broken"] is True
    (broken,) = document["broken"]
    assert "artifact_mb" in broken


def test_work_predictions_and_commands_are_on_the_page(seen: Page, document: Any) -> None:
    for points in document["roofline"].values():
        for point in points:
            rates = (point["flops"] / 1e6, point["bytes"] / 1e6, point["flops_per_second"] / 1e9)
            assert [row for row in seen.rows if row[1:4] == [number(rate) for rate in rates]], point
    for figure in document["prediction"]["figures"]:
        values = [number(figure["predicted"]), number(figure["measured"])]
        assert [f"{figure['name']}, {figure['unit']}", *values] in seen.rows
    lines = [command["line"] for command in document["commands"]]
    assert [line for line in lines if " ".join(line.split()) not in seen.text] == []


# Verdict


def test_without_a_budget_the_page_passes_unless_a_check_fails_here(file: Path) -> None:
    report = made_report(file)
    assert report.passed
    assert "failed" not in Page(page(report)).classes()
    assert report.to_json()["budget"] is None
    bad = replace(report, repeated=(replace(report.repeated[0], value=float("nan")), report.repeated[1]))
    assert not bad.passed
    (sentence,) = bad.unproved
    assert "causality" in sentence
    assert {"failed", "bad"} <= Page(page(bad)).classes()


def test_noise_and_advice_are_on_the_page_and_what_the_system_does_not_report_is_unknown(file: Path) -> None:
    checked = replace(made_check(file), advice=("more seconds would be enough",))
    bench = replace(made_bench(file, replace(FIGURES, **BLIND), SILENT), noise=("the load was 9",))
    shown = Page(page(made_report(file, bench=bench, checked=checked)))
    assert "warning" in shown.classes()
    assert "the load was 9" in shown.text
    assert "more seconds would be enough" in shown.text
    assert ["peak", "unknown", "", ""] in shown.rows
    assert len(list(shown.named("svg"))) == 5  # none of memory


def test_checks_are_repeated_on_this_machine(int8_file: Path) -> None:
    steps: list[str] = []
    checks = repeat_checks(open_artifact(int8_file), 1, steps.append)
    assert [check.name for check in checks] == ["causality", "stepwise = whole", "determinism"]
    assert all(check.passed for check in checks)
    assert len(steps) == 3


# Weights


@pytest.mark.parametrize("which", ["file", "int8_file"])
def test_the_components_add_up_to_the_file(which: str, request: pytest.FixtureRequest) -> None:
    artifact = open_artifact(request.getfixturevalue(which))
    weights = read_weights(artifact)
    total = account(artifact.config).total
    named = total.weight_bytes.fp32 if artifact.precision == "fp32" else total.weight_bytes.int8
    assert sum(part.here for part in weights.components) == weights.bytes == named
    assert sum(part.parameters for part in weights.components) == total.parameters
    assert weights.bytes + weights.around == artifact.bytes
    assert 0 < weights.around < 0.5 * artifact.bytes


def test_the_recipe_is_shown_by_kind_and_a_mixed_one_by_block(int8_file: Path) -> None:
    report, artifact = made_report(int8_file), open_artifact(int8_file)
    assert ["attn.qkv", "96 × 32", "2", "8", "32"] in [row[:5] for row in Page(page(report)).rows]
    bits = {**artifact.recipe["bits"], "blocks.1.attn.qkv.weight": 4}
    mixed = {"bits": bits, "limit": {"max_kl": 0.01}, "kl": 0.002, "measured_on": "<i>text</i>"}
    weights = read_weights(replace(artifact, precision="auto", recipe=mixed))
    shown = Page(page(replace(report, weights=weights)))
    assert ["attn.qkv", "96 × 32", "2", "4, 8", "32"] in [row[:5] for row in shown.rows]
    assert ["1", "4", "8", "8", "8"] in shown.rows
    for value in ("max_kl 0.01", "0.00200", "<i>text</i>"):
        assert value in shown.text


@pytest.mark.parametrize("bits", [{}, {"wte.weight": 3}, [4], None])
def test_a_recipe_of_another_model_is_refused(int8_file: Path, bits: object) -> None:
    artifact = replace(open_artifact(int8_file), recipe={"bits": bits})
    with pytest.raises(ArtifactError, match=re.escape(str(int8_file))):
        read_weights(artifact)


# Numbers as text


def test_numbers_have_three_significant_digits() -> None:
    numbers = [0.0, 1e-6, 0.00123, 0.37, 12.0, 12.34, 150.4, 999.7, 7_760_000, -1e300, float("nan")]
    texts = "0 1.0e-6 0.00123 0.370 12 12.3 150 1,000 7,760,000 -1.0e300 nan"
    assert [number(value) for value in numbers] == texts.split()


def test_units_and_names_fit_the_page() -> None:
    sizes = [size(n).replace("\xa0", " ") for n in (12, 1234, 250_000, 1.2e9)]
    assert sizes == ["12 bytes", "1.23 kB", "0.250 MB", "1,200 MB"]
    assert [million(n) for n in (32_192, 1_937_280, 1.2e9)] == ["32,192", "1.94 M", "1.20 G"]
    assert percent(0.9996) == "99.96\xa0%"
    assert breakable("a_b<c>.d") == "a_<wbr>b&lt;c&gt;.<wbr>d"
