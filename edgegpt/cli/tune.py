"""`edgegpt tune FILE.onnx`."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgegpt.cli.output import FileArgument, JsonOption, measuring, megabytes, print_json, stdout, table
from edgegpt.measure import noise_sentence, versions_text

if TYPE_CHECKING:
    from edgegpt.autotune import Autotuned, PairedComparison, Ratio


def tune(
    file: FileArgument,
    allow_spinning: Annotated[
        bool,
        typer.Option("--allow-spinning", help="Also try threads that keep their cores busy while they wait."),
    ] = False,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.0, max=600.0, help="Seconds to measure each number of threads; a slow model takes longer."
        ),
    ] = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Find the fastest number of threads on this machine, and store it where edgegpt.load looks.

    One thread that sleeps while it waits is the default; more are used only where they are faster by a tenth
    with the whole 95 % interval, since a robot's other programs need the cores.
    """
    from edgegpt.autotune import autotune

    with measuring(visible=not as_json) as on_progress:
        result = autotune(file, allow_spinning=allow_spinning, seconds=seconds, on_progress=on_progress)
    if as_json:
        print_json(_json(result))
    else:
        _print(result)


def _print(result: "Autotuned") -> None:
    from edgegpt.runtime import PREFILL_CHUNK

    machine, first = result.machine, result.comparisons[0]
    cores = f"{machine.available_cores} of {machine.cores} cores"
    versions = versions_text(machine.versions)
    stdout.print(f"{result.path}: on {machine.board or machine.cpu}, {cores}; {versions}\n")
    ratio = "of one thread's time"
    stdout.print(
        table(
            f"Decode step, {first.cache_fill} tokens in the cache",
            ["", "p50, ms", ratio, "memory of the session"],
            [[str(one), *_time(one.token), _memory(one)] for one in result.comparisons],
        )
    )
    stdout.print(
        table(
            f"Time to first token, prompt of {first.prompt_tokens}; one thread in chunks of {PREFILL_CHUNK}",
            ["", "prefill chunk", "p50, ms", ratio],
            [
                [str(one), str(chunk), *_time(part)]
                for one in result.comparisons
                for chunk, part in one.prompt.items()
            ],
        )
    )
    stdout.print(f"Chosen: {result.choice.tuning}.")
    for reason in result.choice.reasons:
        stdout.print(f"  {reason}.")
    if (extra := result.choice.second_session_bytes) != 0:
        size = "memory that this system does not report" if extra is None else megabytes(extra)
        stdout.print(f"  The second session takes {size}.")
    stdout.print(
        f"Stored in {result.kept}; edgegpt.load uses it unless it is given a number of threads. "
        "Remove the file to go back to one thread.",
        soft_wrap=True,
    )
    if result.noise:
        stdout.print(f"{noise_sentence(result.noise, 'more threads may be faster than measured')}.")


def _time(ratio: "Ratio") -> tuple[str, str]:
    high = "?" if math.isinf(ratio.high) else f"{ratio.high:.2f}"
    return f"{ratio.ms:.3f}", f"{ratio.share:.2f} ({ratio.low:.2f}-{high})"


def _memory(one: "PairedComparison") -> str:
    return "unknown" if one.session_bytes is None else megabytes(one.session_bytes)


def _json(result: "Autotuned") -> dict[str, Any]:
    """Return the measurements for JSON; times are in milliseconds and as shares of one thread's."""
    from edgegpt.autotune import MARGIN

    first, choice = result.comparisons[0], result.choice
    return {
        "path": result.path,
        "machine": result.machine.to_json(),
        "margin": MARGIN,
        "cache_fill": first.cache_fill,
        "prompt_tokens": first.prompt_tokens,
        "measured": [
            {
                "threads": one.threads,
                "spinning": one.spinning,
                "token": asdict(one.token),
                "prompt": [{"chunk": chunk, **asdict(part)} for chunk, part in one.prompt.items()],
                "session_bytes": one.session_bytes,
                "rounds": len(one.round_ms),
            }
            for one in result.comparisons
        ],
        "tuning": asdict(choice.tuning),
        "reasons": list(choice.reasons),
        "second_session_bytes": choice.second_session_bytes,
        "kept": str(result.kept),
        "noise": list(result.noise),
    }
