"""Options and texts as messages hold them, checked before rclpy fails in C or cuts them silently."""

from typing import Any

from edgegpt_msgs.msg import GenerationOptions


def options_message(options: dict[str, Any]) -> GenerationOptions:
    """The options as a message. rclpy checks no types by itself, and fails in C where one is wrong.

    Raises:
        ValueError: there is no such option, or it is of another type.
    """
    message = GenerationOptions()
    kinds = message.get_fields_and_field_types()
    for name, value in options.items():
        if name not in kinds:
            raise ValueError(f"there is no option {name!r}; there are {', '.join(kinds)}")
        setattr(message, name, _fitting(name, value, kinds[name]))
    return message


def check_text(name: str, text: Any) -> None:
    """Refuse what no ROS string holds: a NUL would cut the text silently, half a character raises.

    Raises:
        ValueError: it is such a text, or none.
    """
    if not isinstance(text, str):
        raise ValueError(f"the {name} must be text, got {text!r}")
    if "\0" in text:
        raise ValueError(f"the {name} holds a NUL character at position {text.index(chr(0))}; remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"the {name} holds half a character at position {error.start}; remove it") from error


def _fitting(name: str, value: Any, kind: str) -> Any:
    """The value as a field of this kind takes it."""
    if kind == "double" and isinstance(value, int | float) and not isinstance(value, bool):
        return _double(name, value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if (
        kind.startswith("int")
        and isinstance(value, int)
        and (name == "stream" or not isinstance(value, bool))
    ):
        if not -(1 << int(kind[3:]) - 1) <= value < 1 << int(kind[3:]) - 1:
            raise ValueError(f"{name} must fit into {kind}, got {value}")
        return int(value)
    if kind == "string" and isinstance(value, str):
        check_text(name, value)
        return value
    if kind == "sequence<string>" and isinstance(value, list | tuple):
        if wrong := [text for text in value if not isinstance(text, str)]:
            raise ValueError(f"{name} must hold strings, got {wrong[0]!r}")
        for text in value:
            check_text(name, text)
        return list(value)
    raise ValueError(f"{name} must be of type {kind}, got {value!r}")


def _double(name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name} must fit into double, got a number of {len(str(value))} digits") from error
