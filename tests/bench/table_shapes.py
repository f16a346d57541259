"""The tables that are copied in the benchmarks: mixed columns, few of them, and many with long values."""

from __future__ import annotations

from dataclasses import dataclass

DAYS = 10
_DAY = "date '2013-01-01' + (n * %(days)s::bigint / %(rows)s)::int"


@dataclass(frozen=True)
class TableShape:
    """One table `flights`: its columns with their types, the SELECT list that fills them by `n`, how many rows there are."""

    name: str
    columns: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    rows: int

    @property
    def definition(self) -> str:
        """Give what stands in the brackets of CREATE TABLE."""
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)

    @property
    def column_list(self) -> str:
        """Give the names."""
        return ", ".join(name for name, _ in self.columns)

    @property
    def select(self) -> str:
        """Give the query that makes the rows in the order of their days; parameters `days` and `rows`."""
        return f"SELECT {', '.join(self.values)} FROM generate_series(0, %(rows)s::bigint - 1) n"


MIXED = TableShape(
    "mixed rows",
    (
        ("flight_date", "date NOT NULL"),
        ("id", "bigint NOT NULL"),
        ("small", "integer"),
        ("big", "bigint"),
        ("amount", "numeric(12, 2)"),
        ("distance", "integer"),
        ("name", "text"),
        ("note", "text"),
        ("created_at", "timestamptz"),
        ("changed_at", "timestamptz"),
    ),
    (
        _DAY,
        "n",
        "n %% 1000",
        "CASE WHEN n %% 7 = 0 THEN NULL ELSE n * 1000003 END",
        "(n %% 100000) / 100.0",
        "(n %% 3000)::int",
        "'customer number ' || n",
        "CASE WHEN n %% 5 = 0 THEN NULL ELSE md5(n::text) END",
        "timestamptz '2013-01-01' + n * interval '37 seconds'",
        "CASE WHEN n %% 3 = 0 THEN NULL ELSE timestamptz '2014-01-01' + n * interval '1 second' END",
    ),
    1_000_000,
)
"""120 bytes a row on the wire, with NULLs in three columns."""

NARROW = TableShape(
    "narrow rows", (("flight_date", "date NOT NULL"), ("id", "bigint NOT NULL")), (_DAY, "n"), 3_000_000
)
"""22 bytes a row on the wire."""

_NUMBERS = 40
_TEXTS = 20
WIDE = TableShape(
    "wide rows",
    (
        ("flight_date", "date NOT NULL"),
        ("id", "bigint NOT NULL"),
        *((f"number_{index}", "numeric(18, 4)") for index in range(_NUMBERS)),
        *((f"text_{index}", "text") for index in range(_TEXTS)),
    ),
    (
        _DAY,
        "n",
        *(f"(n * {index + 1}) / 7.0" for index in range(_NUMBERS)),
        *(f"repeat(md5((n + {index})::text), 3)" for index in range(_TEXTS)),
    ),
    100_000,
)
"""2.8 KB a row on the wire, in 62 columns."""
