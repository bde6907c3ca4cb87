"""What is known about a board, figure by figure, and from where."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from edgegpt.config.schema import Count, Positive, Words

_SAME: Final = {"arm64": "aarch64", "AMD64": "x86_64", "ARM64": "aarch64"}  # names on macOS and Windows


class Figure(BaseModel):
    """One number about a board and where it comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    value: Positive = Field(description="In the unit of its key.")
    basis: Literal["published", "measured"] = Field(
        description="published: a maker's data sheet says so; measured: somebody measured it on the board."
    )
    source: Annotated[str, Field(min_length=1)] = Field(description="Who says so: a page or a document.")


class WholeFigure(Figure):
    """A figure that counts things."""

    value: Count = Field(description="How many.")


class Board(BaseModel):
    """The board that a budget speaks of."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    description: Words = Field(description="Which board, in words.")
    architecture: Literal["aarch64", "armv7l", "riscv64", "x86_64"] | None = Field(
        None, description="Of its processor, as `uname -m` says."
    )
    device_tree: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="How its /proc/device-tree/model begins, such as Raspberry Pi 5."
    )
    cores: WholeFigure | None = Field(None, description="CPU cores.")
    clock_ghz: Figure | None = Field(None, description="Highest clock of a core.")
    memory_mb: Figure | None = Field(
        None,
        description="Memory of the board; a model that needs more is refused before it is loaded, and a "
        "measured peak_rss_mb is held to it.",
    )
    memory_bandwidth_gb_s: Figure | None = Field(None, description="10^9 bytes a second.")
    never_measured: list[str] = Field(
        [],
        description="Keys of this budget, such as token_ms, whose limits are goals: on this board nobody "
        "has measured yet that a model meets them.",
    )

    def unlike(self, architecture: str, name: str | None) -> str:
        """What shows that a machine is plainly another one, in a few words; empty where nothing does.

        Args:
            architecture: of the machine, as its system calls it.
            name: what its device tree says; None where it has none.
        """
        found = _SAME.get(architecture, architecture)
        if self.architecture is not None and found != self.architecture:
            return f"this machine is {architecture} and not {self.architecture}"
        if self.device_tree is not None and name is not None and not name.startswith(self.device_tree):
            return f"this machine is a {name} and not a {self.device_tree}"
        return ""
