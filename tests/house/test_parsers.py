"""The list of parsers (``tests/fuzzing``) is complete, and leads somewhere.

A function counts as a parser that is called like one and is given bytes, text, a file or what was
read out of one. Each is run by a target of the list, or stands here with the reason why not.
"""

from __future__ import annotations

import ast
import re
from typing import Final

import pytest

from ..fuzzing import leaves
from ..fuzzing.parsers import Parser
from ..fuzzing.registry import CORPUS, MOST_CORPUS_BYTES, PARSERS
from .names import REPOSITORY, Named, problem_of, trees
from .test_limits import Function, named

_LIKE_A_PARSER: Final = re.compile(
    r"_*(decode|decoded|parse|read|scan|unpack|load|loads|from|split|feed|tokenize|receive|"
    r"data_received|buffer_updated)(_|$)"
)
_GIVEN: Final = re.compile(
    r"\b(bytes|bytearray|memoryview|Body|Buffer|str|Path|PathLike|object|Mapping|Record\w*|"
    r"\w+Table)\b"
)

_NO_BYTES: Final = "a name of our own, no bytes of others"
_BY_ANOTHER: Final = "hands its bytes to a parser of the list and reads nothing itself"
NOT_PARSERS: Final[dict[str, str]] = {
    "broker/config/runtime_config.py: RuntimeConfig._read": _BY_ANOTHER,
    "broker/hooks.py: load_hooks": "names of modules that the operator writes",
    "broker/hooks.py: _load": "names of modules that the operator writes",
    "broker/processors/client.py: ClientProcessor._read_heartbeat": _BY_ANOTHER,
    "broker/processors/sequenced_send.py: SequencedSends.read": _BY_ANOTHER,
    "broker/replication/master.py: SlaveLink.data_received": _BY_ANOTHER,
    "broker/sends/sequences.py: Sequences.read": _BY_ANOTHER,
    "broker/sends/sequences.py: Sequences._read": _BY_ANOTHER,
    "broker/state/consumer_filters.py: ConsumerFilters.scan_limit": _NO_BYTES,
    "client/admin/topics.py: TopicOperations.read_queues": _NO_BYTES,
    "client/cluster/route_cache.py: RouteCache._from_template": _NO_BYTES,
    "console/starting.py: _read_token": "a file of the operator: its text is the token",
    "remoting/transport/connection.py: Connection.data_received": _BY_ANOTHER,
    "remoting/transport/farewell.py: Farewell.data_received": _BY_ANOTHER,
    "spark_connector/access/option_reader.py: _read_secret": "a file that the author of a query "
    "names: its text is the secret",
    "spark_connector/source/read_task.py: read_ranges": _BY_ANOTHER,
    "store/disk/disk.py: Disk.read_into": "reads into a buffer, understands nothing",
    "store/disk/system_disk.py: PosixDisk.read_into": "reads into a buffer, understands nothing",
    "store/put/refusals.py: Refusals.from_now_on": _NO_BYTES,
    "tools/mqadmin/command.py: AdminCommand.parse_args": "a command line, read by click",
    "tools/mqadmin/commands/cluster.py: _load": "shows figures as they came",
    "tools/mqadmin/commands/message.py: _Reader.read_topic": _NO_BYTES,
}
"""The list only shrinks, or grows with a reason."""


def found_in_code() -> set[str]:
    """``room/module.py: function`` of everything that looks like a parser."""
    return {
        f"{file.relative_to(REPOSITORY).as_posix()}: {name}"
        for file, tree in trees().items()
        for name, node in named(tree)
        if isinstance(node, Function) and is_a_parser(node)
    }


def is_a_parser(node: Function) -> bool:
    args = node.args
    given = [each.annotation for each in args.posonlyargs + args.args + args.kwonlyargs]
    return _LIKE_A_PARSER.match(node.name) is not None and any(
        each is not None and _GIVEN.search(ast.unparse(each)) for each in given
    )


def listed() -> set[str]:
    """Those of the leaves too where they are not compiled, and have no rows."""
    rows = (*(row.functions for row in PARSERS.values()), *leaves.FUNCTIONS.values())
    return {name for functions in rows for name in functions}


def test_every_parser_has_a_target_or_a_reason() -> None:
    missing = found_in_code() - listed() - NOT_PARSERS.keys()
    assert not missing, "give each a row in tests/fuzzing, or a reason here"


def test_reasons_are_for_parsers_that_have_no_target() -> None:
    assert not NOT_PARSERS.keys() - found_in_code()
    assert not NOT_PARSERS.keys() & listed()


@pytest.mark.parametrize("row", PARSERS.values(), ids=list(PARSERS))
def test_a_row_leads_somewhere(row: Parser) -> None:
    names = [Named(*each.split(": ")) for each in (*row.functions, *row.limits)]
    assert [problem for each in names if (problem := problem_of(each))] == []
    assert row.functions
    assert row.limits or row.bounded_by


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(sizes) < MOST_CORPUS_BYTES
    known = {folder.name for folder in CORPUS.iterdir()}
    assert PARSERS.keys() <= known
    assert all(name.startswith("leaf-") for name in known - PARSERS.keys())


@pytest.mark.parametrize(
    ("code", "parses"),
    [
        ("def decode_body(kind: type[T], data: bytes) -> T: ...", True),
        ("def _read(path: Path) -> int: ...", True),
        ("async def load(self, table: TopicConfigTable) -> None: ...", True),
        ("def read(self, offset: int) -> bytes: ...", False),
        ("def decoder(data: bytes) -> None: ...", False),
    ],
)
def test_what_looks_like_a_parser(code: str, parses: bool) -> None:
    (node,) = ast.parse(code).body
    assert isinstance(node, Function)
    assert is_a_parser(node) is parses
