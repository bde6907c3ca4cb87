"""What `--precision auto` chose, and why, as a table."""

from typing import TYPE_CHECKING

from rich.table import Table

from edgegpt.cli.output import table

if TYPE_CHECKING:
    from edgegpt_export.bit_allocation import Quantisation


def recipe_table(quantisation: "Quantisation") -> Table:
    """A row a matrix: its bits, and the KL that few bits in it alone would cost."""
    why = quantisation.why
    limit = ", ".join(f"{name} {value:g}" for name, value in why["limit"].items())
    rows = []
    for name, bits in quantisation.bits.items():
        alone = why["kl_of_one_matrix_alone"][name]
        rows.append([name, str(bits), *(f"{alone[few]:.1e}" if few in alone else "-" for few in ("4", "8"))])
    title = f"bits for {limit}: KL {why['kl']:.2g} nats on {why['measured_on']}"
    return table(title, ["matrix", "bits", "KL of 4 alone", "KL of 8 alone"], rows)
