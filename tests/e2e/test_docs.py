"""Every block of every page, as a reader pastes it, on an installed wheel: what can run here runs,
the blocks of a page one after the other; what cannot is parsed, and listed with the reason."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from aiorocketmq import Message, sync
from aiorocketmq.local_cluster import LocalCluster

from ..installed import Environment
from ..pages import REPOSITORY, Block, blocks, loaded
from .terminal import Terminal, starts_daemons

BLOCKS = blocks()
PROGRAM = REPOSITORY / "tests" / "page_program.py"

NOT_HERE = {
    "git clone": "needs the repository's address",
    "make ": "test_demo.py, test_spark_demo.py and test_spark_pipeline.py run what it starts",
    "docker ": "needs Docker; test_compose.py runs what the file says without",
    "/opt/rocketmq/": "needs Java's RocketMQ",
    "pip install 'aiorocketmq[spark]'": "downloads 460 MB",
    "for n in 0 1 2": "writes below /etc",
    "spark-submit": "test_spark_zip.py runs such a job",
}
"""How a command begins that cannot run here, with the reason: its block is read by a shell."""
OF_THEIR_OWN = {
    "mqnamesrv &": "test_the_daemons_of_the_readme",
    "mqcluster --raft 3": "test_a_group_is_led_by_another_member",
    "mqcluster --masters 4": "test_masters_side_by_side_share_a_topic",
    "mqadmin transferLeader": "test_a_group_is_led_by_another_member",
    "mqstore verify": "test_a_store_is_looked_at_before_it_goes_back_to_java",
    "mqconsole": "test_the_console",
    "openssl req": "test_a_cluster_that_takes_nothing_but_tls",
}
"""Blocks with a test of their own, by how one of their commands begins."""
INSTALLED = re.compile(r"^pip install (?:\.|'aiorocketmq\[console\]')\n", re.MULTILINE)
"""What is there already."""
PARSED_ONLY = {"text", "mermaid", "promql"}
"""What is shown, and not to be typed; tests/house/test_monitoring.py reads the expressions."""


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def has(block: Block, *beginnings: str) -> bool:
    return any(line.startswith(beginnings) for line in block.code.splitlines())


SHELL = [block for block in of("sh") if not has(block, *NOT_HERE, *OF_THEIR_OWN)]
OVER_TLS = [block for block in of("python") if "server.pem" in block.code]
PROGRAMS = [
    block
    for block in of("python")
    if not block.of_spark and block.page != "README.md" and block not in OVER_TLS
]


def name_of(block: Block) -> str:
    return f"{block.page}: {block.first_line[:40]}"


# --- nothing is left out
# --------------------------------------------------------------------------------------------------


def test_every_block_says_what_it_is() -> None:
    known = {"sh", "python", "sql", "properties", "yaml"} | PARSED_ONLY
    assert [
        f"{block.page}: ```{block.language}" for block in BLOCKS if block.language not in known
    ] == []
    assert {block.page for block in BLOCKS} >= {"README.md", "docs/client.md", "docs/spark.md"}


@pytest.mark.parametrize("beginning", [*NOT_HERE, *OF_THEIR_OWN])
def test_what_is_listed_is_there(beginning: str) -> None:
    assert any(has(block, beginning) for block in of("sh"))
    assert OF_THEIR_OWN.get(beginning, "test_commands") in globals()


@pytest.mark.parametrize("block", of("sh"), ids=name_of)
def test_commands_can_be_read_by_a_shell(block: Block) -> None:
    code = block.code.replace("<this repository>", "repository")
    done = subprocess.run(
        ["bash", "-n", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_targets_that_are_named_can_be_made() -> None:
    rules = (REPOSITORY / "Makefile").read_text("utf-8")
    named = {
        target
        for block in of("sh")
        for target in re.findall(r"^(?:\S+=\S+ )*make (?:\w+=\S+ )*([a-z-]+)", block.code, re.M)
    }
    assert named >= {"demo", "test"}
    assert {target for target in named if not re.search(rf"^{target}:", rules, re.M)} == set()


@pytest.mark.parametrize("block", of("python"), ids=name_of)
def test_programs_are_python(block: Block) -> None:
    compile(block.code, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


# --- commands
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """With a cluster that has the topic of all pages."""
    folder = tmp_path_factory.mktemp("terminal")
    shutil.copytree(REPOSITORY / "conf", folder / "conf")
    with Terminal(installed, folder) as terminal:
        terminal.paste("mqcluster --dataDir ./data &")
        terminal.paste("mqadmin updateTopic -n localhost:9876 -c DefaultCluster -t Orders")
        yield terminal


@pytest.mark.parametrize("block", SHELL, ids=name_of)
def test_commands(
    block: Block, installed: Environment, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Those that start daemons have a home of their own; they are there when something registers,
    and end when they are told."""
    code = INSTALLED.sub("", block.code)
    if "mqadmin" in code and " -n " not in code:  # the page says so in its text
        code = f"export NAMESRV_ADDR=localhost:9876\n{code}"
    if not starts_daemons(code):
        request.getfixturevalue("running").paste(code)
        return
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    with Terminal(installed, tmp_path) as terminal:
        if "mqnamesrv" not in code and "mqcluster" not in code:
            terminal.paste("mqnamesrv &")
        terminal.paste(code)
        if "mqshutdown" not in code:
            assert "DefaultCluster" in terminal.paste("mqadmin clusterList -n localhost:9876")


