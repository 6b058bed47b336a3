"""What people type: forms of options, help, and wrong input, which gets one clear line and the
right exit code."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from aiorocketmq.testing import LocalCluster
from aiorocketmq.tools.mqadmin import catalog
from aiorocketmq.tools.mqadmin.catalog import CATALOG

from .conftest import MqAdmin
from .mqadmin_arguments import MINIMAL, TO_ONE_BROKER

SERVED = [entry.name for entry in CATALOG]


def minimal(name: str, broker: str) -> list[str]:
    return MINIMAL[name].format(b=broker).split()


@pytest.fixture(scope="module")
def dead_address() -> Iterator[str]:
    """An address of this machine where nothing listens, kept from others as long as the tests
    run."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


# --- forms of options
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["-t {}", "-t{}", "--topic {}", "--topic={}"])
@pytest.mark.parametrize("name", ["topicStatus", "topicstatus", "TOPICSTATUS"])
def test_options_and_names_in_every_form(admin: MqAdmin, form: str, name: str) -> None:
    printed = admin(name, *form.format("TBW102").split())
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith("#Broker Name")


def test_flags_can_be_bundled_with_a_value(admin: MqAdmin) -> None:
    assert admin("topicRoute", "-lt", "TBW102").out == admin("topicRoute", "-l", "-t", "TBW102").out
    assert admin("topicRoute", "-ltTBW102").out.startswith("#ClusterName")


def test_long_names_are_not_abbreviated(admin: MqAdmin) -> None:
    assert "No such option '--top'" in admin("topicStatus", "--top", "TBW102").problem


def test_values_are_trimmed(admin: MqAdmin) -> None:
    assert admin("topicStatus", "-t", "  TBW102 ").code == 0


def test_option_wins_over_the_variable(
    admin: MqAdmin, cluster: LocalCluster, dead_address: str
) -> None:
    assert admin("topicList", "-n", dead_address).code == 1
    assert admin("topicList", "-n", f"{dead_address};{cluster.namesrv_address}").code == 0


# --- help
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",), ("help",)])
def test_list_of_commands(mqadmin: MqAdmin, arguments: tuple[str, ...]) -> None:
    printed = mqadmin(*arguments)
    assert printed.code == 0
    lines = printed.out.splitlines()
    assert [line.split()[0] for line in lines[1:-2]] == [entry.name for entry in CATALOG]
    assert all(line.startswith(f"   {line.split()[0]:<20} ") for line in lines[1:-2])
    assert lines[-2] == ""


@pytest.mark.parametrize("name", SERVED)
def test_help_of_every_served_command(mqadmin: MqAdmin, name: str) -> None:
    printed = mqadmin("help", name.lower())
    assert printed.code == 0
    assert printed.out == mqadmin(name, "-h").out == mqadmin(name, "--help").out
    assert printed.out.startswith(f"usage: mqadmin {name} ")
    assert "-n,--namesrvAddr <arg>" in printed.out
    assert max(map(len, printed.out.splitlines())) <= 110


@pytest.mark.parametrize("name", SERVED)
def test_a_slip_in_the_options_of_a_command(mqadmin: MqAdmin, name: str) -> None:
    printed = mqadmin(name, "--no-such-option")
    assert (printed.code, printed.out) == (2, "")
    assert re.fullmatch(
        rf"mqadmin {name}: No such option '--no-such-option'\..* \(mqadmin help {name} shows the "
        r"options\)\n",
        printed.err,
    )


def test_usage_line(mqadmin: MqAdmin) -> None:
    usage = mqadmin("help", "updateTopic").out.splitlines()
    assert usage[0].startswith(
        "usage: mqadmin updateTopic -b <arg> | -c <arg>  [-h] [-n <arg>] [-o <arg>] [-p <arg>]"
    )
    assert re.match(r" {7}\S", usage[1])
    assert " -r,--readQueueNums <arg>    Queues to read" in "\n".join(usage)


# --- the catalog
# --------------------------------------------------------------------------------------------------


def test_all_commands_of_the_original_are_known() -> None:
    ours = {"raftStatus", "transferLeader"}
    names = {entry.name.lower() for entry in CATALOG if entry.name not in ours}
    assert (len(names), len(CATALOG)) == (56, 58)


