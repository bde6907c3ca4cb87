"""`edgegpt report`: what the page says of figures made by hand, and the command as a user types it."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY
from made_report import FIGURES, MACHINE, around, made_bench, made_check, made_report
from made_target import TARGET
from page_text import Seen, words
from tiny_files import graph, metadata, tiny_file, write_file

from edgegpt import contract
from edgegpt.accounting import account
from edgegpt.artifact import open_artifact
from edgegpt.budget import Budget
from edgegpt.cli.main import main
from edgegpt.errors import ArtifactError
from edgegpt.measure.bench import Bench
from edgegpt.measure.machine import machine
from edgegpt.measure.plan import ProcessFigures
from edgegpt.onnx_metadata import file_sha256
from edgegpt.prediction import Predictor
from edgegpt.report import gather as gather_module
from edgegpt.report.commands import Options, commands
from edgegpt.report.document import report_json
from edgegpt.report.page import page
from edgegpt.report.predicted import predict
from edgegpt.report.proof import read_evidence, repeat
from edgegpt.report.roofline import roofline
from edgegpt.report.weights import read_weights
from edgegpt.report.words import breakable, fixed, short, size
from edgegpt.target import TargetMachine
from edgegpt.verdict import Estimate
from edgegpt_export import export_checkpoint

Capture = pytest.CaptureFixture[str]

# A legal name of a file that would do harm on a page that does not escape it.
NAME = '<img src=x onerror=alert(1)> & "co" $a_b$.onnx'
BUDGET = Budget(name="<script>alert(2)</script>", parameters=1_000_000, artifact_mb=0.1, peak_rss_mb=100.0)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    out = tmp_path_factory.mktemp("report") / NAME
    export_checkpoint(tiny_checkpoint, out)
    return out


@pytest.fixture(scope="module")
def few_bits(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    out = tmp_path_factory.mktemp("report") / "int8.onnx"
    export_checkpoint(tiny_checkpoint, out, precision="int8")
    return out


@pytest.fixture(scope="module")
def html(file: Path) -> str:
    held = made_check(
        file,
        BUDGET,
        {
            "parameters": Estimate.exact(50_000),
            "artifact_mb": Estimate.exact(0.25),
            "peak_rss_mb": Estimate(99.0, 97.5, 101.0),
        },
    )
    return page(made_report(file, checked=held))


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
    assert [row.tokens for row in evidence.lengths] == [1, 2, 7, 47, 48]
    for row in evidence.lengths:
        assert f"{row.tokens} {short(row.max_abs)} {short(row.kl)} 100 % ✓ passed" in text
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
    assert "not quiet, so the times on this page are too long: the load was 9" in text
    assert text.index("the load was 9") < text.index("What it is")


def test_what_the_system_does_not_tell_is_unknown_and_no_error(file: Path) -> None:
    blind: ProcessFigures = replace(
        FIGURES, imported=None, loaded=None, worked=None, peak_rss_bytes=None, idle_cpu_percent=None
    )
    silent = replace(MACHINE, load=None, governor=None, last_level_cache_bytes=None, memory_bytes=None)
    text = words(page(made_report(file, bench=made_bench(file, blind, silent))))
    assert "Peak memory (RSS) unknown" in text
    assert "The size of the last cache is not known" in text
    assert "idle not measured" in text


def test_the_commands_are_exact_and_quoted_for_a_shell(file: Path) -> None:
    lines = [command.line for command in made_report(file).commands]
    assert lines[0] == "pip install onnxruntime==1 numpy==2"
    assert lines[-1].startswith("edgegpt report '<img src=x onerror=alert(1)>")
    assert lines[-1].endswith("--out out.html --threads 1 --seconds 10")
    assert str(file.parent) not in "".join(lines)


def test_a_name_that_looks_like_an_option_is_none_in_the_commands(file: Path) -> None:
    report = made_report(file)
    facts = replace(report.facts, path=Path("-x.onnx"))
    options = Options(Path("-out.html"), Path("-b.yaml"), Path("-t.yaml"), 1, 10.0)
    lines = [command.line for command in commands(facts, options, MACHINE)]
    assert "edgegpt info ./-x.onnx" in lines
    assert lines[-1].startswith("edgegpt report ./-x.onnx --out ./-out.html ")
    assert lines[-1].endswith(" --budget ./-b.yaml --target ./-t.yaml")


def test_no_command_asks_for_what_another_refuses(file: Path) -> None:
    options = Options(Path("out.html"), Path("b.yaml"), None, 1, 0.0)
    lines = [command.line for command in commands(made_report(file).facts, options, MACHINE)]
    assert any(line.endswith("--budget b.yaml --threads 1 --seconds 0.01") for line in lines)


@pytest.mark.slow
def test_the_commands_run_as_they_are_printed(
    tmp_path: Path, tiny_checkpoint: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_checkpoint(tiny_checkpoint, tmp_path / "-x y\\z.onnx")
    (tmp_path / "-b.yaml").write_text("name: b\nload_ms: 1e6\n")
    given = ["--out=-r.html", "--budget=-b.yaml", "--seconds", "0", "--json"]
    assert main(["report", "./-x y\\z.onnx", *given]) == 0
    lines = [command["line"] for command in json.loads(capsys.readouterr().out)["commands"]]
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "-r.html").unlink()
    installed, *others = lines
    assert installed.startswith("pip install onnxruntime==")
    for line in others:
        exact = line.replace(" CHECKPOINT", f" {shlex.quote(str(tiny_checkpoint))}")
        run = subprocess.run(["bash", "-c", exact], capture_output=True, text=True, check=False)
        assert run.returncode == 0, (line, run.stderr)
    assert (tmp_path / "-r.html").is_file()


# Weights


@pytest.mark.parametrize("which", ["file", "few_bits"])
def test_the_components_add_up_to_the_file(which: str, request: pytest.FixtureRequest) -> None:
    artifact = open_artifact(request.getfixturevalue(which))
    weights = read_weights(artifact)
    total = account(artifact.config).total
    named = total.weight_bytes.fp32 if artifact.precision == "fp32" else total.weight_bytes.int8
    assert sum(part.here for part in weights.components) == weights.bytes == named
    assert sum(part.parameters for part in weights.components) == total.parameters
    assert weights.bytes + weights.around == artifact.bytes
    assert 0 < weights.around < 0.5 * artifact.bytes


def test_the_recipe_is_shown_by_kind_and_a_mix_by_block(few_bits: Path) -> None:
    report = made_report(few_bits)
    assert "Bits in each block" not in words(page(report))
    assert "attn.qkv 96 × 32 2 8 32" in words(page(report))
    artifact = open_artifact(few_bits)
    bits = {**artifact.recipe["bits"], "blocks.1.attn.qkv.weight": 4}
    mixed = {"bits": bits, "limit": {"max_kl": 0.01}, "kl": 0.002, "measured_on": "<i>text</i>"}
    weights = read_weights(replace(artifact, recipe=mixed))
    html = page(replace(report, weights=weights))
    assert "attn.qkv 96 × 32 2 4, 8 32" in words(html)
    assert "found for max_kl 0.01: KL 0.002 nats on <i>text</i> block attn.qkv attn.proj mlp.fc mlp.proj" in (
        words(html)
    )
    assert "<i>" not in html


@pytest.mark.parametrize("bits", [{}, {"wte.weight": 3}, [4], None])
def test_a_recipe_of_another_model_is_refused(few_bits: Path, bits: object) -> None:
    artifact = replace(open_artifact(few_bits), recipe={"bits": bits})
    with pytest.raises(ArtifactError, match="does not say 4, 8 or 32 bits"):
        read_weights(artifact)


@pytest.mark.parametrize("few", [3, 8.0, True, [8], "8", None])
def test_bits_that_are_none_are_refused(few_bits: Path, few: object) -> None:
    artifact = open_artifact(few_bits)
    bits = {**artifact.recipe["bits"], "wte.weight": few}
    with pytest.raises(ArtifactError, match="does not say 4, 8 or 32 bits"):
        read_weights(replace(artifact, recipe={"bits": bits}))


@pytest.mark.parametrize(
    "why", [{"limit": "0.01"}, {"limit": {"max_kl": "much"}}, {"limit": None}, {"kl": "x"}, {"kl": 10**400}]
)
def test_a_mix_that_does_not_say_what_it_keeps_is_refused(few_bits: Path, why: dict[str, object]) -> None:
    artifact = open_artifact(few_bits)
    with pytest.raises(ArtifactError, match="does not say in numbers which limit it keeps"):
        read_weights(replace(artifact, recipe={**artifact.recipe, **why}))


def test_a_mix_without_a_limit_is_shown_without_one(few_bits: Path) -> None:
    artifact = open_artifact(few_bits)
    bits = {**artifact.recipe["bits"], "blocks.1.attn.qkv.weight": 4}
    weights = read_weights(replace(artifact, recipe={"bits": bits, "kl": 0.002, "measured_on": [1]}))
    text = words(page(replace(made_report(few_bits), weights=weights)))
    assert "Bits in each block block attn.qkv" in text


# One page that needs nothing else


def test_names_from_elsewhere_are_text_and_never_markup(html: str) -> None:
    seen = Seen(html)
    assert not list(seen.named("script"))
    assert not list(seen.named("img"))
    assert "onerror" not in {name for _, attributes in seen.tags for name in attributes}
    text = words(html)
    assert NAME in text
    assert "<script>alert(2)</script>" in text


def test_the_page_asks_for_nothing(html: str) -> None:
    """Neither by what it holds nor by what its policy would let it ask for."""
    seen = Seen(html)
    for tag, attributes in seen.tags:
        assert tag not in ("link", "script", "iframe", "object", "embed", "base", "form"), tag
        for name in ("src", "srcset", "data", "poster", "action", "background", "ping"):
            assert name not in attributes, (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#"), attributes
    assert not re.findall(r"url\((?!['\"]?#)", html)
    assert "@import" not in html
    assert "http:" not in html
    assert "https:" not in html
    (policy,) = [m["content"] for m in seen.named("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_page_has_a_language_headings_and_headers(html: str) -> None:
    seen = Seen(html)
    assert next(seen.named("html"))["lang"] == "en"
    assert len(list(seen.named("h1"))) == 1
    assert len(list(seen.named("h2"))) >= 6
    assert not [tag for tag, _ in seen.tags if re.fullmatch("h[3-6]", tag)]  # no level is left out
    headers = list(seen.named("th"))
    assert {header.get("scope") for header in headers} == {"row", "col"}
    assert len(list(seen.named("table"))) == len(list(seen.named("caption")))
    pictures = [div for div in seen.named("div") if div.get("role") == "img"]
    assert len(pictures) == len(list(seen.named("svg"))) == 6
    assert all(len(picture["aria-label"] or "") > 60 for picture in pictures)


def test_no_two_things_of_the_page_have_one_id(html: str) -> None:
    ids = [attributes["id"] for _, attributes in Seen(html).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'(?:href="|url\()#([^")]+)', html):
        assert reference in ids


def test_the_colours_of_the_pictures_are_the_pages(html: str) -> None:
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert not re.findall(r"(?:fill|stroke): #", pictures)
    declared = set(re.findall(r"(--[a-z]+):", html))
    assert set(re.findall(r"var\((--[a-z]+)\)", html)) <= declared


def test_the_same_report_gives_the_same_page(file: Path) -> None:
    assert page(made_report(file)) == page(made_report(file))


def test_the_users_own_style_of_pictures_is_not_the_pages(file: Path, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text(
        "text.usetex: True\naxes.facecolor: black\ntext.color: white\nfont.size: 30\nlines.linewidth: 9\n"
    )
    script = (
        "import sys, pathlib\n"
        "from made_report import made_report\n"
        "from edgegpt.report.page import page\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "print(page(made_report(pathlib.Path(sys.argv[1]))), end='')"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(file)],
        env={
            **os.environ,
            "MATPLOTLIBRC": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout == page(made_report(file))


def test_a_name_with_dollars_is_no_formula(file: Path) -> None:
    report = made_report(file)
    odd = replace(report, facts=replace(report.facts, precision=r"$\frac$"))
    assert r"$\frac$" in words(page(odd))


def test_a_name_cannot_turn_the_text_around_it(file: Path) -> None:
    turned = "\N{RIGHT-TO-LEFT OVERRIDE}gpj.onnx"
    report = made_report(file)
    html = page(replace(report, facts=replace(report.facts, path=Path(turned))))
    _, body = html.split("</head>")
    outside = re.sub(r"<bdi.*?</bdi>|<pre>.*?</pre>", "", body, flags=re.DOTALL)
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in outside


# For machines


def test_json_holds_what_the_page_says(file: Path) -> None:
    held = made_check(file, BUDGET, {"artifact_mb": Estimate.exact(0.25)})
    document = json.loads(json.dumps(report_json(made_report(file, checked=held)), allow_nan=False))
    assert document["passed"] is False
    assert document["broken"] == ["artifact_mb is 0.25, the limit is 0.1"]
    assert document["file"]["sha256"] == file_sha256(file)
    assert document["file"]["config"]["n_layer"] == 2
    assert document["evidence"]["lengths"][0]["tokens"] == 1
    assert document["bench"]["token_ms"][0]["p50"] == 2.0
    assert document["budget"]["broken"] is True
    token = document["roofline"]["tokens"][0]
    assert token["flops_per_second"] == token["flops"] / 0.002


def test_a_number_that_json_has_not_is_null(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = made_report(file)
    bad = replace(report, repeated=(replace(report.repeated[0], value=float("nan")),))
    monkeypatch.setattr(gather_module, "gather", lambda *_, **__: bad)
    monkeypatch.setattr("edgegpt.report.page.save_page", lambda _, out: out.write_text(""))
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(file), "--out", "out.html", "--json"]) == 1

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert document["repeated"][0]["value"] is None
    assert document["repeated"][0]["passed"] is False


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


HERE = TARGET.model_copy(update={"machine": TargetMachine.of(machine())})


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


def test_without_a_profile_the_page_says_how_to_get_the_roof(html: str) -> None:
    text = words(html)
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


# What is repeated


def test_what_is_repeated_here_is_measured_here(few_bits: Path) -> None:
    steps: list[str] = []
    numbers = repeat(open_artifact(few_bits), 1, steps.append)
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


# As a user types it


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(["report", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("edgegpt: ")
    assert output.err.count("\n") == 1
    return output.err


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("x.pdf", "--out must name a .html or .htm file, got"),
        ("x", "--out must name a .html or .htm file, got"),
        ("missing/x.html", "missing does not exist"),
        ("folder.html", "is a folder"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_measuring(
    tmp_path: Path, capsys: Capture, out: str, sentence: str
) -> None:
    (tmp_path / "folder.html").mkdir()
    assert sentence in refused(capsys, str(tmp_path / "none.onnx"), "--out", str(tmp_path / out))


def test_a_missing_and_a_damaged_file_are_refused_and_leave_no_page(
    tmp_path: Path, file: Path, capsys: Capture
) -> None:
    out = tmp_path / "x.html"
    assert "does not exist" in refused(capsys, str(tmp_path / "none.onnx"), "--out", str(out))
    (tmp_path / "damaged.onnx").write_bytes(file.read_bytes()[:-1000])
    assert "damaged.onnx" in refused(capsys, str(tmp_path / "damaged.onnx"), "--out", str(out))
    assert not out.exists()


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        ("{}", "holds no evidence"),
        ('{"rows": [{"length": 1}], "limits": {}, "checks": {}}', "the evidence in .* is damaged"),
        ('{"rows": 7, "limits": {}, "checks": {}}', "the evidence in .* is damaged"),
        (
            '{"rows": [{"length": 1, "max_abs": "x", "kl": 0, "top1": 1}], "checks": {},'
            ' "limits": {"max_abs": null, "kl": 1, "top1": 1}}',
            "the evidence in .* is damaged",
        ),
        (
            '{"rows": [{"length": 1, "max_abs": 0, "kl": 0, "top1": 1}], "checks": {},'
            ' "limits": {"max_abs": 1, "kl": 1, "top1": 1}}',
            "the evidence in .* is damaged",
        ),
        (
            '{"rows": [{"length": 1, "max_abs": 0, "kl": 0, "top1": 1}], "checks": {},'
            ' "limits": {"max_abs": 1, "kl": 1, "top1": -Infinity, "causality": 1, "consistency": 1}}',
            "the evidence in .* is damaged",
        ),
        (
            '{"rows": [{"length": 1, "max_abs": 0, "kl": 0, "top1": 1}], "checks":'
            f' {{"causality": {{"value": 1{"0" * 400}, "limit": 1}}}},'
            ' "limits": {"max_abs": 1, "kl": 1, "top1": 1, "causality": 1, "consistency": 1}}',
            "the evidence in .* is damaged",
        ),
        ("[", "is not JSON"),
    ],
)
def test_evidence_that_cannot_be_read_is_refused(
    tmp_path: Path, capsys: Capture, evidence: str, sentence: str
) -> None:
    entries = {**metadata(), contract.META_EVIDENCE: evidence}
    path = write_file(tmp_path / "evidence.onnx", graph(), entries)
    assert re.search(sentence, refused(capsys, str(path), "--out", str(tmp_path / "x.html")))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: x\ntoken_ms: {p50: 4, p99: 2}\n", "p50 must not be above p99"),
        ("name: x\nartifact_mb: -1\n", "artifact_mb"),
        ("name: [", "budget.yaml"),
        ("name: x\nartefact_mb: 1\n", "artefact_mb"),
    ],
)
def test_a_broken_budget_is_refused_before_measuring(
    tmp_path: Path, file: Path, capsys: Capture, text: str, sentence: str
) -> None:
    budget = tmp_path / "budget.yaml"
    budget.write_text(text)
    out = tmp_path / "x.html"
    assert sentence in refused(capsys, str(file), "--out", str(out), "--budget", str(budget))
    assert not out.exists()
    missing = str(tmp_path / "none.yaml")
    assert "none.yaml" in refused(capsys, str(file), "--out", str(out), "--budget", missing)


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: object, **__: object) -> None:
        raise AssertionError("it measures before it knows its input")

    for name in ("repeat", "bench", "check"):
        monkeypatch.setattr(gather_module, name, measure)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ("ttft_ms: {prompt_tokens: 48, p50: 4}", "prompt_tokens must be from 1 to 47 for"),
        ("accuracy: {path: none.jsonl, minimum: 0.5}", "none.jsonl cannot be read: No such file"),
        ("accuracy: {path: bad.jsonl, minimum: 0.5}", "bad.jsonl, line 1: expected"),
        ("accuracy: {path: long.jsonl, minimum: 0.5}", "example 1 ('go') of "),
    ],
)
@pytest.mark.usefixtures("nothing_is_measured")
def test_a_budget_that_the_file_cannot_be_held_to_is_refused_before_measuring(
    tmp_path: Path, few_bits: Path, capsys: Capture, limits: str, sentence: str
) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "long.jsonl").write_text(json.dumps({"prompt": "go", "completion": "x y " * 100}) + "\n")
    (tmp_path / "b.yaml").write_text(f"name: b\n{limits}\n")
    out = str(tmp_path / "x.html")
    assert sentence in refused(capsys, str(few_bits), "--out", out, "--budget", str(tmp_path / "b.yaml"))


@pytest.mark.parametrize("option", ["--out", "--budget", "--target"])
@pytest.mark.usefixtures("nothing_is_measured")
def test_a_name_that_is_no_utf8_is_refused_before_measuring(
    tmp_path: Path, few_bits: Path, capsys: Capture, option: str
) -> None:
    odd = os.fsdecode(b"caf\xe9.html")
    options = {"--out": str(tmp_path / "x.html"), option: odd}
    sentence = refused(capsys, str(few_bits), *(word for pair in options.items() for word in pair))
    assert sentence == f"edgegpt: {option} must be a name in UTF-8, got 'caf\\udce9.html'; rename it\n"


@pytest.mark.usefixtures("nothing_is_measured")
def test_a_name_too_long_for_the_disk_is_refused_before_measuring(
    tmp_path: Path, few_bits: Path, capsys: Capture
) -> None:
    out = tmp_path / f"{'x' * 249}.html"  # the file itself could be made, but not the one beside it
    assert "File name too long" in refused(capsys, str(few_bits), "--out", str(out))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["name: [", "name: x", "threads: two"])
@pytest.mark.usefixtures("nothing_is_measured")
def test_a_broken_profile_is_refused_before_measuring(
    tmp_path: Path, few_bits: Path, capsys: Capture, text: str
) -> None:
    (tmp_path / "t.yaml").write_text(text)
    out = str(tmp_path / "x.html")
    assert "t.yaml" in refused(capsys, str(few_bits), "--out", out, "--target", str(tmp_path / "t.yaml"))


def test_the_checksum_of_a_budget_is_of_what_it_was_read_from(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, content = tmp_path / "b.yaml", b"name: b\r\nartifact_mb: 8\r\n"
    budget.write_bytes(content)

    def edited_meanwhile(*_: object, **__: object) -> Bench:
        budget.write_text("name: b\nartifact_mb: 9\n")
        return made_bench(file)

    monkeypatch.setattr(gather_module, "bench", edited_meanwhile)
    report = gather_module.gather(file, tmp_path / "x.html", budget=budget)
    assert report.budget_sha256 == hashlib.sha256(content).hexdigest()
    assert report.checked is not None
    assert report.checked.budget.artifact_mb == 8


def test_a_file_that_is_exported_again_meanwhile_gives_no_page(
    tmp_path: Path, file: Path, few_bits: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "a.onnx", tmp_path / "x.html"
    shutil.copy(file, path)

    def exported_again(*_: object, **__: object) -> Bench:
        shutil.copy(few_bits, path)
        return made_bench(path)

    monkeypatch.setattr(gather_module, "bench", exported_again)
    assert "a.onnx was changed while it was measured" in refused(capsys, str(path), "--out", str(out))
    assert not out.exists()


@pytest.mark.parametrize("threads", ["0", "-1", "9999"])
def test_threads_that_cannot_be_are_refused(tmp_path: Path, capsys: Capture, threads: str) -> None:
    sentence = refused(
        capsys, str(tiny_file(tmp_path)), "--out", str(tmp_path / "x.html"), f"--threads={threads}"
    )
    assert f"got {threads}" in sentence


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_without_the_extra_it_is_named_before_measuring(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("edgegpt.report.", "edgegpt.measure.plot"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == package] or [package]:
        monkeypatch.setitem(sys.modules, name, None)
    message = refused(capsys, str(file), "--out", str(tmp_path / "x.html"))
    assert f"the package '{package}" in message
    assert "install the extra [report]" in message


def made(monkeypatch: pytest.MonkeyPatch, file: Path, held: bool) -> None:
    """The command, but for the measuring."""
    checked = made_check(file, BUDGET, {"artifact_mb": Estimate.exact(0.25)}) if held else None

    def gather(_: object, out: Path, **__: object) -> object:
        report = made_report(file, checked=checked)
        return replace(report, options=replace(report.options, out=out))

    monkeypatch.setattr(gather_module, "gather", gather)


def test_a_broken_limit_gives_a_page_and_exit_code_1(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(monkeypatch, file, held=True)
    out = tmp_path / "x.html"
    out.write_text("an older page")
    assert main(["report", str(file), "--out", str(out)]) == 1
    assert "artifact_mb is 0.25, the limit is 0.1" in capsys.readouterr().err
    assert "✗ BROKEN" in words(out.read_text(encoding="utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_a_page_that_cannot_be_finished_leaves_the_older_one(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(monkeypatch, file, held=False)
    out = tmp_path / "x.html"
    out.write_text("an older page")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "--out cannot write" in refused(capsys, str(file), "--out", str(out))
    assert out.read_text() == "an older page"
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]