def block_with(beginning: str) -> Block:
    (found,) = (block for block in of("sh") if has(block, beginning) and not has(block, *NOT_HERE))
    return found


def test_the_daemons_of_the_readme(installed: Environment, tmp_path: Path) -> None:
    """In one paste; then the programs of the page, the second one until it is told to end."""
    block = block_with("mqnamesrv &")
    first, second = (each for each in of("python") if each.page == block.page and not each.of_spark)
    with Terminal(installed, tmp_path) as terminal:
        assert "success" in terminal.paste(block.code)
        (tmp_path / "first.py").write_text(terminal.places.of(first.code))
        printed = terminal.paste("python first.py")
        assert re.fullmatch(
            r"\w{32} MessageQueue\(topic='Orders', .*\)\nnew b'one coffee'\n", printed
        )
        imports = first.code.splitlines()[0]
        (tmp_path / "second.py").write_text(terminal.places.of(f"{imports}\n{second.code}"))
        online = "until mqadmin consumerConnection -n localhost:9876 -g shipping 2>&1; do :; done"
        terminal.paste(f"python second.py & second=$!\n{online}\nkill $second; wait $second")


def test_the_picture_shows_what_is_printed_today(installed: Environment, tmp_path: Path) -> None:
    """But for ids, times, queues and what was waited for. Else: make picture."""
    picture = loaded("picture")
    recorded = picture.drawn(picture.record(str(installed.programs), tmp_path))
    assert lines_of(recorded) == lines_of(picture.PICTURE.read_text("utf-8"))


def lines_of(svg: str) -> list[str]:
    lines: dict[str, str] = {}
    for height, word in re.findall(r'y="(\d+)"[^>]*>([^<]+)</text>', svg):
        masked = re.sub(r"[0-9A-F]{32}|\d[\d:.-]*( \d\d:\d\d:\d\d)?|N/A", "#", word)
        lines[height] = f"{lines.get(height, '')} {masked}"
    return [line for line in lines.values() if ": waiting for" not in line]


def test_a_group_is_led_by_another_member(installed: Environment, tmp_path: Path) -> None:
    """As every page has it, each time by one that follows."""
    asking = [block.code for block in of("sh") if has(block, "mqadmin transferLeader")]
    with Terminal(installed, tmp_path) as terminal:
        terminal.paste(block_with("mqcluster --raft 3").code)
        for *look, transfer in (code.splitlines() for code in asking):
            terminal.paste("\n".join(look))
            followers: list[str] = []
            while not followers:  # a member that is asked alone may lead, on a busy machine again
                printed = terminal.paste("mqadmin raftStatus -n ns1:9876")
                followers = re.findall(r" (n\d) .* follower ", printed)
            printed = terminal.paste(re.sub(r"-t n\d", f"-t {followers[-1]}", transfer))
            assert printed == f"leadership of local-broker goes to {followers[-1]}\n"


def test_masters_side_by_side_share_a_topic(installed: Environment, tmp_path: Path) -> None:
    """On any ports, but for those of the metrics, which nobody else has here."""
    with Terminal(installed, tmp_path) as terminal:
        terminal.paste(f"{block_with('mqcluster --masters 4').code.strip()} --brokerPort 0")
        known = "mqadmin clusterList -n ns1:9876 | grep -c broker-"
        terminal.paste(f"until [ $({known}) = 4 ]; do :; done")
        topic = "mqadmin updateTopic -n ns1:9876 -c DefaultCluster -t Orders -r 4 -w 4"
        assert terminal.paste(topic).count(" success.") == 4
    assert {each.name for each in (tmp_path / "data").iterdir()} >= {
        f"broker-{number}" for number in range(4)
    }