@pytest.mark.parametrize("name", SERVED)
def test_the_catalog_names_the_right_module(name: str) -> None:
    entry = catalog.find(name)
    assert entry is not None
    command = catalog.load(entry)
    assert command is not None
    assert command.name == name


def test_aliases() -> None:
    assert catalog.find("deleteAccessConfig") is catalog.find("deleteAclConfig")
    assert catalog.find("QueryMsgTraceById") is not None


# --- wrong input
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("topicLst", "mqadmin: there is no command topicLst; did you mean topicList?"),
        (
            "--json topicList",
            "mqadmin: No such option '--json'. (options stand behind the command: mqadmin "
            "topicList --json)",
        ),
        (
            "resetOffsetByTime -g g -t x -s soon",
            "mqadmin resetOffsetByTime: Invalid value for '-s' / '--timestamp': 'soon'",
        ),
        ("qwertyuiop", "mqadmin: there is no command qwertyuiop"),
        ("help qwertyuiop", "mqadmin: there is no command qwertyuiop"),
        ("-z", "mqadmin: No such option '-z'."),
        ("topicRoute", "mqadmin topicRoute: Missing option '-t' / '--topic'."),
        ("topicStatus", "mqadmin topicStatus: Missing option '-t' / '--topic'."),
        ("topicRoute -t", "mqadmin topicRoute: Option '-t' requires an argument."),
        ("topicRoute -t x -z", "mqadmin topicRoute: No such option '-z'."),
        ("topicRoute -t x y", "mqadmin topicRoute: Got unexpected extra argument (y)"),
        ("updateTopic -b 1:1", "mqadmin updateTopic: Missing option '-t' / '--topic'."),
        (
            "updateTopic -t x",
            "mqadmin updateTopic: Missing option, one of these is needed: '-b' / '--brokerAddr' or",
        ),
        (
            "updateTopic -t x -b 1:1 -c C",
            "mqadmin updateTopic: Only one option of these can be given: '-b' / '--brokerAddr'",
        ),
        (
            "updateTopic -t x -b 1:1 -r many",
            "mqadmin updateTopic: Invalid value for '-r' / '--readQueueNums': 'many' is not a",
        ),
        (
            "updateTopic -t x -b 1:1 -r 0",
            "mqadmin updateTopic: Invalid value for '-r' / '--readQueueNums': 0 is not in the",
        ),
        (
            "updateTopic -t x -b 1:1 -o maybe",
            "mqadmin updateTopic: Invalid value for '-o' / '--order': 'maybe' is neither",
        ),
        ("deleteTopic -t x", "mqadmin deleteTopic: Missing option '-c' / '--clusterName'."),
        ("updateSubGroup -b 1:1", "mqadmin updateSubGroup: Missing option '-g' / '--groupName'."),
        (
            "updateSubGroup -g G",
            "mqadmin updateSubGroup: a broker or a cluster is needed: add -b HOST:PORT or -c "
            "CLUSTER",
        ),
        (
            "brokerStatus",
            "mqadmin brokerStatus: a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER",
        ),
        ("clusterList -i 0", "mqadmin clusterList: Invalid value for '-i' / '--interval': 0"),
        ("sendMessage -t x", "mqadmin sendMessage: Missing option '-p' / '--body'."),
        (
            "sendMessage -t x -p y -i 1",
            "mqadmin sendMessage: a queue is chosen by -i and -b: add -b",
        ),
        ("consumeMessage", "mqadmin consumeMessage: Missing option '-t' / '--topic'."),
        (
            "consumeMessage -t x -c 0",
            "mqadmin consumeMessage: Invalid value for '-c' / '--MessageNumber': 0",
        ),
        (
            "consumeMessage -t x -i 1",
            "mqadmin consumeMessage: a queue is chosen by -i and -b: add -b",
        ),
        (
            "consumeMessage -t x -b y -o 1",
            "mqadmin consumeMessage: an offset belongs to a queue: add -i",
        ),
        (
            "consumeMessage -t x -s soon",
            "mqadmin consumeMessage: Invalid value for '-s' / '--beginTimestamp': 'soon' is "
            "neither",
        ),
        (
            "consumeMessage -t x -e 99999999999999",
            "mqadmin consumeMessage: the time given with -e is in the future",
        ),
        (
            "consumeMessage -t x -s 2 -e 1",
            "mqadmin consumeMessage: the time given with -s is later than the one given with -e",
        ),
    ],
)
def test_wrong_command_line(mqadmin: MqAdmin, arguments: str, problem: str) -> None:
    printed = mqadmin(*arguments.split())
    assert printed.problem.startswith(problem)
    assert printed.code == 2


