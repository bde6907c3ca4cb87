"""`edgegpt generate FILE.onnx PROMPT`."""

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgegpt.cli.output import FileArgument, JsonOption, print_json, stderr
from edgegpt.errors import PromptError

if TYPE_CHECKING:
    from edgegpt.runtime import Stream


# What cut an answer short, by its finish reason.
_CUT = {"length": "max_new_tokens", "context": "the end of the context", "deadline": "deadline_ms"}


def generate(
    file: FileArgument,
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads standard input.")],
    max_new_tokens: Annotated[int | None, typer.Option(help="Maximum number of new tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature; 0 is greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k most likely tokens; 0 is off.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample from the smallest set of tokens with this probability; 1 is off."),
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Drop tokens below this fraction of the top probability.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Penalty on tokens that occurred before; 1 is off.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the sampler; repeats the same text.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop before this string; may be repeated.")] = None,
    deadline_ms: Annotated[float | None, typer.Option(help="Stop after this many milliseconds.")] = None,
    capacity: Annotated[
        int | None, typer.Option(help="KV-cache capacity in tokens (default: the whole context).")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="CPU threads for onnxruntime (default: the result of `edgegpt tune`, or 1)."),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Print text as it is generated (default: on a terminal)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer one prompt. Unset options use the file's sampling defaults."""
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
    _print(answer, streamed=terminal if stream is None else stream)
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
    """Return standard input without its last line end; bytes that are not UTF-8 become surrogates."""
    if sys.stdin is None:
        raise PromptError("standard input is closed; give the prompt as an argument")
    text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")


def _print(answer: "Stream", *, streamed: bool) -> None:
    if streamed:
        for chunk in answer:
            print(chunk.text, end="", flush=True)
        print()
    else:
        print(answer.result().text)
