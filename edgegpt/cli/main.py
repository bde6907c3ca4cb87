"""The `edgegpt` command: register one function per command and turn errors into exit codes.

Exit codes: 0 done, 1 a check failed, 2 bad input, 130 interrupted by Ctrl-C.
"""

import sys
from typing import Annotated

import typer
from pydantic import ValidationError
from typer.exceptions import TyperException

from edgegpt.cli.bench import bench
from edgegpt.cli.check import check
from edgegpt.cli.eval import eval_
from edgegpt.cli.export import export
from edgegpt.cli.generate import generate
from edgegpt.cli.info import info
from edgegpt.cli.output import stdout
from edgegpt.cli.params import params
from edgegpt.cli.plan import plan
from edgegpt.cli.profile import profile
from edgegpt.cli.report import report
from edgegpt.cli.train import train
from edgegpt.cli.tune import tune
from edgegpt.cli.verify import verify
from edgegpt.errors import BudgetError, EdgeGPTError, VerificationError

_INTERRUPTED = 130  # 128 + SIGINT, as in a shell; typer returns it too

app = typer.Typer(
    name="edgegpt",
    help="Put a small GPT on a robot: train, export to verified ONNX, and run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    params,
    train,
    export,
    verify,
    info,
    generate,
    eval_,
    bench,
    tune,
    check,
    profile,
    plan,
    report,
):
    app.command(command.__name__.rstrip("_"))(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from edgegpt import __version__  # reads the distribution's metadata

        print(f"edgegpt {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; an error becomes one sentence on stderr."""
    try:
        code = app(args=arguments, prog_name="edgegpt", standalone_mode=False)
        if sys.stdout is not None:  # None when it was closed before the start
            sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the reader of our output has gone; rich's stderr then exits
        stdout.on_broken_pipe()
        return 0
    except (EdgeGPTError, TyperException, OSError, MemoryError, UnicodeError) as e:
        if sentence := _sentence(e):
            print(f"edgegpt: {sentence}", file=sys.stderr)
        return 1 if isinstance(e, VerificationError | BudgetError) else 2
    if code == _INTERRUPTED:
        print("edgegpt: interrupted", file=sys.stderr)
    return int(code or 0)


def _sentence(error: Exception) -> str:
    """Return the message of an error; it is empty where typer has printed the help instead."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; use a smaller model or context"
    if isinstance(error, UnicodeEncodeError):
        return (
            f"{error.encoding} output cannot hold {error.object[error.start : error.end]!a}; set PYTHONUTF8=1"
        )
    if not isinstance(error, TyperException):
        return str(error) or type(error).__name__
    sentence = error.format_message().rstrip(".")
    if isinstance(error.__cause__, ValidationError):  # typer leaves the value out
        sentence += f", got {error.__cause__.errors()[0]['input']!r}"
    return sentence