def test_an_empty_value_is_none(mqadmin: MqAdmin) -> None:
    assert (
        "Invalid value for '-t' / '--topic': it is empty"
        in mqadmin("topicRoute", "-t", " ").problem
    )


def test_bytes_that_are_no_text(mqadmin: MqAdmin) -> None:
    """As the shell hands them over."""
    assert (
        "Invalid value for '-t' / '--topic': it is no UTF-8"
        in mqadmin("topicRoute", "-t", "x\udcff").problem
    )


def test_no_name_server(mqadmin: MqAdmin) -> None:
    problem = (
        "mqadmin topicList: no name server is known: add -n HOST:PORT or set the variable "
        "NAMESRV_ADDR"
    )
    printed = mqadmin("topicList")
    assert (printed.code, printed.problem) == (2, problem)


def test_the_table_of_arguments_is_complete() -> None:
    assert list(MINIMAL) == SERVED


@pytest.mark.parametrize(
    "name",
    [name for name in SERVED if name not in TO_ONE_BROKER | {"queryMsgById", "startMonitoring"}],
)
def test_name_server_down(mqadmin: MqAdmin, dead_address: str, name: str) -> None:
    printed = mqadmin(name, "-n", dead_address, *minimal(name, dead_address))
    assert re.fullmatch(rf"mqadmin {name}: .*{dead_address}.*connection refused.*\n", printed.err)
    assert printed.out.removesuffix(" Failed\n").count("\n") <= 1, "a heading at most"
    assert printed.code == 1


@pytest.mark.parametrize("name", sorted(TO_ONE_BROKER - {"updateTopicPerm"}))
def test_broker_down(admin: MqAdmin, dead_address: str, name: str) -> None:
    printed = admin(name, *minimal(name, dead_address))
    problem = (
        f"mqadmin {name}: cannot connect to {dead_address}: connection refused (nothing listens "
        "there)\n"
    )
    assert printed.err == problem
    assert printed.out in ("", "false"), "the upkeep commands say that it did not work"
    assert printed.code == 1


@pytest.mark.parametrize("name", SERVED)
def test_missing_options_are_named(mqadmin: MqAdmin, name: str) -> None:
    """Each of the required options left out, one after the other."""
    command = catalog.load(catalog.find(name))  # type: ignore[arg-type]
    assert command is not None
    required = [param for param in command.params if param.required]
    words = minimal(name, "1:1")
    given = dict(zip(words[::2], words[1::2], strict=True))
    for param in required:
        left = [
            word
            for option, value in given.items()
            if option not in param.opts
            for word in (option, value)
        ]
        printed = mqadmin(name, *left)
        assert printed.problem.startswith(f"mqadmin {name}: Missing option '{param.opts[0]}'"), (
            printed
        )
        assert printed.code == 2


@pytest.mark.parametrize("name", SERVED)
def test_unknown_options_are_named(mqadmin: MqAdmin, name: str) -> None:
    assert (
        f"mqadmin {name}: No such option '--nonsense'"
        in mqadmin(name, *minimal(name, "1:1"), "--nonsense").problem
    )


