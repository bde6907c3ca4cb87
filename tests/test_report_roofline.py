"""The roofline of a report by sums made by hand, and a board profile compared with measurements."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY
from helpers.page_text import Page
from helpers.sample_report import around, made_bench, made_report
from helpers.sample_target import TARGET

from edgegpt.measure import this_machine
from edgegpt.prediction import Predictor, Target, TargetMachine
from edgegpt.report.html import number, page
from edgegpt.report.roofline import compare, roofline

HERE = TARGET.model_copy(update={"machine": TargetMachine.of(this_machine())})
LONGER = replace(TINY, block_size=128)


# n_layer 2, n_embd 32, vocab_size 272. A block has 24 * 32 * 32 FLOPs per token in its matrices (qkv 6,
# proj 2, mlp 16), and 4 * 32 for each position that a token attends to.


def test_the_work_of_a_decode_step_is_that_of_a_sum_by_hand(file: Path) -> None:
    points = made_report(file).roofline.tokens
    assert [point.tokens for point in points] == [16, 24, 35]
    for point in points:
        attention = 2 * 4 * 32 * (point.tokens + 1)
        assert point.flops == 2 * 24 * 32 * 32 + attention + 2 * 272 * 32
    assert points[0].flops_per_second == points[0].flops / 0.002


@pytest.mark.parametrize(("n", "chunks"), [(8, 1), (64, 1), (65, 2), (100, 2)])
def test_only_one_token_of_a_chunk_passes_the_last_projection_and_the_head(
    file: Path, n: int, chunks: int
) -> None:
    bench = replace(made_bench(file), first_token={n: around(4.0)})
    (point,) = roofline(LONGER, bench).prompts
    attention = 2 * 4 * 32 * n * n
    first_block, last_qkv = n * 24 * 32 * 32, n * 6 * 32 * 32
    behind = chunks * (18 * 32 * 32 + 2 * 272 * 32)
    assert point.flops == first_block + last_qkv + behind + attention
    assert point.bytes == sum(bench.bytes_per_token(64 * chunk) for chunk in range(chunks))
    (point,) = roofline(LONGER, replace(bench, file=replace(bench.file, target="portable"))).prompts
    assert point.flops == n * (2 * 24 * 32 * 32 + 2 * 272 * 32) + attention


def test_a_profile_of_this_machine_gives_the_roof(file: Path) -> None:
    comparison = made_report(file, profile=HERE).comparison
    assert comparison is not None
    assert comparison.here
    assert (roof := comparison.roof) is not None
    # The fastest matrix is mlp.proj, 32 x 128: 4096 weights at 10 * 32 * (1 + 64 // 8) us per million,
    # 1 us per node, 1 us per 1000 inputs and 2 us per 1000 outputs; 64 tokens at once.
    us = 1 + 0.128 + 0.064 + 2880 * 0.004096
    assert roof.tokens == 64
    assert roof.flops_per_second == pytest.approx(2 * 4096 * 64 / us * 1e6)
    assert roof.bytes_per_second == 20e9
    assert roof.at(1.0) == 20e9
    assert roof.at(1000.0) == roof.flops_per_second


def test_predictions_are_those_of_the_planner_and_their_errors_are_shown(file: Path) -> None:
    report = made_report(file, profile=HERE)
    rows = Page(page(report)).rows
    promised = Predictor(HERE).predict(report.facts.config, "fp32", prompt_tokens=32, cached_tokens=16)
    for name, predicted, measured in (
        ("first token, prompt of 32, ms", promised.ttft_ms, 11.0),
        ("decode step, 16 in cache, ms", promised.token_ms, 2.0),
        ("load, ms", promised.load_ms, 150.0),
        ("peak memory (RSS), MB", promised.peak_rss_mb, 63.0),
    ):
        error = f"{100 * (predicted / measured - 1):+.0f} %"
        assert [name, number(predicted), number(measured), error] in rows
    assert report.commands[-1].line.endswith(" --profile board.yaml")


@pytest.mark.parametrize("profile", [TARGET, HERE.model_copy(update={"threads": 2})])
def test_a_profile_of_another_machine_or_of_other_threads_gives_no_roof(file: Path, profile: Target) -> None:
    report = made_report(file, profile=profile)
    assert report.comparison is not None
    assert not report.comparison.here
    assert report.comparison.roof is None
    assert report.comparison.caveats
    assert ["figure", "predicted", "measured"] in Page(page(report)).rows  # without an error


def test_a_profile_in_which_work_takes_no_time_gives_no_roof(file: Path) -> None:
    times = ("node_us", "us_per_1000_inputs", "us_per_1000_outputs", "us_per_million_weights")
    products = [row.model_copy(update=dict.fromkeys(times, 0.0)) for row in TARGET.products]
    comparison = made_report(file, profile=HERE.model_copy(update={"products": products})).comparison
    assert comparison is not None
    assert comparison.roof is None


def test_a_file_that_profiles_do_not_cover_is_not_predicted(file: Path) -> None:
    report = made_report(file)
    unknown = compare(HERE, replace(report.facts, kv_cache="int8"), report.weights, report.bench)
    assert unknown.figures == ()
    assert unknown.caveats
    mixed = compare(HERE, replace(report.facts, precision="auto"), report.weights, report.bench)
    assert len(mixed.figures) == len(report.bench.token) + len(report.bench.first_token)
