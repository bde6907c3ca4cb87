"""Text that DDS carries whole."""


def wire(text: str) -> str:
    """The text with what no ROS string can hold replaced: a NUL would cut it, half a character raises."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