@pytest.mark.parametrize("address", ["nonsense", "host:", ":1", "host:port", "host:99999"])
def test_what_is_no_address(mqadmin: MqAdmin, address: str) -> None:
    assert "must look like host:9876" in mqadmin("topicList", "-n", address).problem
    assert (
        "must look like host:port"
        in mqadmin("brokerStatus", "-n", "127.0.0.1:1", "-b", address).problem
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("topicRoute -t NoSuchTopic", "no broker has the topic NoSuchTopic"),
        ("topicStatus -t NoSuchTopic", "no broker has the topic NoSuchTopic"),
        ("consumeMessage -t NoSuchTopic", "no broker has the topic NoSuchTopic"),
        ("consumeMessage -t TBW102 -b nobody -i 0", "nobody"),
        ("consumerProgress -g GID_nobody", "no broker knows the consumer group GID_nobody"),
        (
            "updateTopic -t x -c NoSuchCluster",
            "there is no cluster NoSuchCluster; the name server knows: DefaultCluster",
        ),
        ("deleteTopic -t x -c NoSuchCluster", "there is no cluster NoSuchCluster"),
        ("updateSubGroup -g x -c NoSuchCluster", "there is no cluster NoSuchCluster"),
        ("brokerStatus -c NoSuchCluster", "there is no cluster NoSuchCluster"),
        ("updateTopic -t x!y -c DefaultCluster", "contains illegal characters"),
        ("updateTopic -t TBW102 -c DefaultCluster", "TBW102"),
        ("sendMessage -t SCHEDULE_TOPIC_XXXX -p x", "SCHEDULE_TOPIC_XXXX"),
        (
            "updateBrokerConfig -c DefaultCluster -k brokerPermision -v 4",
            ": this broker has no property brokerPermision: that has changed nothing",
        ),
        ("sendMessage -t TBW102 -p x -k a,b -b broker-g -i 77", "queue"),
    ],
)
def test_what_the_cluster_refuses(admin: MqAdmin, arguments: str, problem: str) -> None:
    printed = admin(*arguments.split())
    assert problem in printed.problem
    assert printed.code == 1


def test_a_change_that_counts_at_the_next_start_is_told(admin: MqAdmin) -> None:
    target = ("-c", "DefaultCluster")
    printed = admin("updateBrokerConfig", *target, "-k", "flushDiskType", "-v", "SYNC_FLUSH")
    assert printed.code == 0
    assert "update broker config success" in printed.out
    assert printed.err.endswith("takes effect at the next start: flushDiskType\n")


def test_exit_codes_of_the_original(admin: MqAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = ("topicRoute", "-t", "NoSuchTopic")
    assert admin(*failing).code == 1
    assert admin(*failing, "--compat-exit").code == 0
    assert admin("noSuchCommand").code == 2
    assert admin("topicRoute").code == 2
    assert admin("noSuchCommand", "--compat-exit").code == 0
    assert admin("topicRoute", "--compat-exit").code == 1, (
        "the original says 1 to a wrong command line"
    )
    monkeypatch.setenv("MQADMIN_COMPAT_EXIT", "1")
    assert admin(*failing).code == 0


# --- as a process
# --------------------------------------------------------------------------------------------------


def test_as_a_process(cluster: LocalCluster) -> None:
    command = [
        sys.executable,
        "-m",
        "aiorocketmq.tools.mqadmin",
        "topicStatus",
        "-n",
        cluster.namesrv_address,
        "-t",
    ]
    done = subprocess.run([*command, "TBW102"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"#Broker Name                      #QID  ")
    failed = subprocess.run([*command, "NoSuchTopic"], capture_output=True, check=False)
    assert (failed.returncode, failed.stdout) == (1, b"")
    assert failed.stderr.count(b"\n") == 1


def test_interrupted(cluster: LocalCluster) -> None:
    command = [
        sys.executable,
        "-m",
        "aiorocketmq.tools.mqadmin",
        "clusterList",
        "-i",
        "0.1",
        "-n",
        cluster.namesrv_address,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(4):  # the table, twice
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == ""


def test_a_dead_name_server_beside_a_living_one_is_not_talked_about(
    cluster: LocalCluster, dead_address: str
) -> None:
    both = f"{dead_address};{cluster.namesrv_address}"
    command = [sys.executable, "-m", "aiorocketmq.tools.mqadmin", "topicList", "-n", both]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_goes_away_is_no_failure(cluster: LocalCluster) -> None:
    command = [
        sys.executable,
        "-m",
        "aiorocketmq.tools.mqadmin",
        "brokerStatus",
        "-n",
        cluster.namesrv_address,
    ]
    process = subprocess.Popen(
        [*command, "-b", cluster.broker_address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(60) == 0
