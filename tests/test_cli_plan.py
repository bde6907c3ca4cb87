"""`edgegpt plan` on a board profile made by hand; no time of this machine is judged."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.family import left_after, session
from helpers.planning import SMALL, VALUES, planned
from helpers.sample_target import TARGET

from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.errors import BudgetError
from edgegpt.measure.machine import this_machine
from edgegpt.planner.finalists import Finalist, check_finalists
from edgegpt.planner.planner import PlanResult, plan_models
from edgegpt.prediction.target import TargetMachine

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "budget.yaml").write_text(yaml.safe_dump({"name": "hand", **VALUES}))
    (tmp_path / "profile.yaml").write_text(TARGET.to_yaml())
    return str(tmp_path / "budget.yaml"), str(tmp_path / "profile.yaml")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command searches few models."""
    monkeypatch.setattr("edgegpt.planner.space_of", lambda **_: SMALL)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("option", ["--profile", "--target"])
def test_a_plan_writes_a_model_that_params_can_read(
    option: str, files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "model.yaml"
    arguments = ["--budget", files[0], option, files[1], "--workers", "1", "--out", str(out)]
    assert main(["plan", *arguments]) == 0
    assert TARGET.name in capsys.readouterr().out
    assert ModelConfig.from_yaml(out).tie_embeddings
    assert "--precision" in out.read_text()
    assert main(["params", str(out)]) == 0


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("profile", [True, False])
def test_a_plan_as_json(profile: bool, files: tuple[str, str], capsys: Capture) -> None:
    board = ["--profile", files[1]] if profile else []
    assert main(["plan", "--budget", files[0], *board, "--workers", "1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["target"] == (TARGET.name if profile else None)
    assert data["chosen"] == data["best"][0]
    assert set(data["chosen"]) == {"config", "precision", "expected_loss", "predicted"}
    assert ("token_ms.p50" in data["limits"]) == profile
    assert data["not_planned_for"] == ([] if profile else ["token_ms.p50"])
    assert (data["finalists"], data["slower_than_predicted"]) == ([], {})
    assert bool(data["caveats"]) == profile
    assert 0 < data["models_kept"] <= data["models_seen"]
    assert data["front"]


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


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_finalists_are_built_and_measured_if_the_profile_is_of_this_machine(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    here = TARGET.model_copy(update={"machine": TargetMachine.of(this_machine())})
    Path(files[1]).write_text(here.to_yaml())
    generous = {"name": "hand", "parameters": 300_000, "artifact_mb": 2.0, "token_ms": {"p50": 1000.0}}
    Path(files[0]).write_text(yaml.safe_dump(generous))
    arguments = ["--budget", files[0], "--profile", files[1], "--workers", "1", "--finalists", "1", "--json"]
    assert main(["plan", *arguments]) == 0
    (finalist,) = json.loads(capsys.readouterr().out)["finalists"]
    assert finalist["broken"] == []
    assert finalist["measured"]["artifact_mb"] == pytest.approx(
        finalist["predicted"]["artifact_mb"], rel=0.05
    )
    assert finalist["measured"]["token_ms.p50"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_if_no_finalist_keeps_the_budget_nothing_is_written(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    fast = TARGET.calls.step.model_copy(update={"call_us": 0.0, "us_per_layer": 0.0, "node_factor": 0.0})
    calls = TARGET.calls.model_copy(update={"step": fast})
    here = TARGET.model_copy(update={"machine": TargetMachine.of(this_machine()), "calls": calls})
    Path(files[1]).write_text(here.to_yaml())
    Path(files[0]).write_text(yaml.safe_dump({"name": "hand", "token_ms": {"p50": 0.01}}))
    out = tmp_path / "model.yaml"
    arguments = ["--budget", files[0], "--profile", files[1], "--workers", "1", "--finalists", "1"]
    assert main(["plan", *arguments, "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert all(value in error for value in ("'hand'", "token_ms.p50", "0.01"))
    assert not out.exists()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("limits", "needs"),
    [
        ({"artifact_mb": 0.001}, [["artifact_mb"]]),
        ({"artifact_mb": 0.001, "parameters": 10}, [["artifact_mb", "parameters"]]),
    ],
)
def test_an_infeasible_budget_gives_ways_out_as_json(
    files: tuple[str, str], capsys: Capture, limits: dict[str, float], needs: list[list[str]]
) -> None:
    def planned(**limits: float) -> tuple[int, dict[str, Any], str]:
        Path(files[0]).write_text(yaml.safe_dump({"name": "hand", **limits}))
        code = main(["plan", "--budget", files[0], "--workers", "1", "--json"])
        output = capsys.readouterr()
        return code, json.loads(output.out), output.err

    code, data, error = planned(**limits)
    assert (code, error) == (1, f"edgegpt: {data['message']}\n")
    assert (data["limits"], data["chosen"]) == (limits, None)
    assert [sorted(way["needs"]) for way in data["nearest"]] == needs
    for way in data["nearest"]:
        code, again, _ = planned(**limits | way["needs"])
        assert code == 0
        assert way["config"] in [model["config"] for model in again["best"]]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["--profile", "none.yaml"], ["none.yaml"]),
        (["--profile", "BUDGET"], ["budget.yaml"]),
        (["--workers", "0"], ["workers", "0"]),
        (["--precision", "int2"], ["'int2'"]),
        (["--vocab-size", "5"], ["vocab_size", "5"]),
        (["--context", "8"], ["context", "8"]),
        (["--ray", "local", "--workers", "2"], ["--ray", "--workers", "local", "2"]),
        (["--out", "model.txt"], ["--out", ".yaml"]),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], values: list[str], files: tuple[str, str], capsys: Capture
) -> None:
    given = [files[0] if part == "BUDGET" else part for part in arguments]
    assert main(["plan", "--budget", files[0], *given]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert [value for value in values if value not in output.err] == []


# Finalists


def measured(planned: PlanResult, times: float, noise: tuple[str, ...] = ()) -> list[Finalist]:
    """Return the two best, with every time `times` what was predicted."""
    return [
        Finalist(rated, {k: v * (times if "_ms." in k else 1) for k, v in rated.figures.items()}, noise)
        for rated in planned.found.best[:2]
    ]


def test_if_all_finalists_are_too_slow_a_second_search_allows_for_that() -> None:
    first = planned(token_ms={"p50": 0.3})
    made: list[dict[str, float]] = []

    def again(slower: Any) -> PlanResult:
        made.append(dict(slower))
        return plan_models(first.budget, SMALL, target=TARGET, slower=slower)

    check = check_finalists(first, lambda plan: measured(plan, 1.5), again)
    assert made == [{"token_ms.p50": pytest.approx(1.5)}]
    assert check.slower == made[0]
    assert len(check.measured) == 4
    assert check.chosen is not None
    assert check.chosen.figures["token_ms.p50"] <= 0.2
    assert check.chosen not in first.found.best[:2]


def test_on_a_busy_machine_there_is_no_second_search(
    files: tuple[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a neighbour that doubles every time would lead to a much weaker model."""
    first = planned(token_ms={"p50": 0.3})
    busy = measured(first, 2.0, ("the load was 9",))
    check = check_finalists(first, lambda _: busy, lambda _: pytest.fail("it searched"))
    assert (check.chosen, check.slower, check.noise) == (None, {}, ("the load was 9",))
    monkeypatch.setattr("edgegpt.planner.plan_models", lambda *_, **__: first)
    monkeypatch.setattr("edgegpt.cli.plan._finalists", lambda *_: busy)
    assert main(["plan", "--budget", files[0], "--profile", files[1], "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["chosen"] is None
    assert [finalist["noise"] for finalist in data["finalists"]] == [["the load was 9"]] * 2
    assert main(["plan", "--budget", files[0], "--profile", files[1]]) == 1  # as tables


def test_if_the_second_search_finds_nothing_the_shortfall_has_value_and_limit() -> None:
    first = planned(token_ms={"p50": 0.06})

    def again(slower: Any) -> PlanResult:
        raise BudgetError("nothing")

    check = check_finalists(first, lambda plan: measured(plan, 10.0), again)
    assert check.chosen is None
    assert check.shortfall(first.limits).startswith("token_ms.p50 0.")
    assert check.shortfall(first.limits).endswith(" where 0.06 is allowed")


def test_finalists_that_keep_the_budget_need_no_second_search() -> None:
    first = planned(token_ms={"p50": 0.3})
    check = check_finalists(first, lambda plan: measured(plan, 0.9), lambda _: pytest.fail("it searched"))
    assert check.chosen == first.found.best[0]
    assert (
        check_finalists(first, lambda _: [], lambda _: pytest.fail("it searched")).chosen
        == first.found.best[0]
    )


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
        "--budget", files[0], "--profile", files[1], "--workers", "3", "--out", f"{out}/model.yaml"
    )
    while len(session(child.pid)) < 4:  # with multiprocessing's own, two workers
        assert child.poll() is None
        time.sleep(0.01)
    time.sleep(seconds)
    if how == signal.SIGINT:
        os.killpg(child.pid, how)
    else:
        child.send_signal(how)
    _, errors = child.communicate(timeout=60)
    if how == signal.SIGINT:  # a killed parent cannot silence its children
        was_over = child.returncode == 1 and errors.count("\n") == 1
        assert was_over or (child.returncode, errors) == (130, "edgegpt: interrupted\n")
    assert left_after(child.pid, 10) == []
    assert list(out.iterdir()) == []
