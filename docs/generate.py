"""Write the pages of this folder that follow from the code: ``python docs/generate.py``
(``--check`` only names old ones).

``commands.md`` comes from ``COMMANDS`` and the processor tables of real daemons,
``configuration.md`` from the configuration Records and, where the code says nothing of a property,
from ``daemon/properties.toml``. Nothing of this machine goes into a page: a default that depends
on it is shown by the rule in ``SYMBOLIC``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import tempfile
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.assembly.ports import NOT_ON_VIP
from aiorocketmq.broker.config.config import (
    ALIASES,
    BrokerClientConfig,
    BrokerConfig,
    BrokerServerConfig,
    LaterStoreConfig,
    SecretConfig,
)
from aiorocketmq.broker.config.group_config import GroupConfig
from aiorocketmq.broker.config.runtime_config import ALWAYS_BLACK_LISTED, NEXT_START
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.raft.network import SERVED
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.daemon.property_texts import property_texts
from aiorocketmq.namesrv.config import ClusterTestConfig, NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.java_properties import description_of, enum_type_of
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.wire import (
    EmptyFields,
    Field,
    NoFields,
    Record,
    fields_of,
    int_bounds,
    to_text,
)
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.flow import Limits
from aiorocketmq.remoting.transport.tls import TlsConfig
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import MessageStoreConfig

FOLDER: Final = Path(__file__).resolve().parent
GENERATED: Final = "<!-- Made by docs/generate.py from the code; do not edit. -->"


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a Markdown table."""
    headings = list(headings)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [_row(headings), _row(["---"] * len(headings)), *map(_row, cells), ""]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def sentence(text: str) -> str:
    """One line, reStructuredText marks as Markdown, a full stop at the end."""
    text = " ".join(text.split()).replace("``", "`")
    text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", ":", "!", "?")) else f"{text}."


# --- what the code says about a Record
# ------------------------------------------------------------------------------


class Declared(NamedTuple):
    """One field as its source declares it."""

    docstring: str
    default: ast.expr | None


@functools.cache
def declared(record_type: type) -> dict[str, Declared]:
    """Python names of the fields, base classes included, each with the docstring that follows
    it."""
    found: dict[str, Declared] = {}
    for base in reversed(record_type.__mro__):
        if not issubclass(base, Record) or base is Record:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = Declared(_docstring(following), statement.value)
    return found


def _docstring(statement: ast.stmt) -> str:
    if (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ):
        return statement.value.value
    return ""


