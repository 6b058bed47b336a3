"""``python -m examples.pipeline``: send, stream, kill, start again, check, report.

Nothing is waited for by time: a wave is sent when the one before is in its topics, the driver is
killed when the first results are there, the windows are closed when everything is taken.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import click

from aiorocketmq import Message, RocketMQError
from aiorocketmq.client.errors import NoRouteError
from aiorocketmq.local_cluster import LocalCluster
from aiorocketmq.spark_connector.local import local_session, spark_problem
from aiorocketmq.sync import Admin, Producer

from .driver import Driver, PipelineError, Progress, last_of, progress_of, taken_by, wait_until
from .orders import Inputs, generate
from .topics import Topics


class Pipeline:
    """One run against one cluster."""

    def __init__(self, namesrv: str, prefix: str, folder: Path, inputs: Inputs) -> None:
        self._namesrv, self._prefix, self._folder, self._inputs = namesrv, prefix, folder, inputs
        self._topics = Topics.named(prefix)
        self._sent: Counter[str] = Counter()

    def run(self) -> tuple[float, float]:
        """Until the last window is closed. Returns when there was no driver: from its end to the
        first micro-batch of the next one. Raises ``PipelineError``, ``RocketMQError``."""
        first, *rest = self._inputs.waves
        half = len(rest) // 2  # enough for windows to close: see the least number of waves
        # A send that is tried again may be stored twice. Here it rather fails, so that the figures
        # are known; in earnest: ``dropDuplicatesWithinWatermark("number")`` behind ``good_rows``.
        with (
            Producer("shop", namesrv=self._namesrv, retries=0, send_timeout=60) as producer,
            Admin(namesrv=self._namesrv) as admin,
        ):
            if any(_stored(admin, topic) for topic in self._topics):
                raise PipelineError(f"there are messages already in {', '.join(self._topics)}")
            self._send(producer, admin, first)  # which makes the topics
            with self._driver() as driver:
                for wave in rest[:half]:
                    self._send(producer, admin, wave)
                driver.wait_until(lambda: _stored(admin, self._topics.revenue) > 0, "results")
                driver.kill()
            killed, batches = time.time(), len(progress_of(self._folder))
            print("The first results are there: the driver is killed, and started again.")
            with self._driver() as driver:
                for wave in rest[half:]:
                    self._send(producer, admin, wave)
                driver.wait_until(self._all_is_taken, "taking all messages")
                self._send(producer, admin, self._inputs.closing)
                driver.wait_until(self._all_is_closed, "closing all windows")
                driver.stop()
        return killed, _began(progress_of(self._folder)[batches])

    def _driver(self) -> Driver:
        return Driver(self._namesrv, self._prefix, self._folder)

    def _send(self, producer: Producer, admin: Admin, wave: Sequence[Message]) -> None:
        """Returns when it is in the topics, delayed messages too. What comes later than the next
        waves would be too late for the watermark on a machine that is slow enough."""
        sends = [
            producer.send_soon(message, sharding_key=message.keys[0] if message.keys else None)
            for message in wave
        ]
        for send in sends:
            send.result()
        self._sent.update(message.topic for message in wave)
        wait_until(
            lambda: all(_stored(admin, topic) >= count for topic, count in self._sent.items()),
            "storing a wave",
        )

    def _all_is_taken(self) -> bool:
        """By both queries."""
        progress = progress_of(self._folder)
        return all(taken_by(progress, query) >= self._sent for query in ("revenue", "dead rows"))

    def _all_is_closed(self) -> bool:
        """A micro-batch is done whose watermark is behind the last order."""
        newest = last_of(progress_of(self._folder), "revenue")
        if newest is None or "watermark" not in newest["eventTime"]:
            return False
        return datetime.fromisoformat(newest["eventTime"]["watermark"]) > self._inputs.end


def _stored(admin: Admin, topic: str) -> int:
    """Messages in a topic; delayed ones are in it when their time has come."""
    try:
        table = admin.topic_stats(topic).offset_table
    except NoRouteError:  # nothing was sent to it yet
        return 0
    return sum(queue.max_offset - queue.min_offset for queue in table.values())


def _began(progress: Progress) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


@contextmanager
def _cluster(namesrv: str | None) -> Iterator[str]:
    """The name server's address: of a cluster that is there, or of one for this run."""
    if namesrv is not None:
        yield namesrv
        return
    with LocalCluster() as cluster:
        yield cluster.namesrv_address


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="aiorocketmq-") as name:
            yield Path(name)
        return
    keep.mkdir(parents=True)
    yield keep


@contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """What Java and Spark's workers print; the screen is ours."""
    screen = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(screen, 2)
        os.close(screen)


def _run(namesrv: str, prefix: str, folder: Path, inputs: Inputs, report: Path) -> bool:
    """Returns whether all is as it should be."""
    from .check import check  # pyspark may not be there
    from .report import Story, page

    started = time.monotonic()
    down = Pipeline(namesrv, prefix, folder, inputs).run()
    print("Everything is taken, all windows are closed: a batch over the topics checks it.")
    progress = progress_of(folder)
    with (
        _errors_to(folder / "check.log"),
        local_session("check", settings={"spark.sql.session.timeZone": "UTC"}) as spark,
    ):
        outcome = check(spark, namesrv, Topics.named(prefix), folder, inputs, progress)
    story = Story(inputs, progress, down, time.monotonic() - started)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(page(story, outcome), encoding="utf-8")
    for each in outcome.checks:
        print(f"  {'yes' if each.good else 'NO '}  {each.what}: {each.found}")
    print(f"Report: {report}")
    return outcome.good


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--namesrv", metavar="HOST:PORT", help="Your cluster. Default: one for this run.")
@click.option("--prefix", help="Of the topics' names. Default: with --namesrv one that is new.")
@click.option("--waves", type=click.IntRange(14), default=24, help="Each takes about a second.")
@click.option("--orders", type=click.IntRange(1), default=400, help="Orders in a wave.")
@click.option("--seed", type=int, default=1, help="Of the inputs.")
@click.option("--keep", type=click.Path(path_type=Path), help="A new folder, for all files.")
@click.option("--report", type=click.Path(path_type=Path), default=Path("build/pipeline.html"))
def main(
    namesrv: str | None, prefix: str | None, waves: int, orders: int, seed: int, keep: Path | None,
    report: Path,
) -> None:  # fmt: skip
    """Two topics joined as streams, into a topic and Parquet, with a driver that is killed."""
    if (problem := spark_problem()) is not None:
        raise click.ClickException(problem)
    if prefix is None:
        prefix = f"pipeline-{secrets.token_hex(4)}-" if namesrv else ""
    topics = Topics.named(prefix)
    inputs = generate(topics, seed=seed, waves=waves, orders=orders)
    try:
        with _folder(keep) as folder, _cluster(namesrv) as address:
            print(f"{len(inputs.sent()):,} messages in {waves} waves; topics: {', '.join(topics)}")
            good = _run(address, prefix, folder, inputs, report)
    except (PipelineError, RocketMQError) as error:
        raise click.ClickException(str(error)) from None
    sys.exit(not good)


if __name__ == "__main__":
    # so that what was started is ended: the driver has a process group of its own
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    main()
