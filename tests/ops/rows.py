"""All rows, gathered from the families."""

from ops import rows_unary

FAMILIES = [rows_unary]
ROWS = [row for family in FAMILIES for row in family.ROWS]
RANDOM_NAMES = set()
assert len({row.name for row in ROWS}) == len(ROWS), "two rows for one op"
