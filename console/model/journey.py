"""The way of one message through a cluster, in the order of its steps.

Made of copies that brokers keep: the message itself, what stands in retry topics and dead letter
queues of groups, half messages of its transaction; of what groups have consumed; and of what
clients told in traces. A step whose time nobody tells stands at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ...client.admin import MessageTrack, Traced, TrackType
from ...client.producer.trace_records import (
    Consumed,
    ConsumeOutcome,
    Consuming,
    Published,
    TransactionEnded,
)
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.sys_flag import MessageSysFlag, transaction_type
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import MessageExt
from .texts import span

_TRACKS: Final = {
    TrackType.CONSUMED: "is past it: it was consumed",
    TrackType.CONSUMED_BUT_FILTERED: "is past it and did not want it: its tag is not subscribed",
    TrackType.PULL: "pulls: it alone knows what it has done with it",
    TrackType.NOT_CONSUME_YET: "has not come to it yet",
    TrackType.NOT_ONLINE: "has nobody connected now",
    TrackType.UNKNOWN: "cannot be asked",
}


class Step(NamedTuple):
    """``at_ms``: by the clock of whoever tells it; ``None``: nobody does. ``message``: a copy to
    look at."""

    at_ms: int | None
    kind: str
    """``stored``, ``half``, ``retry``, ``dead``, ``again``, ``group``, ``trace``."""
    title: str
    text: str
    message: MessageExt | None = None


class Span(NamedTuple):
    """A line of the traces' timeline."""

    at_ms: int
    cost_ms: int | None
    """``None``: the end was not told."""
    title: str
    who: str
    good: bool


class Copies(NamedTuple):
    """What was found of a message."""

    stored: Sequence[MessageExt]
    """Under its own topic: more than one where a send was repeated."""
    retries: Mapping[str, Sequence[MessageExt]]
    """By group."""
    dead: Mapping[str, Sequence[MessageExt]]
    """By group."""
    halves: Sequence[MessageExt]
    given_up: Sequence[MessageExt]
    """Halves whose producer was asked often enough."""
    unknown: Collection[str] = ()
    """Groups whose retries and dead letters may not all have been found."""


def origin_topic(message: MessageExt) -> str:
    """The topic that it was sent to, of a copy of any kind."""
    name = message.topic
    if name in (TopicName.SCHEDULE, TopicName.TRANS_HALF, TopicName.TRANS_CHECK_MAX_TIME):
        name = message.properties.get(PropertyName.REAL_TOPIC, name)
    if name.startswith((TopicName.RETRY_PREFIX, TopicName.DLQ_PREFIX)):
        name = message.properties.get(PropertyName.RETRY_TOPIC, name)
    return name


def group_of(message: MessageExt) -> str | None:
    """The group whose retry topic or dead letter queue it stands in."""
    for prefix in (TopicName.RETRY_PREFIX, TopicName.DLQ_PREFIX):
        if message.topic.startswith(prefix):
            return message.topic.removeprefix(prefix)
    return None


def where(message: MessageExt) -> str:
    return (
        f"{message.topic}, queue {message.queue_id}, offset {message.queue_offset}, "
        f"at {message.store_host}"
    )


def steps_of(
    copies: Copies, tracks: Iterable[MessageTrack], traces: Iterable[Traced]
) -> list[Step]:
    """In the order of time."""
    steps = [*_of_halves(copies), *_of_stored(copies.stored)]
    for group, found in copies.retries.items():
        steps += [_retry(group, each) for each in found]
    for group, found in copies.dead.items():
        steps += [
            Step(
                each.store_timestamp,
                "dead",
                f"Dead letter of {group}",
                f"given back more often than the group retries; {where(each)}",
                each,
            )
            for each in found
        ]
    steps += [
        Step(
            traced.record.time_ms,
            "end",
            f"The transaction ended: {_STATES.get(traced.record.state, traced.record.state)}",
            f"the producer {traced.record.group} said so"
            + (" when it was asked" if traced.record.from_check else ""),
        )
        for traced in traces
        if isinstance(traced.record, TransactionEnded)
    ]
    steps += [_of_group(track, copies) for track in tracks]
    return sorted(steps, key=lambda step: (step.at_ms is None, step.at_ms or 0))


def _of_group(track: MessageTrack, copies: Copies) -> Step:
    """A group is past a message, too, that it has given back."""
    text = _TRACKS[track.track]
    if track.track is TrackType.CONSUMED and track.group in copies.dead:
        text = "is past it: it came to its dead letters"
    elif track.track is TrackType.CONSUMED and track.group in copies.unknown:
        text = (
            "is past it: whether it was consumed is not known, for not all of its retries and dead "
            "letters could be looked for"
        )
    elif track.track is TrackType.CONSUMED and track.group in copies.retries:
        text = "is past it: it goes on with its retries"
    return Step(None, "group", f"{track.group} {text}", track.problem or "")


