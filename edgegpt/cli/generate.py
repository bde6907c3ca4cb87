"""`edgegpt generate FILE.onnx PROMPT`."""

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgegpt.cli.output import FileArgument, JsonOption, print_json, stderr
from edgegpt.errors import PromptError

if TYPE_CHECKING:
    from edgegpt.runtime import Stream


# Why an answer may not be whole, which its text does not tell.
_CUT = {"length": "max_new_tokens", "context": "the end of the context", "deadline": "deadline_ms"}


def generate(
    file: FileArgument,
    prompt: Annotated[str, typer.Argument(help="What to answer; - reads standard input.")],
    max_new_tokens: Annotated[int | None, typer.Option(help="At most this many tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Only the k likeliest tokens; 0 is off.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Only the nucleus of this probability; 1 is off.")
    ] = None,
    min_p: Annotated[float | None, typer.Option(help="Only tokens this likely beside the likeliest.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Above 1 repeats less.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this string; may be repeated.")] = None,
    deadline_ms: Annotated[float | None, typer.Option(help="End within this many milliseconds.")] = None,
    capacity: Annotated[
        int | None, typer.Option(help="Context in tokens; the model's own if not given.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of onnxruntime; as `edgegpt tune` found, or 1.")
    ] = None,
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="Print as it comes; on a terminal by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer one prompt. What is not given is as the file's own sampling defaults have it."""
    from edgegpt.runtime import load

    given: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "stop": tuple(stop) if stop else None,
        "deadline_ms": deadline_ms,
    }
    text = _standard_input() if prompt == "-" else prompt
    generator = load(file, threads=threads, capacity=capacity)
    params = replace(generator.sampling, **{key: value for key, value in given.items() if value is not None})
    answer = generator.stream(text, params)
    if as_json:
        print_json(asdict(answer.result()))
        return
    terminal = sys.stdout is not None and sys.stdout.isatty()
    _print(answer, as_it_comes=terminal if stream is None else stream)
    reply = answer.reply
    assert reply is not None  # the stream has ended
    if cut := _CUT.get(reply.finish_reason):
        print(f"edgegpt: the answer was cut short by {cut}", file=sys.stderr)
    if terminal:
        stderr.print(
            f"{reply.finish_reason}, {reply.usage.prompt_tokens} + {reply.usage.completion_tokens} tokens, "
            f"first after {reply.timing.ttft_ms:.1f} ms, all after {reply.timing.total_ms:.1f} ms, "
            f"cache {generator.engine.cache_bytes:,} bytes",
            style="dim",
        )


def _standard_input() -> str:
    """All of it without the line end that `echo` and editors put last; a stray byte is kept as one."""
    if sys.stdin is None:
        raise PromptError("standard input is closed; give the prompt as an argument")
    text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")


def _print(answer: "Stream", *, as_it_comes: bool) -> None:
    if as_it_comes:
        for piece in answer:
            print(piece.text, end="", flush=True)
        print()
    else:
        print(answer.result().text)
