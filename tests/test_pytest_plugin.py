"""The pytest plugin in another project: each run is a pytest of its own in an empty folder."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_files import graph, metadata, write_file

from edgegpt import contract
from edgegpt.errors import BudgetError
from edgegpt.pytest_plugin import fixture
from edgegpt.runtime.onnx_file import read_metadata

pytest_plugins = ["pytester"]

ROOMY = """
name: roomy
parameters: 1e6
artifact_mb: 5
peak_rss_mb: 4000
load_ms: 1e9
ttft_ms: {prompt_tokens: 8, p50: 1e9, p99: 1e9}
token_ms: {p50: 1e9, max: 1e9}
"""
OF_THE_FILE = ["parity", "causality", "determinism"]
ITEMS = ["parameters", "artifact_mb", "peak_rss_mb", "load_ms", "ttft_ms.p50", "ttft_ms.p99"]
ITEMS += ["token_ms.p50", "token_ms.max", *OF_THE_FILE]
SIZES = "name: sizes\nparameters: 1e6\nartifact_mb: 5\n"
HEAVY = {"numpy", "onnxruntime", "pydantic", "yaml", "tokenizers", "typer", "rich", "torch"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, file: Path) -> Path:
    """The exported file under a usual name."""
    return Path(shutil.copy(file, tmp_path_factory.mktemp("plugin") / "tiny.onnx"))


@pytest.fixture(autouse=True)
def _another_project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makefile(".yaml", roomy=ROOMY, sizes=SIZES)


def tampered(path: Path, key: str, value: str) -> Path:
    return write_file(path, graph(), {**metadata(), key: value})


def run(pytester: pytest.Pytester, model: Path, budget: str, *more: str) -> pytest.RunResult:
    options = [f"--edgegpt-model={model}", f"--edgegpt-budget={budget}", "--edgegpt-seconds=0.01"]
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options, *more)


def assert_sentences(result: pytest.RunResult, n: int) -> list[str]:
    """Return the messages of n failures, each one line below its title, without a traceback."""
    lines = result.stdout.lines
    first = next(i for i, line in enumerate(lines) if "= FAILURES =" in line) + 1
    last = next(i for i, line in enumerate(lines) if i > first and line.startswith("=="))
    titles, sentences = lines[first:last:2], lines[first + 1 : last : 2]
    assert len(titles) == len(sentences) == n, lines[first:last]
    assert all(title.startswith("__") and title.endswith("__") for title in titles)
    return sentences


# The items


def test_each_limit_and_each_property_of_the_file_is_a_test(pytester: pytest.Pytester, model: Path) -> None:
    result = run(pytester, model, "roomy.yaml", "-v", "--junitxml=report.xml", "-m", "edgegpt_budget")
    result.assert_outcomes(passed=len(ITEMS))
    result.stdout.fnmatch_lines([f"roomy.yaml::{name} PASSED*" for name in ITEMS])
    result.stdout.fnmatch_lines(["*tiny.onnx*roomy*", "*onnxruntime*", "parameters*1,000,000*kept"])
    cases = {case.get("name"): case for case in ElementTree.parse("report.xml").iter("testcase")}
    assert list(cases) == ITEMS
    properties = {p.get("name"): p.get("value") or "" for p in cases["token_ms.p50"].iter("property")}
    for name in ("file", "budget", "threads", "machine", "version.onnxruntime", "version.edgegpt"):
        assert properties[f"edgegpt.{name}"]
    assert float(properties["edgegpt.token_ms.p50.limit"]) == 1e9
    assert float(properties["edgegpt.token_ms.p50.measured"]) > 0
    assert properties["edgegpt.token_ms.p50.verdict"] == "kept"
    for name in OF_THE_FILE:
        assert f"edgegpt.{name}" in {p.get("name") for p in cases[name].iter("property")}


def test_a_test_is_chosen_by_its_node_id_by_k_and_by_m(pytester: pytest.Pytester, model: Path) -> None:
    pytester.makepyfile(test_other="def test_other(): pass")
    run(pytester, model, "sizes.yaml", "sizes.yaml::artifact_mb").assert_outcomes(passed=1)
    run(pytester, model, "sizes.yaml", "-k", "artifact_mb").assert_outcomes(passed=1, deselected=5)
    run(pytester, model, "sizes.yaml", ".", "-m", "edgegpt_budget").assert_outcomes(passed=5, deselected=1)


def test_a_file_that_cannot_be_measured_fails_each_test_with_one_sentence(pytester: pytest.Pytester) -> None:
    damaged = tampered(pytester.path / "damaged.onnx", contract.META_TOKENIZER, "{}")
    result = run(pytester, damaged, "sizes.yaml")
    result.assert_outcomes(failed=5)
    sentences = assert_sentences(result, 5)
    assert len(set(sentences)) == 1
    assert "damaged.onnx" in sentences[0]


def test_a_broken_limit_fails_alone_with_figure_and_limit_and_the_table_names_the_board_and_its_goals(
    pytester: pytest.Pytester, model: Path
) -> None:
    pytester.path.joinpath("turns.jsonl").write_text('{"prompt": "turn", "completion": "left"}\n')
    board = "board: {description: a board for --seconds, never_measured: [parameters]}"
    text = f"name: goal\nparameters: 1e6\naccuracy: {{path: turns.jsonl, minimum: 0.5}}\n{board}\n"
    pytester.makefile(".yaml", goal=text)
    result = run(pytester, model, "goal.yaml")
    result.assert_outcomes(passed=4, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (message,) = assert_sentences(result, 1)
    assert [part for part in ("tiny.onnx", "'goal'", "accuracy", "0.5") if part not in message] == []
    result.stdout.fnmatch_lines(
        ["accuracy *at least 0.5 *0 *-100% *broken", "*: a board for --seconds", "*: parameters"]
    )


# Parity, causality, determinism


def test_with_a_checkpoint_the_file_is_verified_against_pytorch(
    pytester: pytest.Pytester, model: Path, tiny_checkpoint: Path
) -> None:
    more = ["-k", "parity", f"--edgegpt-checkpoint={tiny_checkpoint}"]
    run(pytester, model, "sizes.yaml", *more).assert_outcomes(passed=1, deselected=4)
    good = read_metadata(model)[contract.META_EVIDENCE]  # but of another checkpoint's weights
    other = tampered(pytester.path / "other.onnx", contract.META_EVIDENCE, good)
    result = run(pytester, other, "sizes.yaml", *more)
    result.assert_outcomes(failed=1, deselected=4)
    result.stdout.fnmatch_lines(["*other.onnx*checkpoint*"])


@pytest.mark.parametrize(
    ("evidence", "failed"),
    [('{"top1": 1}', 1), ('{"limits": null}', 1), ('{"rows": [1], "limits": null}', 2), ("[]", 3)],
)
def test_a_file_without_readable_evidence_has_not_proved_its_parity(
    pytester: pytest.Pytester, evidence: str, failed: int
) -> None:
    odd = tampered(pytester.path / "odd.onnx", contract.META_EVIDENCE, evidence)
    result = run(pytester, odd, "sizes.yaml", "-k", "parity or causality or determinism")
    result.assert_outcomes(passed=3 - failed, failed=failed, deselected=2)
    assert all("odd.onnx" in sentence for sentence in assert_sentences(result, failed))


# Tests written by hand


def test_the_suites_own_load_is_none_and_advice_names_the_plugins_option(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def remembered(*_: object, **options: Any) -> None:
        given.update(options)
        raise BudgetError("stopped")

    monkeypatch.setattr(fixture, "check_file", remembered)
    (tmp_path / "b.yaml").write_text("name: b\nload_ms: 1\n")
    session = fixture.BudgetSession(model, tmp_path / "b.yaml", None, 1.0)
    with pytest.raises(BudgetError, match="stopped"):
        session.row("load_ms")
    assert given["before"] is session.machine
    assert given["option"].name == "--edgegpt-seconds"


BY_HAND = """
import pytest
import edgegpt