_STATES: Final = {
    "COMMIT_MESSAGE": "committed",
    "ROLLBACK_MESSAGE": "rolled back",
    "UNKNOW": "not known yet",
}


def _of_stored(stored: Sequence[MessageExt]) -> Iterable[Step]:
    for number, message in enumerate(stored):
        on_the_way = message.store_timestamp - message.born_timestamp
        text = f"{where(message)}; sent from {message.born_host}"
        if message.delay_level or PropertyName.START_DELIVER_TIME in message.properties:
            text += f"; delivered {span(on_the_way)} after it was sent, as its delay wanted"
        elif transaction_type(message.sys_flag) == MessageSysFlag.TRANSACTION_COMMIT:
            text += "; its transaction was committed, so that consumers see it"
        title = "Stored" if number == 0 else f"Stored again ({number + 1} times with one id)"
        yield Step(message.store_timestamp, "stored", title, text, message)


def _of_halves(copies: Copies) -> Iterable[Step]:
    for number, message in enumerate(copies.halves):
        checks = message.properties.get(PropertyName.TRANSACTION_CHECK_TIMES)
        if number == 0:
            group = message.properties.get(PropertyName.PGROUP, "?")
            yield Step(
                message.store_timestamp,
                "half",
                "Half message stored",
                f"of the producer {group}, not visible until its transaction is committed; "
                + where(message),
                message,
            )
        else:
            yield Step(
                message.store_timestamp,
                "half",
                "The producer was asked" + (f", check {checks}" if checks else ""),
                f"how its transaction ended; the half message waits on; {where(message)}",
                message,
            )
    for message in copies.given_up:
        yield Step(
            message.store_timestamp,
            "half",
            "The transaction was given up",
            f"the producer was asked often enough; {where(message)}",
            message,
        )


def _retry(group: str, message: MessageExt) -> Step:
    if not message.reconsume_times:
        return Step(
            message.store_timestamp,
            "again",
            f"Sent again to {group} alone",
            where(message),
            message,
        )
    return Step(
        message.store_timestamp,
        "retry",
        f"Retry {message.reconsume_times} for {group}",
        f"the group gave it back and gets it again from then on; {where(message)}",
        message,
    )


# --- traces
# --------------------------------------------------------------------------------------------------


def spans_of(traces: Iterable[Traced]) -> list[Span]:
    """What clients told, the beginning and end of a consumption as one line."""
    traces = list(traces)
    ends = {
        each.record.request_id: each.record for each in traces if isinstance(each.record, Consumed)
    }
    began = {each.record.request_id for each in traces if isinstance(each.record, Consuming)}
    spans = []
    for traced in traces:
        match traced.record:
            case Published() as sent:
                spans.append(
                    Span(
                        sent.time_ms, sent.cost_ms, "sent" if sent.success else "send failed",
                        f"{sent.group} at {traced.client_host}", sent.success,
                    )
                )  # fmt: skip
            case Consuming() as begin:
                spans.append(_consumption(begin, ends.get(begin.request_id), traced.client_host))
            case Consumed() as end if end.request_id not in began and end.time_ms:
                spans.append(
                    Span(
                        end.time_ms - end.cost_ms, end.cost_ms, _outcome(end),
                        f"{end.group or '?'} at {traced.client_host}", end.success,
                    )
                )  # fmt: skip
            case TransactionEnded() as ended:
                spans.append(
                    Span(
                        ended.time_ms, 0, _STATES.get(ended.state, ended.state),
                        f"{ended.group} at {traced.client_host}", ended.state != "ROLLBACK_MESSAGE",
                    )
                )  # fmt: skip
            case _:
                pass
    return sorted(spans, key=lambda each: each.at_ms)


def _consumption(begin: Consuming, end: Consumed | None, host: str) -> Span:
    retried = f", retry {begin.retry_times}" if begin.retry_times else ""
    who = f"{begin.group} at {host}{retried}"
    if end is None:
        return Span(begin.time_ms, None, "consuming, end not told", who, True)
    return Span(begin.time_ms, end.cost_ms, _outcome(end), who, end.success)


def _outcome(end: Consumed) -> str:
    if end.success:
        return "consumed"
    if end.outcome in (ConsumeOutcome.SUCCESS, ConsumeOutcome.FAILED):
        return "consumption failed"
    return f"consumption failed: {end.outcome.name.lower().replace('_', ' ')}"


class SpanBar(NamedTuple):
    """A span on the axis of all, in thousandths of its width."""

    span: Span
    begin: int
    width: int


def bars_of(spans: Sequence[Span]) -> list[SpanBar]:
    if not spans:
        return []
    begin = min(each.at_ms for each in spans)
    end = max(each.at_ms + (each.cost_ms or 0) for each in spans)
    whole = max(1, end - begin)
    return [
        SpanBar(
            each,
            min(996, (each.at_ms - begin) * 1000 // whole),
            max(4, (each.cost_ms or 0) * 1000 // whole),
        )
        for each in spans
    ]
