"""The page of a campaign. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def page(figures: Mapping[str, Any], picture: str) -> str:
    """``picture``: the file beside it with the timeline."""
    return "\n".join(_lines(figures, picture)) + "\n"


def _lines(figures: Mapping[str, Any], picture: str) -> Iterator[str]:
    sends, broken = figures["sends"], sum(figures["violations"].values())
    yield f"# Real processes: {figures['what']}"
    yield ""
    yield (
        f"`make jepsen`, commit {figures['commit']}, {figures['date']}, seed {figures['seed']}, "
        f"{figures['seconds'] / 60:.1f} minutes, in {figures['network']}."
    )
    yield ""
    yield f"![Timeline]({picture})"
    yield ""
    latency = ", ".join(f"{name} {value:,.1f}" for name, value in figures["latency_ms"].items())
    reasons = figures["not_acknowledged"].items()
    why = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
    yield from _table(
        ("What", "Figure"),
        (
            ("sends acknowledged", f"{sends['acknowledged']:,}"),
            ("sends that surely were not stored", f"{sends['failed']:,}"),
            ("sends of which nobody can tell", f"{sends['unknown']:,}"),
            ("why they were not acknowledged", why or "-"),
            ("latency of the acknowledged, ms", latency or "-"),
            ("stored at the end", f"{figures['stored']:,}"),
            ("of them twice, sent again by the client itself", f"{figures['stored_again']:,}"),
            ("handed to the consumer", f"{figures['handed_out']:,}"),
            ("violations", f"{broken:,}"),
        ),
    )
    yield "\n## Violations\n"
    yield from _table(
        ("Kind", "Number"), ((kind, f"{count:,}") for kind, count in figures["violations"].items())
    )
    problems = [*figures["examples"], *figures["problems"]]
    if problems:
        yield ""
        yield from (f"- `{each}`" for each in problems)
    if not figures["faults"]:
        return
    yield "\n## Faults\n"
    yield (
        "Seconds without an acknowledgement that overlap the fault, and seconds from its healing "
        "to the next one.\n"
    )
    yield from _table(
        ("Fault", "Times", "Unavailable, median", "most", "Back after, median", "most"),
        (
            (
                kind.replace("|", "\\|"),
                str(each["count"]),
                *(
                    f"{each[what][which]:.2f}"
                    for what in ("unavailable_s", "back_s")
                    for which in ("median", "most")
                ),
            )
            for kind, each in figures["faults"].items()
        ),
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    for row in (names, ["---"] * len(names), *rows):
        yield f"| {' | '.join(row)} |"
