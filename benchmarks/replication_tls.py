"""What TLS between master and slave costs: ``python -m benchmarks.replication_tls``.

Empty slaves get a log that is there, in plain text and over TLS in turn, from a master that is
started anew each time. CPU time of both ends, as in ``replication``.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import click
import trustme

from examples.demo.daemons import data_folder
from examples.demo.program import run_program

from .replication import MIB, ROUNDS, Broker, brokers, one_slave, prepare, rounded


async def measure(mebibytes: int, data: Path | None) -> int:
    for body_size in (128, 1024, 65536):
        with data_folder(data) as folder:
            print(json.dumps(rounded(await catch_up(folder, mebibytes, body_size))), flush=True)
    return 0


async def catch_up(folder: Path, mebibytes: int, body_size: int) -> dict[str, Any]:
    """CPU time of the best round, and of the round in the middle."""
    end = prepare(folder, mebibytes, body_size)
    secure = certificate(folder)
    kinds: dict[str, dict[str, object]] = {"plain": {}, "tls": secure}
    rounds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for kind, security in [*kinds.items()] * ROUNDS:
        master = Broker(folder, "master", messageIndexEnable=False, **security)
        with brokers(master):
            await master.ready()
            used, took = await one_slave(master, folder, end, index=False, **security)
        rounds[kind].append(used)
        seconds[kind].append(took)
    ms = {
        kind: [tuple(each * 1000 * MIB / end for each in both) for both in found]
        for kind, found in rounds.items()
    }
    best = {kind: min(found, key=sum) for kind, found in ms.items()}
    return {
        "what": f"catch up, {body_size} B bodies",
        "mib": end / MIB,
        "mib_per_s": {kind: end / MIB / min(found) for kind, found in seconds.items()},
        "mib_per_s_median": {
            kind: end / MIB / statistics.median(found) for kind, found in seconds.items()
        },
        "cpu_ms_per_mib": {
            kind: {"master": master, "slave": slave} for kind, (master, slave) in best.items()
        },
        "cpu_ms_per_mib_median": {
            kind: statistics.median(map(sum, found)) for kind, found in ms.items()
        },
    }


def certificate(folder: Path) -> dict[str, object]:
    """Properties of two brokers that speak TLS with each other."""
    path = folder / "server.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    return {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": path,
        "tls.server.keyPath": path,
        "tls.enable": True,
    }


@click.command()
@click.option("--mib", "mebibytes", default=256, help="How much an empty slave gets, 256.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the files go (temporary files).",
)
def main(mebibytes: int, data: Path | None) -> None:
    """Replication over TLS: throughput, CPU."""
    sys.exit(run_program("replication_tls", measure(mebibytes, data)))


if __name__ == "__main__":
    main()
