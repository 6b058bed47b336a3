"""Write ``reliability.md``: ``python docs/reliability.py`` (``--check`` only says whether it is
old).

``reliability/page.template`` is the text; the figures are what campaigns wrote: ``sim.json``
(``make sim ARGS="--out docs/reliability/sim.json"``), ``planted.json`` (``python -m
tests.simulation.planted --out ...``), ``fuzz.json`` (``make fuzz``), ``degradation.json`` (``make
degradation``), and ``campaigns.json`` of those that print them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FIGURES = DOCS / "reliability"
PAGE = DOCS / "reliability.md"


def page() -> str:
    """As it should be."""
    text = (FIGURES / "page.template").read_text()
    return text.format(
        campaigns=_table(_campaigns()),
        planted=_table(_planted()),
        degradation=_table(_degradation()),
    )


def _read(name: str) -> Any:
    return json.loads((FIGURES / name).read_text())


def _campaigns() -> Iterator[Iterable[str]]:
    yield "Campaign", "Size", "Broken", "Commit"
    sim = _read("sim.json")
    yield (
        "`make sim`: clusters on virtual time",
        f"{sim['seeds']:,} seeds, {sim['faults']:,} faults, {sim['acknowledged']:,} acknowledged, "
        f"{sim['simulated_s'] / 3600:,.0f} simulated hours in {sim['cpu_s'] / 3600:.1f} of CPU",
        ", ".join(sim["broken"]) or "0",
        f"{sim['commit']}, {sim['date']}",
    )
    fuzz = _read("fuzz.json").values()
    executions = sorted(each["executions"] for each in fuzz)
    found, still_open = (sum(each[name] for each in fuzz) for name in ("findings", "open"))
    commits = sorted({each["commit"] for each in fuzz})
    yield (
        "`make fuzz`: parsers of bytes of others",
        f"{sum(executions):,} inputs for {len(executions)} targets, {executions[0]:,} to "
        f"{executions[-1]:,} each, half of them {executions[len(executions) // 2]:,} or more; "
        f"{found} findings",
        f"{still_open} open",
        f"{', '.join(commits)}, {max(each['date'] for each in fuzz)}",
    )
    for each in _read("campaigns.json"):
        yield each["what"], each["size"], str(each["broken"]), f"{each['commit']}, {each['date']}"


def _planted() -> Iterator[Iterable[str]]:
    yield "Defect", "", "Seed", "What was broken first"
    for each in _read("planted.json"):
        yield (
            each["what"],
            "real" if each["real"] else "made up",
            f"none of {each['tried']}" if each["seed"] is None else f"{each['seed']}",
            each["broken"].replace("|", "\\|"),
        )


def _degradation() -> Iterator[Iterable[str]]:
    yield "Trouble", "Sends/s before", "during", "after", "p99 before, ms", "during", "Lost"
    for each in _read("degradation.json")["steps"].values():
        rates = [f"{each[when]['per_second']:,.0f}" for when in ("before", "during", "after")]
        waits = [f"{each[when]['p99_ms']:.1f}" for when in ("before", "during")]
        yield each["what"], *rates, *waits, str(each["lost"])


def _table(rows: Iterable[Iterable[str]]) -> str:
    head, *others = [list(row) for row in rows]
    lines = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return PAGE.read_text() != text
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