@pytest.mark.edgegpt_budget("token_ms.p50")
def test_own_samples_are_held(edgegpt_budget):
    row = edgegpt_budget.hold("token_ms.p50", [0.1, 0.2, 0.3] * 10)
    assert row.estimate.value == 0.2

def test_own_samples_beyond(edgegpt_budget):
    edgegpt_budget.hold("token_ms.p50", [2e9] * 30)

@pytest.mark.edgegpt_budget
def test_what_was_measured(edgegpt_budget):
    assert edgegpt_budget.measured("load_ms").estimate.value > 0
    assert edgegpt_budget.hold("load_ms").limit == edgegpt_budget.limit("load_ms") == 1e9

def test_the_file_and_the_budget(edgegpt_budget):
    model = edgegpt.load(edgegpt_budget.model, threads=edgegpt_budget.budget.threads)
    assert model.generate("turn left").usage.completion_tokens

def test_a_slip(edgegpt_budget):
    edgegpt_budget.hold("token_ms.p5O", [1.0])

@pytest.mark.edgegpt_budget("jitter")
def test_a_limit_that_this_budget_does_not_have(edgegpt_budget):
    raise AssertionError

@pytest.mark.edgegpt_budget("token_ms.p5O")
def test_a_slip_in_the_marker(edgegpt_budget):
    raise AssertionError

def test_what_this_system_does_not_report(edgegpt_budget, monkeypatch):
    from edgegpt.budget.verdict import Row, Verdict
    unknown = Row("peak_rss_mb", 4000, None, Verdict.NOT_MEASURED)
    monkeypatch.setattr(type(edgegpt_budget._session), "row", lambda *_: unknown)
    edgegpt_budget.hold("peak_rss_mb")
    raise AssertionError

