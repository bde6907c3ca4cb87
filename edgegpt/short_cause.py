"""onnxruntime's errors are paragraphs; a user gets the line that says what happened."""


def short_cause(error: BaseException) -> str:
    """The first line of an onnxruntime message, at most 120 characters of it."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 120 else line[:117] + "..."
