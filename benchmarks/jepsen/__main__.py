"""``python -m benchmarks.jepsen``: each shape of a cluster for its part of the minutes, one after
the other; the exit code is 1 where anything was seen that must not be."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

import click

from examples.demo.daemons import data_folder
from examples.demo.program import run_program

from ..command_line import HELP, KEEP, SEED
from ..harness import machine
from .campaign import Campaign, Elsewhere, Local, Options
from .cluster import SHAPES, Shape
from .faults import FAULTS
from .figures import to_json
from .network import network
from .page import page
from .picture import picture

_OUT: Final = Path("build/jepsen")


def _report(run: Campaign, known: dict[str, Any], out: Path) -> bool:
    """Write JSON, timeline and page, print the verdict; whether all was good."""
    found = {**known, **run.figures()}
    name = f"jepsen-{found['shape']}"
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(to_json(found))
    (out / f"{name}.svg").write_text(picture(found))
    (out / f"{name}.md").write_text(page(found, f"{name}.svg"))
    sends = found["sends"]
    print(
        f"{found['shape']}: {sends['acknowledged']:,} acknowledged, {sends['failed']:,} failed, "
        f"{sends['unknown']:,} unknown, {found['stored']:,} stored, {len(found['happened'])} "
        f"faults in {found['seconds']:.0f} s; {out / name}.md",
        flush=True,
    )
    for kind, count in found["violations"].items():
        if count:
            print(f"NOT GOOD: {count:,} {kind}")
    for problem in (*found["examples"], *found["problems"][:20]):
        print(f"NOT GOOD: {problem}", flush=True)
    return not run.violations and not run.problems


def _known(shape: str, what: str, where: str, seed: int) -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "shape": shape,
        "what": what,
        "network": where,
        "seed": seed,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit.stdout.strip(),
        "machine": machine.describe(),
    }


async def local(shapes: list[Shape], options: Options, out: Path, keep: Path | None) -> int:
    """With daemons of its own, one cluster after the other."""
    good = True
    async with network(random.Random(options.seed)) as net:
        for shape in shapes:
            print(f"{shape.name}: {shape.what}, {options.seconds:.0f} s, {net.kind}", flush=True)
            known = _known(shape.name, shape.what, net.kind, options.seed)
            with data_folder(keep, keep=keep is not None) as folder:
                run = Local(shape, net, folder, options)
                try:
                    await run.run()
                except Exception as error:  # noqa: BLE001 - the other shapes are run all the same
                    traceback.print_exc()
                    run.problems.append(f"it broke off: {error!r}")
                good &= _report(run, known, out)
    return 0 if good else 1


async def elsewhere(namesrv: str, name: str, options: Options, out: Path, keep: Path | None) -> int:
    """With a cluster that is there."""
    known = _known(name, f"the cluster of {namesrv}", "its own network", options.seed)
    with data_folder(keep, keep=keep is not None) as folder:
        run = Elsewhere(namesrv, folder, options)
        await run.run()
        return 0 if _report(run, known, out) else 1


@click.command(context_settings=HELP)
@click.option("--minutes", type=click.FloatRange(0.05), default=15.0, help="Of load, in all.")
@SEED
@click.option(
    "--shape", "names", multiple=True, type=click.Choice([each.name for each in SHAPES]),
    help="Of the cluster; may be given again.  [default: all]",
)  # fmt: skip
@click.option("--namesrv", help="host:port of a cluster that is there: load without faults.")
@click.option("--name", default="cluster", help="What to call it in pages and files.")
@click.option(
    "--only", multiple=True, type=click.Choice([each.kind for each in FAULTS]),
    help="Faults of this kind; may be given again.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), default=_OUT, help="Pages, timelines and figures."
)
@KEEP
def main(
    minutes: float,
    seed: int,
    names: tuple[str, ...],
    namesrv: str | None,
    name: str,
    only: tuple[str, ...],
    out: Path,
    keep: Path | None,
) -> None:
    """Faults of real machines under load, and a verdict on what clients saw."""
    logging.getLogger("aiorocketmq").setLevel(logging.CRITICAL)
    shapes = [each for each in SHAPES if not names or each.name in names]
    parts = 1 if namesrv else len(shapes)
    options = Options(60 * minutes / parts, seed, only, keep is not None)
    work = (
        elsewhere(namesrv, name, options, out, keep)
        if namesrv
        else local(shapes, options, out, keep)
    )
    sys.exit(run_program("jepsen", work))


if __name__ == "__main__":
    main()
