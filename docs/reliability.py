"""Write ``reliability.md``: ``python docs/reliability.py`` (``--check`` only says whether it is
old).

``reliability/page.template`` is the text; the figures are what campaigns wrote: ``sim.json``
(``make sim ARGS="--out docs/reliability/sim.json"``), ``planted.json`` (``python -m
tests.simulation.planted --out ...``), ``fuzz.json`` (``make fuzz``), ``degradation.json`` (``make
degradation``), ``jepsen-*.json`` (``make jepsen ARGS="--out docs/reliability"``), and
``campaigns.json`` of those that print them.
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
        jepsen=_table(_jepsen()),
        jepsen_faults=_table(_jepsen_faults()),
        jepsen_timelines="\n\n".join(_jepsen_timelines()),
    )


def _read(name: str) -> Any:
    return json.loads((FIGURES / name).read_text())


def _campaigns() -> Iterator[Iterable[str]]:
    yield "Campaign", "Size", "Broken", "Commit"
    sim = _read("sim.json")
    yield (
        "`make sim`: clusters on virtual time",
        f"{sim['seeds']:,} seeds ({sim['timed']:,} with each promise at its time), "
        f"{sim['faults']:,} faults, {sim['acknowledged']:,} acknowledged, "
        f"{sim['simulated_s'] / 3600:,.0f} simulated hours in {sim['cpu_s'] / 3600:.1f} of CPU",
        ", ".join(sim["broken"]) or "0",
        ", ".join(f"{commit} ({seeds:,})" for commit, seeds in sim["commits"].items())
        + f", {sim['date']}",
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
    yield "Defect", "", "Seed", "What was broken first", "Other tests that fail", "Commit"
    for each in _read("planted.json"):
        yield (
            each["what"],
            "real" if each["real"] else "made up",
            f"none of {each['tried']}" if each["seed"] is None else f"{each['seed']}",
            each["broken"].replace("|", "\\|"),
            each.get("others", "not tried"),
            each["commit"],
        )


def _degradation() -> Iterator[Iterable[str]]:
    yield "Trouble", "Sends/s before", "during", "after", "p99 before, ms", "during", "Lost"
    for each in _read("degradation.json")["steps"].values():
        rates = [f"{each[when]['per_second']:,.0f}" for when in ("before", "during", "after")]
        waits = [f"{each[when]['p99_ms']:.1f}" for when in ("before", "during")]
        yield each["what"], *rates, *waits, str(each["lost"])


def _clusters() -> list[tuple[str, Any]]:
    """Those that ``make jepsen`` was run on, by name."""
    order = ["one", "pair", "group"]
    files = {path.stem.partition("-")[2]: path.name for path in FIGURES.glob("jepsen-*.json")}
    names = sorted(files, key=lambda name: (name not in order, [*order, name].index(name), name))
    return [(name, _read(files[name])) for name in names]


def _jepsen() -> Iterator[Iterable[str]]:
    yield (
        "Cluster", "Minutes", "Faults", "Acknowledged", "Not sent", "Unknown", "p50, p99 ms",
        "Violations", "Commit",
    )  # fmt: skip
    for name, each in _clusters():
        broken = {kind: count for kind, count in each["violations"].items() if count}
        latency = each["latency_ms"]
        yield (
            f"[{name}](reliability/jepsen-{name}.md): {each['what']}",
            f"{each['seconds'] / 60:.0f}",
            f"{len(each['happened']):,}",
            *(f"{each['sends'][how]:,}" for how in ("acknowledged", "failed", "unknown")),
            f"{latency['p50']:.1f}, {latency['p99']:.1f}" if latency else "-",
            ", ".join(f"{count:,} {kind}" for kind, count in broken.items()) or "0",
            f"{each['commit']}, {each['date']}",
        )


def _jepsen_faults() -> Iterator[Iterable[str]]:
    clusters = [(name, each) for name, each in _clusters() if each["faults"]]
    yield "Fault", *(name for name, _ in clusters)
    for kind in sorted({kind for _, each in clusters for kind in each["faults"]}):
        found = [each["faults"].get(kind) for _, each in clusters]
        yield kind.replace("|", "\\|"), *map(_gaps, found)


def _gaps(times: Any) -> str:
    if times is None:
        return "-"
    unavailable = times["unavailable_s"]
    return f"{unavailable['median']:.1f}, {unavailable['most']:.1f} ({times['count']})"


def _jepsen_timelines() -> Iterator[str]:
    for name, each in _clusters():
        yield f"![Timeline of {each['what']}](reliability/jepsen-{name}.svg)"


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
