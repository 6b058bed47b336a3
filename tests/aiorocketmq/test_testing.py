"""The pytest plugin, as another project gets it: through the entry point, with and without
asyncio."""

import subprocess
import sys

import pytest

from aiorocketmq.testing import fresh_topic_name

pytest_plugins = ["pytester"]

PROJECT = """
    import asyncio

    import pytest

    from aiorocketmq import Message, Producer, sync

    clusters = []

    def test_blocking(rocketmq_cluster, rocketmq_topic):
        clusters.append(rocketmq_cluster)
        namesrv = rocketmq_cluster.namesrv_address
        with sync.PullConsumer("GID_x", rocketmq_topic, namesrv=namesrv) as consumer:
            with sync.Producer("PID_x", namesrv=namesrv) as producer:
                result = producer.send(Message(rocketmq_topic, b"hello"))
            for message in consumer:
                assert message.body == b"hello"
                break
        assert rocketmq_topic.startswith("test_blocking-")

    @pytest.mark.parametrize("number", [1, 2])
    def test_with_asyncio(rocketmq_cluster, rocketmq_topic, number):
        clusters.append(rocketmq_cluster)

        async def send():
            async with Producer("PID_x", namesrv=rocketmq_cluster.namesrv_address) as producer:
                assert len(await producer.queues(rocketmq_topic)) == 4
                return await producer.send(Message(rocketmq_topic, b"hello"))

        assert asyncio.run(send()).queue_offset == 0, "every test has a topic of its own"

    def test_one_cluster_for_all():
        assert len(set(map(id, clusters))) == 1
        assert len(clusters) == 3
"""


def test_fixtures_of_another_project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PROJECT)
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    result.assert_outcomes(passed=4)


GROUPS = """
    import asyncio

    from aiorocketmq import Message, sync

    ended = []

    def send(group, topic):
        with sync.Producer("PID_x", namesrv=group.namesrv_address) as producer:
            producer.send(Message(topic, b"hello"))

    def test_one_of_them_dies_and_one_hangs(rocketmq_group, rocketmq_group_topic):
        leader = asyncio.run(rocketmq_group.leader())
        asyncio.run(leader.kill())
        assert asyncio.run(rocketmq_group.leader()) is not leader
        send(rocketmq_group, rocketmq_group_topic)
        hanging = asyncio.run(rocketmq_group.leader())
        asyncio.run(hanging.pause())
        ended.extend([leader, hanging])

    def test_all_run_again(rocketmq_group, rocketmq_group_topic):
        assert all(member in rocketmq_group.members and member.serves for member in ended)
        send(rocketmq_group, rocketmq_group_topic)
"""


def test_group_fixture_of_another_project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GROUPS)
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    result.assert_outcomes(passed=2)


def test_fixtures_explain_themselves(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures", "-p", "no:xdist")
    result.stdout.fnmatch_lines(
        ["rocketmq_cluster [[]session scope[]]*", "rocketmq_topic*", "rocketmq_group*"]
    )


def test_the_plugin_imports_nothing_of_the_cluster() -> None:
    """It is loaded in every project that has this package installed."""
    code = (
        "import sys, pytest; before = set(sys.modules); import aiorocketmq.testing; "
        "print(sorted(name for name in set(sys.modules) - before if name.partition('.')[0] not in "
        "sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['aiorocketmq', 'aiorocketmq.testing']"


def test_without_pytest_it_says_what_to_import() -> None:
    code = "import sys; sys.modules['pytest'] = None; import aiorocketmq.testing"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: aiorocketmq.testing is a plugin of pytest, which is not installed; "
        "without it: from aiorocketmq import LocalCluster"
    )


def test_topic_names_are_allowed_and_fresh() -> None:
    first, second = fresh_topic_name("test_x[a b/ü]"), fresh_topic_name("test_x[a b/ü]")
    assert first != second
    assert first.startswith("test_x_a_b-")
    assert len(fresh_topic_name("x" * 500)) < 127
