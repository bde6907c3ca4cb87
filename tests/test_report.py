"""`edgegpt report`: what the page says of figures made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.page_text import words
from helpers.sample_report import BUDGET, FIGURES, MACHINE, made_bench, made_check, made_page, made_report

from edgegpt.accounting import account
from edgegpt.errors import ArtifactError
from edgegpt.measure.spec import ProcessResult
from edgegpt.report.facts import read_weights
from edgegpt.report.html import breakable, fixed, page, short, size
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.evidence import read_evidence
from edgegpt.runtime.onnx_file import file_sha256
from edgegpt.runtime.self_check import repeat_checks

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def html(file: Path) -> str:
    return made_page(file)


# What the page says


def test_the_page_says_what_the_file_is_and_where_it_comes_from(html: str, file: Path) -> None:
    artifact = open_artifact(file)
    text = words(html)
    for fact in (
        file_sha256(file),
        artifact.weights_sha256,
        artifact.tool,
        "2 layers, 2 heads, n_embd 32, separate head",
        "2026-01-02 03:04 UTC",
        "Hand CPU, x86_64, 4 of 4 cores, governor performance, last cache 8 MB",
        "onnxruntime 1",
        f"{file.stat().st_size:,} bytes",
    ):
        assert fact in text, fact


def test_every_number_of_the_evidence_is_there_beside_its_limit(html: str, file: Path) -> None:
    evidence, text = read_evidence(open_artifact(file)), words(html)
    assert [row.length for row in evidence.rows] == [1, 2, 7, 47, 48]
    for row in evidence.rows:
        assert f"{row.length} {short(row.max_abs)} {short(row.kl)} 100 % ✓ passed" in text
    assert "limit 1.0e-4 1.0e-6 100 %" in text
    for check in evidence.checks:
        assert f"{check.name} {check.what} {short(check.value)} {short(check.limit)} ✓ passed" in text
        assert check.what, "the page explains each check"


def test_a_budget_has_words_for_its_verdicts_and_its_margins(html: str) -> None:
    text = words(html)
    assert "parameters 1,000,000 50,000 +95% ✓ kept" in text
    assert "artifact_mb 0.1 0.25 −150% ✗ BROKEN" in text
    assert "peak_rss_mb 100 99 97.5 to 101 97.5 to 101 +1% ? within noise" in text
    assert "✗ Fell short" in text
    assert "1 of 3 limits kept, 1 within noise, 1 broken" in text


def test_without_a_budget_it_says_so_and_passes(file: Path) -> None:
    text = words(page(made_report(file)))
    assert "✓ Passed" in text
    assert "no budget was given" in text
    assert "BROKEN" not in text


def test_times_are_those_that_were_measured(html: str) -> None:
    text = words(html)
    assert "16 2.00 2.00 to 2.00 2.00 3.00 4.00" in text  # p50, its interval, p90, p99, max
    assert "32 11.0 11.0 to 11.0 11.0 16.5 22.0" in text.replace(".00", ".0").replace("16.50", "16.5")
    assert "150.0 ms (150.0 to 150.0)" in text


def test_what_failed_in_the_file_or_here_is_said_in_words_and_fails(file: Path) -> None:
    report = made_report(file)
    bad = replace(report, repeated=(replace(report.repeated[0], value=float("nan")), report.repeated[1]))
    assert not bad.passed
    assert bad.unproved == ("causality is nan here, the limit is 1e-06",)
    assert "causality nats nan 1.0e-6 ✗ FAILED" in words(page(bad))


def test_a_busy_machine_is_said_at_the_top(file: Path) -> None:
    noisy = made_report(file, bench=replace(made_bench(file), noise=("the load was 9",)))
    text = words(page(noisy))
    assert "not quiet, so the times on this page are upper bounds: the load was 9" in text
    assert text.index("the load was 9") < text.index("What it is")


def test_what_would_make_the_verdicts_surer_stands_below_the_limits(file: Path) -> None:
    checked = replace(made_check(file, BUDGET, {}), advice=("more seconds would be enough",))
    assert "more seconds would be enough." in words(page(made_report(file, checked=checked)))


def test_what_the_system_does_not_tell_is_unknown_and_no_error(file: Path) -> None:
    blind: ProcessResult = replace(
        FIGURES, imported=None, loaded=None, worked=None, peak_rss_bytes=None, idle_cpu_percent=None
    )
    silent = replace(MACHINE, load=None, governor=None, last_level_cache_bytes=None, memory_bytes=None)
    text = words(page(made_report(file, bench=made_bench(file, blind, silent))))
    assert "Peak memory (RSS) unknown" in text
    assert "The size of the last cache is not known" in text
    assert "idle not measured" in text


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


def test_the_recipe_is_shown_by_kind_and_a_mix_by_block(int8_file: Path) -> None:
    report = made_report(int8_file)
    assert "Bits in each block" not in words(page(report))
    assert "attn.qkv 96 × 32 2 8 32" in words(page(report))
    artifact = open_artifact(int8_file)
    bits = {**artifact.recipe["bits"], "blocks.1.attn.qkv.weight": 4}
    mixed = {"bits": bits, "limit": {"max_kl": 0.01}, "kl": 0.002, "measured_on": "<i>text</i>"}
    weights = read_weights(replace(artifact, precision="auto", recipe=mixed))
    html = page(replace(report, weights=weights))
    assert "attn.qkv 96 × 32 2 4, 8 32" in words(html)
    assert "found for max_kl 0.01: KL 0.002 nats on <i>text</i> block attn.qkv attn.proj mlp.fc mlp.proj" in (
        words(html)
    )
    assert "<i>" not in html


@pytest.mark.parametrize("bits", [{}, {"wte.weight": 3}, [4], None])
def test_a_recipe_of_another_model_is_refused(int8_file: Path, bits: object) -> None:
    artifact = replace(open_artifact(int8_file), recipe={"bits": bits})
    with pytest.raises(ArtifactError, match="does not give 4, 8 or 32 bits"):
        read_weights(artifact)


@pytest.mark.parametrize("name", ["int4", "fp32"])
def test_a_relabelled_file_is_refused(int8_file: Path, name: str) -> None:
    artifact = open_artifact(int8_file)
    with pytest.raises(ArtifactError, match=f"calls itself {name}, but its recipe is another"):
        read_weights(replace(artifact, precision=name))
    with pytest.raises(ArtifactError, match="calls itself int8, but its recipe is another"):
        read_weights(replace(artifact, recipe={}))


@pytest.mark.parametrize("few", [3, 8.0, True, [8], "8", None])
def test_bits_that_are_none_are_refused(int8_file: Path, few: object) -> None:
    artifact = open_artifact(int8_file)
    bits = {**artifact.recipe["bits"], "wte.weight": few}
    with pytest.raises(ArtifactError, match="does not give 4, 8 or 32 bits"):
        read_weights(replace(artifact, recipe={"bits": bits}))


@pytest.mark.parametrize(
    "why", [{"limit": "0.01"}, {"limit": {"max_kl": "much"}}, {"limit": None}, {"kl": "x"}, {"kl": 10**400}]
)
def test_a_mix_that_does_not_say_what_it_keeps_is_refused(int8_file: Path, why: dict[str, object]) -> None:
    artifact = open_artifact(int8_file)
    with pytest.raises(ArtifactError, match="does not say in numbers which limit it keeps"):
        read_weights(replace(artifact, recipe={**artifact.recipe, **why}))


def test_a_mix_without_a_limit_is_shown_without_one(int8_file: Path) -> None:
    artifact = open_artifact(int8_file)
    bits = {**artifact.recipe["bits"], "blocks.1.attn.qkv.weight": 4}
    weights = read_weights(
        replace(artifact, precision="auto", recipe={"bits": bits, "kl": 0.002, "measured_on": [1]})
    )
    text = words(page(replace(made_report(int8_file), weights=weights)))
    assert "Bits in each block block attn.qkv" in text


# What is repeated


def test_what_is_repeated_here_is_measured_here(int8_file: Path) -> None:
    steps: list[str] = []
    numbers = repeat_checks(open_artifact(int8_file), 1, steps.append)
    assert [number.name for number in numbers] == ["causality", "stepwise = whole", "determinism"]
    assert all(number.passed for number in numbers)
    assert "nats of KL divergence" in numbers[1].what
    assert len(steps) == 3


# Words


def test_a_column_of_numbers_has_the_same_decimals() -> None:
    assert [fixed(n, 1_350_000, 1e6) for n in (104_000, 1_350_000)] == ["0.104", "1.350"]
    assert [fixed(n, 500_000_000, 1e6) for n in (104_000, 500_000_000)] == ["0.1", "500.0"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1e-6, "1.0e-6"),
        (0.00123, "0.00123"),
        (12.0, "12"),
        (999.7, "1,000"),
        (12345.6, "12,346"),
        (7_760_000, "7,760,000"),
        (1e300, "1.0e300"),
        (-1e300, "-1.0e300"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_of_any_size_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_bytes_have_a_unit() -> None:
    assert [size(n).replace("\xa0", " ") for n in (12, 1234, 250_000, 7_760_000, 1.2e9)] == [
        "12 bytes",
        "1.23 kB",
        "0.25 MB",
        "7.76 MB",
        "1,200 MB",
    ]


def test_a_name_may_be_broken_but_stays_escaped() -> None:
    assert breakable("a_b<c>.d") == "a_<wbr>b&lt;c&gt;.<wbr>d"
