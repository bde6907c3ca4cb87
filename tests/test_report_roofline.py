"""The roofline of `edgegpt report` by hand-made sums, and a profile of the board beside it."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY
from helpers.page_text import words
from helpers.sample_report import around, made_bench, made_report
from helpers.sample_target import TARGET

from edgegpt.measure.machine import this_machine
from edgegpt.prediction.predict import Predictor
from edgegpt.prediction.target import TargetMachine
from edgegpt.report.html import page
from edgegpt.report.roofline import predict, roofline

Capture = pytest.CaptureFixture[str]


# Roofline: n_layer 2, n_embd 32, vocab_size 272. A block has 24 * 32 * 32 multiplications and additions of a
# token in its matrices (qkv 6, proj 2, mlp 16), and 4 * 32 for each position that a token looks at.


def test_the_work_of_a_token_is_that_of_a_sum_by_hand(file: Path) -> None:
    points = made_report(file).roofline.tokens
    head = 2 * 272 * 32
    assert [point.tokens for point in points] == [16, 24, 35]
    assert points[0].flops == 2 * 24 * 32 * 32 + 2 * 4 * 32 * 17 + head
    assert points[2].flops == 2 * 24 * 32 * 32 + 2 * 4 * 32 * 36 + head


@pytest.mark.parametrize(("n", "pieces"), [(8, 1), (64, 1), (65, 2), (100, 2)])
def test_only_one_token_of_a_piece_goes_on_behind_the_last_attention(file: Path, n: int, pieces: int) -> None:
    bench = replace(made_bench(file), first_token={n: around(4.0)})
    (point,) = roofline(replace(TINY, block_size=128), bench).prompts
    attention = 2 * 4 * 32 * n * n
    first_block, last_qkv = n * 24 * 32 * 32, n * 6 * 32 * 32
    behind = pieces * (18 * 32 * 32 + 2 * 272 * 32)
    assert point.flops == first_block + last_qkv + behind + attention
    portable = replace(bench, file=replace(bench.file, target="portable"))
    (point,) = roofline(replace(TINY, block_size=128), portable).prompts
    assert point.flops == n * (2 * 24 * 32 * 32 + 2 * 272 * 32) + attention


def test_a_prompt_reads_the_weights_once_a_piece(file: Path) -> None:
    bench = replace(made_bench(file), first_token={100: around(4.0)})
    (point,) = roofline(replace(TINY, block_size=128), bench).prompts
    assert point.bytes == bench.bytes_per_token(0) + bench.bytes_per_token(64)


# A profile beside it


HERE = TARGET.model_copy(update={"machine": TargetMachine.of(this_machine())})


def test_a_profile_of_this_machine_gives_the_roof(file: Path) -> None:
    predicted = made_report(file, target=HERE).predicted
    assert predicted is not None
    assert predicted.here
    roof = predicted.roof
    assert roof is not None
    # The fastest of its matrices is mlp.proj, 32 x 128: 4096 weights at 10 * 32 * (1 + 64 // 8) us a million,
    # 1 us a node and 1 us for 1000 inputs, 2 us for 1000 outputs; 64 tokens at once.
    us = 1 + 0.128 + 0.064 + 2880 * 0.004096
    assert roof.tokens == 64
    assert roof.flops_per_second == pytest.approx(2 * 4096 * 64 / us * 1e6)
    assert roof.bytes_per_second == 20e9
    assert roof.at(1.0) == 20e9
    assert roof.at(1000.0) == roof.flops_per_second


def test_what_was_predicted_stands_beside_what_was_measured(file: Path) -> None:
    report = made_report(file, target=HERE)
    text = words(page(report))
    promised = Predictor(HERE).predict(report.facts.config, "fp32", prompt_tokens=32, cached_tokens=16)
    off = f"{100 * (promised.ttft_ms / 11.0 - 1):+.0f}".replace("-", "−")
    assert f"first token, prompt of 32, ms {promised.ttft_ms:.3f} 11.0 {off} %" in text
    assert f"token, 16 in cache, ms {promised.token_ms:.3f} 2.000" in text
    assert f"load, ms {promised.load_ms:.1f} 150.0" in text
    assert f"peak memory (RSS), MB {promised.peak_rss_mb:.1f} 63.0" in text
    assert "the fastest of this file's matrix products reaches 40.4 GFLOP/s with 64 tokens at once" in text
    assert "share of the roof" in text
    assert f"sha256 of the profile {'c' * 64}" in text
    assert next(c.line for c in reversed(report.commands)).endswith(" --target board.yaml")


def test_a_profile_of_another_machine_gives_no_roof_and_is_said(file: Path) -> None:
    report = made_report(file, target=TARGET)
    assert report.predicted is not None
    assert report.predicted.roof is None
    text = words(page(report))
    assert "Careful: the target 'hand board' was measured on another machine" in text
    assert "predicted for the profile's board, measured on this one" in text
    assert "is not of this machine with these threads, so it gives no roof here" in text
    assert "off by" not in text


def test_a_profile_with_other_threads_gives_no_roof(file: Path) -> None:
    predicted = made_report(file, target=HERE.model_copy(update={"threads": 2})).predicted
    assert predicted is not None
    assert predicted.roof is None
    assert "the profile was made with 2 threads, this page with 1" in predicted.caveats


def test_without_a_profile_the_page_says_how_to_get_the_roof(file: Path) -> None:
    text = words(page(made_report(file)))
    assert "edgegpt profile --out target.yaml on this board" in text
    assert "The roof of arithmetic was not measured" in text


def test_a_profile_in_which_work_takes_no_time_gives_no_roof(file: Path) -> None:
    free = dict.fromkeys(
        ("node_us", "us_per_1000_inputs", "us_per_1000_outputs", "us_per_million_weights"), 0.0
    )
    products = [row.model_copy(update=free) for row in TARGET.products]
    predicted = made_report(file, target=HERE.model_copy(update={"products": products})).predicted
    assert predicted is not None
    assert predicted.roof is None


def test_a_file_that_profiles_do_not_know_is_not_predicted(file: Path) -> None:
    report = made_report(file)
    facts = replace(report.facts, kv_cache="int8")
    predicted = predict(HERE, facts, report.weights, report.bench)
    assert predicted.figures == ()
    assert "nothing is predicted for this one" in predicted.caveats[-1]
    mixed = predict(HERE, replace(report.facts, precision="auto"), report.weights, report.bench)
    assert [figure.name for figure in mixed.figures] == [
        *(f"first token, prompt of {n}" for n in (8, 32, 47)),
        *(f"token, {n} in cache" for n in (16, 24, 35)),
    ]
