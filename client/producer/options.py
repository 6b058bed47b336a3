"""What a producer may be told (class DefaultMQProducer). What all clients take:
``client/options.py``."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from typing import Final, Literal

from ...remoting.protocol.extras import install_command
from ...remoting.protocol.message.compression import CompressionUnavailable, compress_body
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import TopicName
from ..cluster.instance import ClientInstance
from ..errors import ConfigError
from ..options import ClientOptions, Settings
from ..usage_errors import check_several, number
from .batches import DEFAULT_MAX_BYTES, Accumulate
from .delivery import SEND_TIMEOUT, DeliverySettings
from .hooks import SendCheck, SendHook, SendObserver
from .sending import RETRY_CODES

Compression = Literal["zlib", "lz4", "zstd"]

_COMPRESSIONS: Final = {
    "zlib": MessageSysFlag.COMPRESSION_ZLIB,
    "lz4": MessageSysFlag.COMPRESSION_LZ4,
    "zstd": MessageSysFlag.COMPRESSION_ZSTD,
}

_HIGHEST_LEVEL: Final = {"zlib": 9, "lz4": 16, "zstd": 22}


class ProducerOptions(ClientOptions, total=False):
    """See ``Producer``."""

    instance: ClientInstance | None
    send_timeout: float
    retries: int
    retry_patience: float
    retry_other_broker_on_not_ok: bool
    compress_over: int
    compress_level: int
    compression: Compression
    max_message_size: int
    topic_queue_nums: int
    template_topic: str
    retry_codes: Collection[int]
    latency_fault: bool
    trace: bool | str
    hooks: Sequence[SendHook | SendObserver]
    checks: Sequence[SendCheck]
    accumulate: Accumulate | None
    idempotent: bool


class ProducerSettings(Settings, frozen=True, kw_only=True):
    """See ``Producer``."""

    instance: ClientInstance | None = None
    send_timeout: float = SEND_TIMEOUT
    retries: int = DeliverySettings().attempts - 1
    retry_patience: float = DeliverySettings().patience
    retry_other_broker_on_not_ok: bool = False
    compress_over: int = 4096
    compress_level: int = 5
    compression: Compression = "zlib"
    max_message_size: int = DEFAULT_MAX_BYTES
    topic_queue_nums: int = DeliverySettings().topic_queue_nums
    template_topic: str = TopicName.AUTO_CREATE
    retry_codes: Collection[int] = ()
    latency_fault: bool = False
    trace: bool | str = False
    hooks: Sequence[SendHook | SendObserver] = ()
    checks: Sequence[SendCheck] = ()
    accumulate: Accumulate | None = None
    idempotent: bool = False

    def __post_init__(self) -> None:
        self._check_compression()
        for name in ("retry_codes", "hooks", "checks"):
            check_several(name, getattr(self, name))
        self.require_positive("send_timeout")
        if self.retry_patience:
            self.require_positive("retry_patience")
        self.require_counts("max_message_size", "topic_queue_nums")
        if number("retries", self.retries) < 0:
            raise ConfigError(f"retries must be 0 or more, not {self.retries!r}")
        if self.accumulate is not None and not isinstance(self.accumulate, Accumulate):
            raise ConfigError(
                "accumulate is Accumulate(), perhaps with max_bytes and linger, not "
                f"{self.accumulate!r}"
            )
        if self.idempotent and (self.latency_fault or self.retry_other_broker_on_not_ok):
            raise ConfigError(
                "an idempotent producer stays with a queue until it knows what became of a "
                "message: leave latency_fault and retry_other_broker_on_not_ok out"
            )

    def _check_compression(self) -> None:
        """Here, or the first long body would tell. The levels are known to who compresses."""
        if self.compression not in _COMPRESSIONS:
            raise ConfigError(
                f"compression is one of {', '.join(_COMPRESSIONS)}, not {self.compression!r}"
            )
        number("compress_over", self.compress_over)
        try:
            compress_body(b"", self.compression_flag, self.compress_level)
        except CompressionUnavailable:
            raise ConfigError(
                f"compression={self.compression!r} needs a package that is not installed: "
                f"{install_command(self.compression)}"
            ) from None
        except (zlib.error, ValueError, TypeError, OverflowError) as error:
            raise ConfigError(
                f"compress_level={self.compress_level!r} is no level of {self.compression}, whose "
                f"highest is {_HIGHEST_LEVEL[self.compression]}: {error}"
            ) from None

    @property
    def compression_flag(self) -> int:
        """How the message itself tells it."""
        return _COMPRESSIONS[self.compression]

    @property
    def delivery(self) -> DeliverySettings:
        return DeliverySettings(
            attempts=1 + self.retries,
            retry_not_ok=self.retry_other_broker_on_not_ok,
            topic_queue_nums=self.topic_queue_nums,
            template_topic=self.template_topic,
            retry_codes=RETRY_CODES.union(self.retry_codes),
            patience=self.retry_patience,
        )