def test_unrelated():
    pass
"""


def test_tests_by_hand_measure_against_the_budget(pytester: pytest.Pytester, model: Path) -> None:
    pytester.makepyfile(BY_HAND)
    result = run(pytester, model, "roomy.yaml", "-rs", "-k", "test_", "--strict-markers")
    result.assert_outcomes(passed=4, failed=2, errors=1, skipped=2, deselected=len(ITEMS))
    beyond, slip = assert_sentences(result, 2)
    assert [part for part in ("token_ms.p50", "2,000,000,000", "1,000,000,000") if part not in beyond] == []
    assert [part for part in ("'roomy'", "'token_ms.p5O'", "'token_ms.p50'") if part not in slip] == []
    result.stdout.fnmatch_lines_random(
        ["there *'token_ms.p5O'*'token_ms.p50'*", "SKIPPED*'roomy'*'jitter'", "SKIPPED*peak_rss_mb"]
    )


def test_without_the_options_tests_by_hand_are_skipped_and_others_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BY_HAND)
    result = pytester.runpytest_subprocess("-rs", "--strict-markers")
    result.assert_outcomes(passed=1, skipped=8)
    result.stdout.fnmatch_lines(["SKIPPED*--edgegpt-model *--edgegpt-budget *"])


# Other projects' pytest


def test_a_pytest_without_the_options_loads_nothing_of_edgegpt(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import sys
        def test_light():
            assert "edgegpt.pytest_plugin" in sys.modules
            assert not {HEAVY!r} & sys.modules.keys()
            loaded = {{name for name in sys.modules if name.startswith("edgegpt.")}}
            assert loaded == {{"edgegpt.pytest_plugin"}}
        """
    )
    pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:anyio").assert_outcomes(passed=1)


def test_it_can_be_left_out(pytester: pytest.Pytester) -> None:
    code = "import sys\ndef test_gone():\n    assert not [m for m in sys.modules if m.startswith('edgegpt')]"
    pytester.makepyfile(code)
    pytester.runpytest_subprocess("-p", "no:edgegpt").assert_outcomes(passed=1)


def test_edgegpt_itself_does_not_need_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = sys.modules['_pytest'] = None\n"
        "import edgegpt.budget.check, edgegpt.runtime.self_check, edgegpt.cli.main"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# What is refused


@pytest.mark.parametrize(
    ("options", "measures"),
    [
        ("-n 2", False),
        ("--dist=each --tx=2*popen", False),
        ("-n 0", True),
        ("--dist loadgroup", True),
        ("--dist=load -n 0", True),
    ],
)
def test_it_measures_only_where_xdist_distributes_nothing(
    pytester: pytest.Pytester, model: Path, options: str, measures: bool
) -> None:
    pytest.importorskip("xdist")
    result = run(pytester, model, "sizes.yaml", *options.split())
    if measures:
        result.assert_outcomes(passed=5)
    else:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*edgegpt*pytest-xdist*-n 0"])


MODEL, BUDGET = "--edgegpt-model=MODEL", "--edgegpt-budget=sizes.yaml"


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ([BUDGET], "--edgegpt-budget --edgegpt-model"),
        ([MODEL], "--edgegpt-model --edgegpt-budget"),
        (["--edgegpt-model=none.onnx", BUDGET], "none.onnx"),
        (["--edgegpt-model=sizes.yaml", BUDGET], "sizes.yaml"),
        (["--edgegpt-model=cut.onnx", BUDGET], "cut.onnx"),
        ([f"--edgegpt-model={'x' * 300}", BUDGET], "x" * 300),
        ([MODEL, "--edgegpt-budget=wrong.yaml"], "token_ms 4.0 2.0"),
        ([MODEL, "--edgegpt-budget=none.yaml"], "none.yaml"),
        ([MODEL, "--edgegpt-budget=pipe.yaml"], "pipe.yaml"),
        ([MODEL, BUDGET, "--edgegpt-checkpoint=none"], "none"),
        *(
            ([MODEL, BUDGET, f"--edgegpt-seconds={seconds}"], seconds)
            for seconds in ("-1", "0", "nan", "inf")
        ),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error_with_the_value(
    pytester: pytest.Pytester, model: Path, options: list[str], values: str
) -> None:
    """With tests written by hand too, which would measure."""
    pytester.makepyfile(BY_HAND)
    pytester.makefile(".yaml", wrong="name: wrong\ntoken_ms: {p50: 4, p99: 2}\n")
    os.mkfifo("pipe.yaml")
    Path("cut.onnx").write_bytes(model.read_bytes()[:-100])
    result = pytester.runpytest_subprocess(*(option.replace("MODEL", str(model)) for option in options))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = filter(None, result.stderr.lines)
    assert [value for value in values.split() if value not in line] == []
