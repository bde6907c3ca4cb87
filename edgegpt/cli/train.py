"""`edgegpt train RUN.yaml`."""

import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgegpt.cli.output import JsonOption, stderr
from edgegpt.errors import needs

if TYPE_CHECKING:
    from edgegpt.training import TrainingProgress


def train(
    run_file: Annotated[Path, typer.Argument(metavar="RUN.yaml", help="The training run.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model on JSONL pairs, text, or the examples of a generator that the run file names."""
    with needs("train"):
        from edgegpt.training import STATE, RunConfig, train as train_run

    run = RunConfig.from_yaml(run_file)
    with ExitStack() as stack:
        report: Any = _print_json if as_json else _ProgressBar(stack, run.steps)
        stage = (lambda _: None) if as_json else report.stage
        try:
            out = train_run(run, run_file.parent, resume=resume, on_progress=report, on_stage=stage)
        except KeyboardInterrupt:
            if (run_file.parent / run.out / STATE).exists():
                stderr.print("The state is saved; --resume continues from here.")
            raise
    if not as_json:
        stderr.print(f"Checkpoint: {out.resolve()}")


def _print_json(progress: "TrainingProgress") -> None:
    print(json.dumps(asdict(progress)), flush=True)


class _ProgressBar:
    """A progress bar with loss and speed, and a line per validation."""

    def __init__(self, stack: ExitStack, steps: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
        self._bar = stack.enter_context(
            Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=stderr)
        )
        self._task = self._bar.add_task("starting", total=steps)

    def stage(self, name: str) -> None:
        self._bar.update(self._task, description=name)

    def __call__(self, progress: "TrainingProgress") -> None:
        self._bar.update(
            self._task,
            completed=progress.step,
            description=f"loss {progress.loss:.4f}  {progress.tokens_per_second:,.0f} tokens/s",
        )
        for name, validation in progress.validations.items():
            result = f"loss {validation.loss:.4f}, exact match {validation.exact_match:.1%}"
            self._bar.console.print(f"step {progress.step}  {name}: {result}")
