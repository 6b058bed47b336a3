"""Spans of what is sent and consumed, with OpenTelemetry (``pip install 'aiorocketmq[otel]'
opentelemetry-sdk``): ``python examples/otel.py``.

Here they are printed; a program sends them to its collector (``opentelemetry-exporter-otlp``).
"""

import asyncio
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster
from aiorocketmq.otel import OpenTelemetry


class Printer(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            print(f"trace {span.context.trace_id:032x}: {span.name} ({span.kind.name.lower()})")
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Printer()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")


async def main() -> None:
    async with LocalCluster() as cluster:
        namesrv, hooks = cluster.namesrv_address, [OpenTelemetry()]
        consumer = PushConsumer("billing", namesrv=namesrv, start_from=StartFrom.FIRST, hooks=hooks)
        consumer.subscribe("Order")
        paid = asyncio.Event()

        @consumer.on_message
        async def bill(_message: MessageExt) -> None:
            with tracer.start_as_current_span("pay"):  # a child of the handler's span
                await asyncio.sleep(0)
            paid.set()

        async with Producer("shop", namesrv=namesrv, hooks=[OpenTelemetry()]) as producer:
            with tracer.start_as_current_span("checkout"):
                await producer.send(Message("Order", b"a book"))
        async with consumer:
            await paid.wait()


if __name__ == "__main__":
    run(main())
