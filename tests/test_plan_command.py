"""`edgegpt plan` as a user types it, on a target made by hand; no time of this machine is judged."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.family import left_after, session
from helpers.planning import SMALL, VALUES, planned
from helpers.sample_target import TARGET
from rich.console import Console

from edgegpt.cli import plan
from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.errors import BudgetError
from edgegpt.measure.machine import this_machine
from edgegpt.planner.finalists import Finalist, FinalistCheck, prove
from edgegpt.planner.planner import PlanResult, plan_models
from edgegpt.prediction.target import TargetMachine

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "budget.yaml").write_text(yaml.safe_dump({"name": "hand", **VALUES}))
    (tmp_path / "target.yaml").write_text(TARGET.to_yaml())
    return str(tmp_path / "budget.yaml"), str(tmp_path / "target.yaml")


def refused(capsys: Capture, *arguments: str, code: int = 2) -> str:
    assert main(["plan", *arguments]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command searches few models."""
    monkeypatch.setattr("edgegpt.planner.space.space_of", lambda **_: SMALL)


@pytest.mark.usefixtures("few")
def test_a_plan_writes_a_model_that_params_can_read(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "model.yaml"
    arguments = ["--budget", files[0], "--target", files[1], "--workers", "1", "--out", str(out)]
    assert main(["plan", *arguments]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "The strongest",
        "What less time costs (Pareto front",
        "models of 0 to 1000 M parameters keep it",
        "Kaplan et al. 2020",
        "another machine",
        "Chosen: ",
    ):
        assert words in text
    config = ModelConfig.from_yaml(out)
    assert config.tie_embeddings
    assert "# Export it with --precision" in out.read_text()
    assert main(["params", str(out)]) == 0


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("out", "schemas", "first"),
    [
        ("planned.yaml", "elsewhere", "# Planned by"),
        (
            "planned.yaml",
            "configs/schemas",
            "# yaml-language-server: $schema=configs/schemas/model.schema.json",
        ),
        (
            "configs/models/planned.yaml",
            "configs/schemas",
            "# yaml-language-server: $schema=../schemas/model.schema.json",
        ),
    ],
)
def test_a_plan_names_the_schema_where_an_editor_finds_it(
    files: tuple[str, str], tmp_path: Path, out: str, schemas: str, first: str
) -> None:
    (tmp_path / schemas).mkdir(parents=True)
    (tmp_path / schemas / "model.schema.json").touch()
    (tmp_path / out).parent.mkdir(exist_ok=True)
    assert main(["plan", "--budget", files[0], "--workers", "1", "--out", str(tmp_path / out)]) == 0
    assert (tmp_path / out).read_text().startswith(first)


