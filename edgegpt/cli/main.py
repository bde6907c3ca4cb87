"""`edgegpt`: one thin file a command; this one gathers them and turns errors into exit codes.

Exit codes: 0 done, 1 a check fell short, 2 bad input, 130 interrupted by Ctrl-C.
"""

import sys
from typing import Annotated

import typer
from pydantic import ValidationError
from typer.exceptions import TyperException

from edgegpt import __version__
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

_INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended, and what typer makes of it

app = typer.Typer(
    name="edgegpt",
    help="Put a small GPT on a robot: train, export to ONNX with proof, and run.",
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
    """Run one command and return its exit code; what is wrong is one sentence on stderr."""
    try:
        code = app(args=arguments, prog_name="edgegpt", standalone_mode=False)
        if sys.stdout is not None:  # None when it was closed before the start
            sys.stdout.flush()
    except typer.Exit as e:
        return e.exit_code
    except TyperException as e:  # wrong arguments; without any, the help has been printed already
        if sentence := _usage_sentence(e):
            print(f"edgegpt: {sentence}", file=sys.stderr)
        return e.exit_code
    except EdgeGPTError as e:
        print(f"edgegpt: {e}", file=sys.stderr)
        return 1 if isinstance(e, VerificationError | BudgetError) else 2
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the reader of our output has gone; rich's stderr then exits
        stdout.on_broken_pipe()
        return 0
    except UnicodeEncodeError as e:
        character, encoding = e.object[e.start], e.encoding
        print(
            f"edgegpt: the output's encoding {encoding} has no {character!a}; set PYTHONUTF8=1",
            file=sys.stderr,
        )
        return 2
    except MemoryError:
        print("edgegpt: not enough memory for a model of this size", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"edgegpt: {e.filename or 'input or output'}: {e.strerror or e}", file=sys.stderr)
        return 2
    if code == _INTERRUPTED:
        print("edgegpt: interrupted", file=sys.stderr)
    return int(code or 0)


def _usage_sentence(error: TyperException) -> str:
    sentence = error.format_message().rstrip(".")
    if isinstance(error.__cause__, ValidationError):  # typer leaves the value out
        sentence += f", got {error.__cause__.errors()[0]['input']!r}"
    return sentence