def type_text(annotation: Any, link: Callable[[type], str]) -> str:
    """A type for people: ``i32``, ``list of text``, ``map i64 → text``; ``link`` names a Record."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return type_text(next(part for part in arguments if part is not type(None)), link)
    if origin is typing.Annotated:
        return _number_text(annotation) if arguments[0] is int else type_text(arguments[0], link)
    if origin in (list, tuple, set, frozenset):
        return f"list of {type_text(arguments[0], link)}"
    if origin is dict:
        return f"map {type_text(arguments[0], link)} → {type_text(arguments[1], link)}"
    if annotation is MessageQueue:
        return "queue"
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return link(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " | ".join(f"`{_enum_text(member)}`" for member in annotation)
    return {str: "text", bool: "bool", int: "i64", float: "decimal", bytes: "bytes"}[annotation]


def _number_text(annotation: Any) -> str:
    bits = {2**15 - 1: "i16", 2**31 - 1: "i32", 2**63 - 1: "i64"}
    low, high = int_bounds(annotation)
    return (
        bits[high]
        if high in bits and low == -high - 1
        else f"{low}..{high}"
        if high < 2**31 - 1
        else f"{bits.get(high, 'i64')} ≥ {low}"
    )


def _enum_text(member: Enum) -> str:
    """As it stands in files and bodies."""
    return member.value if isinstance(member.value, str) else member.name


def default_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Enum):
        return f"`{_enum_text(value)}`"
    if isinstance(value, msgspec.Struct) or value in ("", (), [], {}):
        return "empty"
    return f"`{to_text(value)}`"


# --- commands.md
# --------------------------------------------------------------------------------------------------

PUSHED: Final = frozenset({39, 40, 220, 221, 307, 309, 326})
"""What a broker asks its clients. Everything else that is not served yet is for the broker."""


def served_by() -> dict[RequestCode, list[str]]:
    """Who has a handler for a code: asked of a real name server, broker and client, none of which
    listens."""
    name_server = NameServer(
        NamesrvConfig(kv_config_path="", config_store_path="", rocketmq_home="")
    )
    client = ClientInstance(namesrv="127.0.0.1:1", client_ip="127.0.0.1")
    at_broker = _broker_codes()
    servers = {
        "name server": set(name_server._server.dispatcher._entries),
        "broker": at_broker,
        "client": set(client.remoting.dispatcher._entries),
        "broker, on its port in dLegerPeers": set(map(int, SERVED)),
    }
    found = {code: [name for name, codes in servers.items() if code in codes] for code in COMMANDS}
    for code in NOT_ON_VIP:
        found[code] = [
            f"{name}, not on the VIP port" if name == "broker" else name for name in found[code]
        ]
    return found


def _broker_codes() -> set[int]:
    with tempfile.TemporaryDirectory() as folder:
        config = MessageStoreConfig(
            store_path_root_dir=folder,
            mapped_file_size_commit_log=1 << 20,
            mapped_file_size_consume_queue=20_000,
        )
        address = ("127.0.0.1", 10911)
        store = MessageStore.open(config, SystemClock(), store_host=pack_host(*address))
        try:
            settings = BrokerSettings(
                BrokerConfig(broker_ip1="127.0.0.1", broker_ip2="127.0.0.1"), store=config
            )
            return set(map(int, Broker(settings, store, address, SystemClock()).table))
        finally:
            store.close()


Users = dict[type[Record], dict[str, list[str]]]
"""Records, each with what it is used for: ``{"Request": ["10"], "Answer to": ["11", "361"], "In":
["..."]}``."""


def commands_page() -> str:
    served = served_by()
    headers: Users = {}
    bodies: Users = {}
    rows = []
    for code, command in COMMANDS.items():
        request = _content(
            command.request, command.request_body, ("Request", code), headers, bodies
        )
        response = _content(
            command.response, command.response_body, ("Answer to", code), headers, bodies
        )
        later = "*later:* client" if code in PUSHED else "*later:* broker"
        rows.append(
            (str(code.value), f"`{code.name}`", ", ".join(served[code]) or later, request, response)
        )
    for body in list(bodies):
        _collect(body, bodies)
    count = sum(bool(names) for names in served.values())
    lines = [
        "# Commands",
        "",
        GENERATED,
        "",
        f"Every request that is declared ({len(COMMANDS)}), and who serves it now ({count} are). "
        "*later:* not yet,",
        "answered with code 3. The broker serves the same codes on its VIP port, except where it "
        "says so. Source:",
        "`remoting/protocol/commands/`.",
        "",
        "* Header fields travel as text in `extFields`. Absent *refused*: a request without it is "
        "answered with code 1 and",
        "  the name of the field. A field with a default is always written; one without (`–`) "
        "only when it is set.",
        "* `{}`: the original writes an empty `extFields` here, so do we. Blank: no `extFields` "
        "at all.",
        "* bytes: message bodies, records as stored, or `.properties` text (25, 26, 318, 319). "
        "Other bodies are JSON.",
        '* A queue in JSON is `{"brokerName":..,"queueId":..,"topic":..}`, also as a key. '
        "Oddities: [quirks.md](quirks.md).",
        "",
        "## Codes",
        "",
        *table(("Code", "Name", "Served by", "Request", "Answer"), rows),
        "## Headers",
        "",
        *(
            line
            for record_type, users in headers.items()
            for line in _record_section(record_type, users)
        ),
        "## Bodies",
        "",
        *(
            line
            for record_type, users in bodies.items()
            for line in _record_section(record_type, users)
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _content(
    header: type[Record], body: Any, use: tuple[str, int], headers: Users, bodies: Users
) -> str:
    """Header and body of one direction; remembers who uses what."""
    parts = []
    if header is EmptyFields:
        parts.append("`{}`")
    elif header is not NoFields:
        _note_use(headers, header, use[0], str(use[1]))
        parts.append(_link(header))
    if body is bytes:
        parts.append("+ bytes")
    elif body is not None:
        _note_use(bodies, body, use[0], str(use[1]))
        parts.append(f"+ {_link(body)}")
    return " ".join(parts)


def _link(record_type: type) -> str:
    return f"[{record_type.__name__}](#{record_type.__name__.lower()})"


def _note_use(users: Users, record_type: type[Record], kind: str, what: str) -> None:
    known = users.setdefault(record_type, {}).setdefault(kind, [])
    if what not in known:
        known.append(what)


def _collect(record_type: type[Record], bodies: Users) -> None:
    """The Records that a body is made of."""
    for field in fields_of(record_type):
        for part in _parts(field.annotation):
            is_new = part not in bodies
            _note_use(bodies, part, "In", _link(record_type))
            if is_new:
                _collect(part, bodies)


def _parts(annotation: Any) -> Iterator[type[Record]]:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _parts(argument)


def _record_section(record_type: type[Record], users: dict[str, list[str]]) -> Iterator[str]:
    own = declared(record_type)
    summary = (
        sentence((record_type.__doc__ or "").split("\n\n")[0])
        if "__doc__" in vars(record_type)
        else ""
    )
    yield f"### {record_type.__name__}"
    yield ""
    yield " ".join(
        filter(None, (summary, *(f"{kind} {', '.join(what)}." for kind, what in users.items())))
    )
    yield ""
    rows = [
        (
            f"`{field.wire_name}`",
            type_text(field.annotation, _link),
            _absent(field),
            _field_note(field, own[field.name].docstring),
        )
        for field in fields_of(record_type)
    ]
    if rows:
        yield from table(("Field", "Type", "Absent", ""), rows)


def _absent(field: Field) -> str:
    if field.required:
        return "refused"
    return "–" if field.default is None else default_text(field.default)


def _field_note(field: Field, docstring: str) -> str:
    """The docstring; a wire name that says nothing is explained by the Python name."""
    usual = msgspec.structs.fields(type("_", (Record,), {"__annotations__": {field.name: str}}))[
        0
    ].encode_name
    name = "" if usual == field.wire_name else f"`{field.name}`. "
    return (name + sentence(docstring)).strip()


# --- configuration.md
# -----------------------------------------------------------------------------------------------

SYMBOLIC: Final = {
    "rocketmqHome": "`$ROCKETMQ_HOME`",
    "namesrvAddr": "`$NAMESRV_ADDR`",
    "kvConfigPath": "`~/namesrv/kvConfig.json`",
    "configStorePath": "`~/namesrv/namesrv.properties`",
    "brokerIP1": "this machine's address",
    "brokerIP2": "this machine's address",
    "brokerName": "host name",
    "sendMessageThreadPoolNums": "min(cores, 4)",
    "putMessageFutureThreadPoolNums": "min(cores, 4)",
    "pullMessageThreadPoolNums": "16 + 2 × cores",
    "processReplyMessageThreadPoolNums": "16 + 2 × cores",
    "queryMessageThreadPoolNums": "8 + cores",
    "heartbeatThreadPoolNums": "min(32, cores)",
    "endTransactionThreadPoolNums": "max(8 + 2 × cores, 4 × min(cores, 4))",
    "clientCallbackExecutorThreads": "cores",
}
"""Defaults that depend on the machine."""

NO_EFFECT: Final = "no effect"


class Page(NamedTuple):
    """One section of ``configuration.md``."""

    record_type: type[Record]
    title: str


CONFIGURATION: Final = (
    Page(NamesrvConfig, "Name server"),
    Page(ClusterTestConfig, "Name server: clusterTest"),
    Page(BrokerConfig, "Broker"),
    Page(BrokerServerConfig, "Broker: its ports"),
    Page(BrokerClientConfig, "Broker: as a client of name servers"),
    Page(MessageStoreConfig, "Broker: store"),
    Page(LaterStoreConfig, "Broker: store, the rest"),
    Page(GroupConfig, "Broker: a member of a group that elects its master"),
    Page(SecretConfig, "Broker: secrets"),
    Page(TlsConfig, "Name server and broker: TLS"),
    Page(Limits, "Name server and broker: limits"),
)


CHANGED_BY_25: Final = (
    BrokerConfig,
    BrokerServerConfig,
    BrokerClientConfig,
    MessageStoreConfig,
    LaterStoreConfig,
    GroupConfig,
)
"""What at once and what at the next start, ``runtime_config`` knows."""


def is_machine_dependent(default: ast.expr | None) -> bool:
    """Made by a function when a Record is made, or computed from the number of cores."""
    nodes = list(ast.walk(default)) if default is not None else []
    return any(
        isinstance(node, ast.keyword) and node.arg == "default_factory" for node in nodes
    ) or any(isinstance(node, ast.Name) and node.id == "_CORES" for node in nodes)


def effect_of(record_type: type[Record], field: Field) -> str:
    """What a property does. Raises ``LookupError`` when nobody says."""
    told = property_texts().get(record_type.__name__, {}).get(field.wire_name)
    text = told or description_of(field)
    if not text:
        raise LookupError(
            f"nothing says what {record_type.__name__}.{field.wire_name} does: add it to "
            "daemon/properties.toml"
        )
    return sentence(text).replace("No effect here", "No effect")


def configuration_page() -> str:
    lines = [
        "# Configuration",
        "",
        GENERATED,
        "",
        *property_texts()["intro"].strip().splitlines(),
        "",
        "Other spellings that are taken: "
        + ", ".join(f"`{alias}` for `{name}`" for alias, name in ALIASES.items())
        + ".",
        "",
    ]
    for record_type, title in CONFIGURATION:
        lines += [f"## {title}", "", *_intro(record_type), *_property_table(record_type)]
    return "\n".join(lines).rstrip() + "\n"


def _intro(record_type: type[Record]) -> list[str]:
    text = property_texts().get(record_type.__name__, {}).get("intro")
    return [text.strip(), ""] if text else []


def _property_table(record_type: type[Record]) -> list[str]:
    at_once = set(property_texts().get(record_type.__name__, {}).get("at_once", ()))
    if record_type in CHANGED_BY_25:
        at_once = (
            {field.wire_name for field in fields_of(record_type)} - NEXT_START - ALWAYS_BLACK_LISTED
        )
    rows = []
    for field in fields_of(record_type):
        name = field.wire_name
        if is_machine_dependent(declared(record_type)[field.name].default):
            default = SYMBOLIC[name]
        else:
            default = default_text(field.default)
        effect = effect_of(record_type, field)
        marked = name in at_once and not effect.startswith("No effect")
        rows.append(
            (f"`{name}`" + (" ⚡" if marked else ""), _property_type(field), default, effect)
        )
    return table(("Property", "Type", "Default", "Effect"), rows)


def _property_type(field: Field) -> str:
    enum = enum_type_of(field)
    return type_text(enum, _link) if enum is not None else type_text(field.annotation, _link)


# --- all pages
# --------------------------------------------------------------------------------------------------

PAGES: Final[dict[str, Callable[[], str]]] = {
    "commands.md": commands_page,
    "configuration.md": configuration_page,
}


def outdated() -> dict[str, str]:
    """Pages that are not what the code says, with what they should be."""
    made = {name: page() for name, page in PAGES.items()}
    return {name: text for name, text in made.items() if _content_of(FOLDER / name) != text}


def _content_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(arguments: list[str]) -> int:
    """Write what is old; with ``--check`` only name it, and return 1."""
    pages = outdated()
    check = "--check" in arguments
    for name, text in pages.items():
        if not check:
            (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"docs/{name} {'is old' if check else 'written'}\n")
    return 1 if check and pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