def test_a_store_is_looked_at_before_it_goes_back_to_java(
    installed: Environment, tmp_path: Path
) -> None:
    with Terminal(installed, tmp_path) as terminal:
        terminal.paste("mqnamesrv &\nmqbroker -n ns1:9876 --storePathRootDir=/data/store &")
        terminal.paste("mqadmin updateTopic -n ns1:9876 -c DefaultCluster -t Orders")
        terminal.paste("mqadmin sendMessage -n ns1:9876 -t Orders -p tea")
        printed = terminal.paste(block_with("mqstore verify").code)
    assert "clean: commit log, consume queues and index agree" in printed
    assert not (tmp_path / "store" / "abort").exists()


def test_a_cluster_that_takes_nothing_but_tls(installed: Environment, tmp_path: Path) -> None:
    """And the program of the page that trusts its certificate."""
    (block,) = (block for block in of("sh") if has(block, "openssl req"))
    (program,) = OVER_TLS
    assert program.page == block.page
    with Terminal(installed, tmp_path) as terminal:
        assert "DefaultCluster" in terminal.paste(block.code)
        (tmp_path / "program.py").write_text(terminal.places.of(program.code))
        assert terminal.paste("python program.py") == "SendStatus.SEND_OK\n"
        refused = terminal.paste("! mqadmin clusterList -n localhost:9876")
    assert "--tlsConfig" in refused


def test_the_console(running: Terminal) -> None:
    pytest.importorskip("starlette", reason="the extra [console] is not installed")
    running.paste(INSTALLED.sub("", block_with("mqconsole").code))
    asked = f"urllib.request.urlopen('http://127.0.0.1:{running.places.second}/')"
    wait = f'until python -c "import urllib.request; {asked}" 2>&1; do :; done'
    running.paste(wait)


def test_the_synopsis_of_mqstore(installed: Environment, tmp_path: Path) -> None:
    """Without what is optional, on the store of a cluster that has stopped."""
    (block,) = (block for block in of("text") if block.first_line.startswith("mqstore "))
    small = {"mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": "20000"}
    data, copy = tmp_path / "data", tmp_path / "copy"
    with LocalCluster(data_dir=data, properties=small) as cluster:
        with sync.Producer("shop", namesrv=cluster.namesrv_address) as producer:
            producer.send(Message("Orders", b"a book", keys=["1"]))
    subprocess.run(["cp", "-a", data, copy], check=True)
    script = re.sub(r" \[.*?\]", "", block.code).replace("DIR", str(copy / "store"))
    with (
        LocalCluster(data_dir=data, properties=small) as cluster,
        Terminal(installed, tmp_path) as terminal,
    ):
        printed = terminal.paste(script.replace("HOST:PORT", cluster.broker_address))
    assert "a book" in printed


# --- files
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of("properties"), ids=name_of)
def test_properties_are_known(block: Block, installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(block.code)
    with Terminal(installed, tmp_path) as terminal:
        printed = terminal.paste("command mqbroker -c broker.conf -p")
    assert "unknown" not in printed
    for line in block.code.splitlines():
        assert line.startswith("#") or line in printed


@pytest.mark.parametrize("block", of("yaml"), ids=name_of)
def test_yaml_can_be_read(block: Block) -> None:
    assert yaml.safe_load(block.code)


# --- programs
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted({block.page for block in PROGRAMS}))
def test_programs(page: str, installed: Environment, tmp_path: Path) -> None:
    """Of one page in one process: a block goes on where the one before ended."""
    code = [block.code for block in PROGRAMS if block.page == page and not block.of_pytest]
    if importlib.util.find_spec("opentelemetry") is None:
        code = [each for each in code if "aiorocketmq.otel" not in each]
    done = subprocess.run(
        [installed.python, "-P", PROGRAM, tmp_path], input=json.dumps(code), cwd=tmp_path,
        env=installed.variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_tests(installed: Environment, tmp_path: Path) -> None:
    tests = [block.code for block in PROGRAMS if block.of_pytest]
    for number, code in enumerate(tests):
        (tmp_path / f"test_{number}.py").write_text(code)
    done = subprocess.run(
        [installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path,
        env=installed.variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert f"{sum(code.count('def test_') for code in tests)} passed" in done.stdout