@pytest.mark.usefixtures("few")
def test_a_plan_for_machines(files: tuple[str, str], capsys: Capture) -> None:
    assert main(["plan", "--budget", files[0], "--target", files[1], "--workers", "1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["chosen"] == data["best"][0]
    assert data["finalists"] == []
    assert data["models_kept"] < data["models_seen"]


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_finalists_are_built_and_measured_where_the_target_is_this_machine(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    here = TARGET.model_copy(update={"machine": TargetMachine.of(this_machine())})
    Path(files[1]).write_text(here.to_yaml())
    generous = {"name": "hand", "parameters": 300_000, "artifact_mb": 2.0, "token_ms": {"p50": 1000.0}}
    Path(files[0]).write_text(yaml.safe_dump(generous))
    arguments = ["--budget", files[0], "--target", files[1], "--workers", "1", "--finalists", "1", "--json"]
    assert main(["plan", *arguments]) == 0
    (finalist,) = json.loads(capsys.readouterr().out)["finalists"]
    assert finalist["broken"] == []
    assert finalist["measured"]["artifact_mb"] == pytest.approx(
        finalist["predicted"]["artifact_mb"], rel=0.05
    )
    assert finalist["measured"]["token_ms.p50"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_where_no_finalist_keeps_the_budget_nothing_is_written(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    fast = TARGET.calls.step.model_copy(update={"call_us": 0.0, "us_per_layer": 0.0, "node_factor": 0.0})
    calls = TARGET.calls.model_copy(update={"step": fast})
    here = TARGET.model_copy(update={"machine": TargetMachine.of(this_machine()), "calls": calls})
    Path(files[1]).write_text(here.to_yaml())
    Path(files[0]).write_text(yaml.safe_dump({"name": "hand", "token_ms": {"p50": 0.01}}))
    out = tmp_path / "model.yaml"
    arguments = ["--budget", files[0], "--target", files[1], "--workers", "1", "--finalists", "1"]
    assert main(["plan", *arguments, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "none of 1 finalists keeps the budget 'hand', the nearest has token_ms.p50 " in said
    assert " where 0.01 is allowed" in said
    assert not out.exists()


@pytest.mark.usefixtures("few")
def test_an_impossible_budget_ends_with_one(files: tuple[str, str], capsys: Capture) -> None:
    Path(files[0]).write_text(yaml.safe_dump({"name": "hand", "artifact_mb": 0.001}))
    message = refused(capsys, "--budget", files[0], "--workers", "1", code=1)
    assert "artifact_mb binds; the nearest possible is artifact_mb 0.0" in message


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("limits", "needs"),
    [
        ({"artifact_mb": 0.001}, [["artifact_mb"]]),
        ({"artifact_mb": 0.001, "parameters": 10}, [["artifact_mb", "parameters"]]),
    ],
)
def test_an_impossible_budget_says_to_machines_what_would_do(
    files: tuple[str, str], capsys: Capture, limits: dict[str, float], needs: list[list[str]]
) -> None:
    def planned(**limits: float) -> tuple[int, dict[str, Any], str]:
        Path(files[0]).write_text(yaml.safe_dump({"name": "hand", **limits}))
        code = main(["plan", "--budget", files[0], "--workers", "1", "--json"])
        output = capsys.readouterr()
        return code, json.loads(output.out), output.err

    code, data, said = planned(**limits)
    assert (code, said) == (1, f"edgegpt: {data['message']}\n")
    assert (data["limits"], data["chosen"]) == (limits, None)
    assert [sorted(way["needs"]) for way in data["nearest"]] == needs
    for way in data["nearest"]:
        code, again, _ = planned(**limits | way["needs"])
        assert code == 0
        assert way["config"] in [model["config"] for model in again["best"]]


def test_bad_input_is_one_sentence(files: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    given = ["--budget", files[0]]
    assert "does not exist" in refused(capsys, "--budget", "none.yaml")
    assert "does not exist" in refused(capsys, *given, "--target", "none.yaml")
    assert "is a budget, not a profile of a board" in refused(capsys, *given, "--target", files[0])
    assert "workers must be within 1 and 1024, got 0" in refused(capsys, *given, "--workers", "0")
    assert "got 'int2'" in refused(capsys, *given, "--precision", "int2")
    assert "vocab_size must be within 257" in refused(capsys, *given, "--vocab-size", "5")
    assert "got 8" in refused(capsys, *given, "--context", "8")
    assert "exclude each other" in refused(capsys, *given, "--ray", "local", "--workers", "2")
    assert "must name a .yaml" in refused(capsys, *given, "--out", str(tmp_path / "model.txt"))


# Finalists


def measured(planned: PlanResult, times: float, noise: tuple[str, ...] = ()) -> list[Finalist]:
    """The two best, as if every time had been so many times what was predicted."""
    return [
        Finalist(rated, {k: v * (times if "_ms." in k else 1) for k, v in rated.figures.items()}, noise)
        for rated in planned.found.best[:2]
    ]


def test_where_all_finalists_are_too_slow_a_second_search_allows_for_that() -> None:
    first = planned(token_ms={"p50": 0.3})
    made: list[dict[str, float]] = []

    def again(slower: Any) -> PlanResult:
        made.append(dict(slower))
        return plan_models(first.budget, SMALL, target=TARGET, slower=slower)

    proof = prove(first, lambda plan: measured(plan, 1.5), again)
    assert made == [{"token_ms.p50": pytest.approx(1.5)}]
    assert proof.slower == made[0]
    assert len(proof.measured) == 4
    assert proof.chosen is not None
    assert proof.chosen.figures["token_ms.p50"] <= 0.2
    assert proof.chosen not in first.found.best[:2]


def test_on_a_busy_machine_there_is_no_second_search_but_a_sentence(
    files: tuple[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour that doubles every time would else make a much weaker model the chosen one."""
    first = planned(token_ms={"p50": 0.3})
    busy = measured(first, 2.0, ("the load was 9",))
    proof = prove(first, lambda _: busy, lambda _: pytest.fail("it searched"))
    assert (proof.chosen, proof.slower, proof.noise) == (None, {}, ("the load was 9",))
    monkeypatch.setattr("edgegpt.planner.planner.plan_models", lambda *_, **__: first)
    monkeypatch.setattr("edgegpt.cli.plan._finalists", lambda *_: busy)
    assert main(["plan", "--budget", files[0], "--target", files[1]]) == 1
    output = capsys.readouterr()
    assert "the load was 9" in output.out
    assert "not quiet" in output.err


def test_where_the_second_search_finds_nothing_the_shortfall_has_value_and_limit() -> None:
    first = planned(token_ms={"p50": 0.06})

    def again(slower: Any) -> PlanResult:
        raise BudgetError("nothing")

    proof = prove(first, lambda plan: measured(plan, 10.0), again)
    assert proof.chosen is None
    assert proof.shortfall(first.limits).startswith("token_ms.p50 0.")
    assert proof.shortfall(first.limits).endswith(" where 0.06 is allowed")


def test_finalists_that_keep_the_budget_need_no_second_search() -> None:
    first = planned(token_ms={"p50": 0.3})
    proof = prove(first, lambda plan: measured(plan, 0.9), lambda _: pytest.fail("it searched"))
    assert proof.chosen == first.found.best[0]
    assert prove(first, lambda _: [], lambda _: pytest.fail("it searched")).chosen == first.found.best[0]


def test_a_front_that_is_cut_says_so() -> None:
    found = planned(parameters=10**8)
    proof = prove(found, lambda _: [], lambda _: pytest.fail("it searched"))
    parts = plan.plan_tables(found, SMALL, TARGET, proof)
    text = " ".join(str(getattr(part, "title", part)) for part in parts)
    front = len(found.found.front)
    assert front > 12
    assert f"Pareto front, 12 of {front}" in text


def test_tables_of_large_models_fit_into_80_columns_unbroken() -> None:
    found = planned(parameters=10**8)
    best = found.found.best[0]
    config = ModelConfig(vocab_size=32768, block_size=1024, n_layer=24, n_head=16, n_embd=1024)
    figures = {"parameters": 149.93e6, "artifact_mb": 599.9, "peak_rss_mb": 1234.0}
    times = {"ttft_ms.p50": 1234.5, "token_ms.p50": 123.45}
    candidate = replace(best.candidate, config=config)
    large = replace(best, candidate=candidate, figures=best.figures | figures | times)
    several = replace(found, found=replace(found.found, best=(large,), front=(large,)))
    console = Console(width=80, file=StringIO(), force_terminal=False)
    for part in plan.plan_tables(several, SMALL, TARGET, FinalistCheck(large, tuple(measured(found, 1.0)))):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    header = r"^model +heads +vocab +ctx +bits +M +MB +first +token +RSS +rank *$"
    row = r"^24 x 1024 +16 +32768 +1024 +\w+ +149\.93 +599\.9 +1234\.5 +123\.45 +1234 +\d\.\d{3} *$"
    assert [len(re.findall(line, text, re.MULTILINE)) for line in (header, row)] == [2, 2]


# Ended


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgegpt", "plan", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_search_that_is_ended_leaves_no_process(
    how: signal.Signals, seconds: float, files: tuple[str, str], tmp_path: Path
) -> None:
    """Ctrl-C goes to every process of a terminal, here at once, while they import and when they work."""
    Path(files[0]).write_text(yaml.safe_dump({"name": "hand", "token_ms": {"p50": 1e-6}}))
    out = tmp_path / "folder"
    out.mkdir()
    child = started(
        "--budget", files[0], "--target", files[1], "--workers", "3", "--out", f"{out}/model.yaml"
    )
    while len(session(child.pid)) < 4:  # with multiprocessing's own, two workers
        assert child.poll() is None
        time.sleep(0.01)
    time.sleep(seconds)
    if how == signal.SIGINT:
        os.killpg(child.pid, how)
    else:
        child.send_signal(how)
    _, said = child.communicate(timeout=60)
    if how == signal.SIGINT:  # a parent that was killed cannot keep its children from a last word
        was_over = child.returncode == 1 and said.startswith("edgegpt: no model of")
        assert was_over or (child.returncode, said) == (130, "edgegpt: interrupted\n")
    assert left_after(child.pid, 10) == []
    assert list(out.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("seconds", [0.03, 0.06])
def test_a_second_ctrl_c_does_not_hold_the_end_up(
    seconds: float, files: tuple[str, str], tmp_path: Path
) -> None:
    Path(files[0]).write_text(yaml.safe_dump({"name": "hand", "token_ms": {"p50": 1e-6}}))
    child = started("--budget", files[0], "--target", files[1], "--workers", "2")
    while len(session(child.pid)) < 4:
        assert child.poll() is None
        time.sleep(0.01)
    time.sleep(1)
    for _ in range(2):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
        time.sleep(seconds)
    child.communicate(timeout=60)
    assert left_after(child.pid, 10) == []
