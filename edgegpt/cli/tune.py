"""`edgegpt tune FILE.onnx`."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgegpt.cli.output import FileArgument, JsonOption, megabytes, print_json, stdout, table
from edgegpt.cli.progress import measuring
from edgegpt.measure import quietness

if TYPE_CHECKING:
    from edgegpt.autotune import Autotuned, PairedComparison, Ratio


def tune(
    file: FileArgument,
    allow_spinning: Annotated[
        bool,
        typer.Option("--allow-spinning", help="Try threads too that keep their cores busy while they wait."),
    ] = False,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.0, max=600.0, help="Measuring time of each number of threads; a slow model takes more."
        ),
    ] = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Find out how a file runs best on this machine, and keep it where edgegpt.load looks.

    One thread that sleeps while it waits is the rule; more are taken only where they are faster by a
    tenth beyond doubt, since a robot's other programs want the cores.
    """
    from edgegpt.autotune import autotune

    with measuring(visible=not as_json) as on_progress:
        result = autotune(file, allow_spinning=allow_spinning, seconds=seconds, on_progress=on_progress)
    if as_json:
        print_json(_json(result))
    else:
        _print(result)


def _print(result: "Autotuned") -> None:
    from edgegpt.budget import versions_text
    from edgegpt.runtime import PREFILL_CHUNK

    machine, first = result.machine, result.duels[0]
    cores = f"{machine.available_cores} of {machine.cores} cores"
    versions = versions_text(machine.versions)
    stdout.print(f"{result.path}: on {machine.board or machine.cpu}, {cores}; {versions}\n")
    ratio = "of one thread's time"
    stdout.print(
        table(
            f"One further token, {first.cache_fill} in the cache",
            ["", "p50, ms", ratio, "memory of the session"],
            [[str(duel), *_time(duel.token), _memory(duel)] for duel in result.duels],
        )
    )
    stdout.print(
        table(
            f"A prompt of {first.prompt_tokens} tokens; one thread reads it in pieces of {PREFILL_CHUNK}",
            ["", "in pieces of", "p50, ms", ratio],
            [
                [str(duel), str(chunk), *_time(part)]
                for duel in result.duels
                for chunk, part in duel.prompt.items()
            ],
        )
    )
    stdout.print(f"Chosen: {result.choice.tuning}.")
    for reason in result.choice.reasons:
        stdout.print(f"  {reason}.")
    if (extra := result.choice.second_session_bytes) != 0:
        size = "memory that this system does not tell" if extra is None else megabytes(extra)
        stdout.print(f"  The second session takes {size}.")
    stdout.print(
        f"Kept in {result.kept}; edgegpt.load takes it from there where it is not told how many threads. "
        "Remove the file to go back to one thread.",
        soft_wrap=True,
    )
    if result.noise:
        stdout.print(
            f"The machine {quietness(result.noise)}, so that more threads may be worth more than they seem: "
            f"{'; '.join(result.noise)}."
        )


def _time(relative: "Ratio") -> tuple[str, str]:
    high = "?" if math.isinf(relative.high) else f"{relative.high:.2f}"
    return f"{relative.ms:.3f}", f"{relative.share:.2f} ({relative.low:.2f}-{high})"


def _memory(duel: "PairedComparison") -> str:
    return "unknown" if duel.session_bytes is None else megabytes(duel.session_bytes)


def _json(result: "Autotuned") -> dict[str, Any]:
    from edgegpt.autotune import MARGIN

    return {
        "path": result.path,
        "machine": {**asdict(result.machine), "available_cores": result.machine.available_cores},
        "margin": MARGIN,
        "cache_fill": result.duels[0].cache_fill,
        "prompt_tokens": result.duels[0].prompt_tokens,
        "measured": [
            {
                "threads": duel.threads,
                "spinning": duel.spinning,
                "token": _relative(duel.token),
                "prompt": [{"chunk": chunk, **_relative(part)} for chunk, part in duel.prompt.items()],
                "session_bytes": duel.session_bytes,
                "rounds": len(duel.round_ms),
            }
            for duel in result.duels
        ],
        "tuning": asdict(result.choice.tuning),
        "reasons": list(result.choice.reasons),
        "second_session_bytes": result.choice.second_session_bytes,
        "kept": str(result.kept),
        "noise": list(result.noise),
    }


def _relative(relative: "Ratio") -> dict[str, float | None]:
    """Milliseconds, and shares of one thread's time; a missing upper bound is None."""
    return {**relative.model_dump(), "high": None if math.isinf(relative.high) else relative.high}
