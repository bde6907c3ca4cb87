"""Bytes on the wire that no Python string can say: rclpy's own way of filling a message, and then ours."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MARK = b"@RAW@"  # in the text that is sent; what is put in its place is as long

# bool convert_from_py(PyObject *, void *), the C function by which rclpy fills a message
_FILL = ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.py_object, ctypes.c_void_p)
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]


@contextmanager
def raw(kind: type, bytes_: bytes, *, before: int = 0) -> Iterator[None]:
    """Put bytes in the place of MARK in the text of every message of a kind that is sent meanwhile.

    Args:
        kind: whose first field, or the first after `before` bytes, is the text.
        bytes_: as many as MARK has.
        before: size in C of the fields before the text.
    """
    assert len(bytes_) == len(MARK)
    kind.__import_type_support__()
    meta: Any = type(kind)
    own = meta._CONVERT_FROM_PY
    fill = _FILL(_pointer(own, _name(own)))

    def fill_and_replace(message: object, address: int) -> bool:
        filled = fill(message, address)
        text = ctypes.c_void_p.from_address(address + before).value  # rosidl's string begins with its data
        assert text is not None
        at = ctypes.string_at(text).index(MARK)
        ctypes.memmove(text + at, bytes_, len(bytes_))
        return bool(filled)

    replacing = _FILL(fill_and_replace)
    meta._CONVERT_FROM_PY = _new(ctypes.cast(replacing, ctypes.c_void_p), _name(own), None)
    try:
        yield
    finally:
        meta._CONVERT_FROM_PY = own
