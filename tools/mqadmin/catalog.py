"""All commands of ``mqadmin`` in the order in which they are listed (``admin-cli.md`` §2).

A row names the module that defines the command with ``@command("<name>")``.
"""

from __future__ import annotations

import importlib
from typing import Final, NamedTuple

from .command import SERVED, AdminCommand


class Entry(NamedTuple):
    """One command."""

    name: str
    summary: str
    module: str
    """The module of this package that defines it."""
    aliases: tuple[str, ...] = ()


CATALOG: Final = (
    Entry("updateTopic", "Create or change a topic", "topic"),
    Entry("deleteTopic", "Delete a topic from brokers and name servers", "topic"),
    Entry("updateSubGroup", "Create or change a consumer group", "group"),
    Entry("deleteSubGroup", "Delete a consumer group from brokers", "group"),
    Entry("updateBrokerConfig", "Change one property of a running broker", "broker"),
    Entry("updateTopicPerm", "Change who may read and write a topic", "topic"),
    Entry("topicRoute", "Which brokers have a topic", "topic"),
    Entry("topicStatus", "Offsets of every queue of a topic", "topic"),
    Entry("topicClusterList", "Which clusters have a topic", "topic"),
    Entry("brokerStatus", "Figures of a running broker", "broker"),
    Entry("queryMsgById", "A message by the id that its broker gave it", "query"),
    Entry("queryMsgByKey", "Messages by a key", "query"),
    Entry("queryMsgByUniqueKey", "A message by the id that its producer gave it", "query"),
    Entry("queryMsgByOffset", "A message by queue and offset", "query"),
    Entry(
        "queryMsgTraceById",
        "What the trace says of a message",
        "query",
        aliases=("QueryMsgTraceById",),
    ),
    Entry("printMsg", "Print the messages of a topic", "printing"),
    Entry("printMsgByQueue", "Print the messages of a queue", "printing"),
    Entry("sendMsgStatus", "Send messages to a broker and print how it went", "timing"),
    Entry("brokerConsumeStats", "How far the groups of a broker are behind", "broker"),
    Entry("producerConnection", "The connected producers of a group", "connection"),
    Entry("consumerConnection", "The connected consumers of a group", "connection"),
    Entry("consumerProgress", "How far consumer groups are behind", "consumer"),
    Entry("consumerStatus", "What goes on inside the consumers of a group", "consumer_status"),
    Entry("cloneGroupOffset", "Copy the offsets of a group to another one", "offset"),
    Entry("producer", "The producers of a broker", "connection"),
    Entry("clusterList", "The brokers of all clusters", "cluster"),
    Entry("topicList", "The topics that the name server knows", "topic"),
    Entry(
        "updateKvConfig", "Create or change a value in the name servers' KV config", "name_server"
    ),
    Entry("deleteKvConfig", "Delete a value from the name servers' KV config", "name_server"),
    Entry("wipeWritePerm", "Keep producers away from a broker", "name_server"),
    Entry("addWritePerm", "Let producers come back to a broker", "name_server"),
    Entry("resetOffsetByTime", "Move a group to a point in time", "offset"),
    Entry("skipAccumulatedMessage", "Move a group to the end", "offset"),
    Entry("updateOrderConf", "Read or change the order configuration of a topic", "topic"),
    Entry("cleanExpiredCQ", "Remove consume queues that nothing points to", "broker"),
    Entry("deleteExpiredCommitLog", "Remove commit log files past their time", "broker"),
    Entry("cleanUnusedTopic", "Remove the files of topics that are gone", "broker"),
    Entry("startMonitoring", "Watch consumer groups", "monitor"),
    Entry("statsAll", "Rates and backlog of topics and groups", "figures"),
    Entry("allocateMQ", "How queues would be shared", "figures"),
    Entry("checkMsgSendRT", "Measure how long sending takes", "timing"),
    Entry("clusterRT", "Measure how long sending takes, for every broker", "timing"),
    Entry("getNamesrvConfig", "The configuration of the name servers", "name_server"),
    Entry("updateNamesrvConfig", "Change one property of running name servers", "name_server"),
    Entry("getBrokerConfig", "The configuration of brokers", "broker"),
    Entry("getConsumerConfig", "The configuration of a consumer group", "group"),
    Entry("queryCq", "Entries of a consume queue", "consume_queue"),
    Entry("sendMessage", "Send one message", "message"),
    Entry("consumeMessage", "Read messages without moving any group", "message"),
    Entry("updateAclConfig", "Create or change an account", "account"),
    Entry("deleteAclConfig", "Delete an account", "account", aliases=("deleteAccessConfig",)),
    Entry("clusterAclConfigVersion", "Versions of the accounts", "account"),
    Entry("updateGlobalWhiteAddr", "Change the addresses that need no account", "account"),
    Entry("exportMetadata", "Write topics and groups to files", "export"),
    Entry("exportConfigs", "Write the configuration of brokers to a file", "export"),
    Entry("exportMetrics", "Write figures of a cluster to a file", "export"),
    Entry("raftStatus", "Who leads the groups that elect their master", "raft"),
    Entry("transferLeader", "Have another member lead a group", "raft"),
)

_BY_NAME: Final = {
    name.lower(): entry for entry in CATALOG for name in (entry.name, *entry.aliases)
}


def find(name: str) -> Entry | None:
    """The command of that name or alias, whatever the case."""
    return _BY_NAME.get(name.lower())


def load(entry: Entry) -> AdminCommand:
    """The command itself. Only the module that is needed is imported."""
    importlib.import_module(f".commands.{entry.module}", __package__)
    return SERVED[entry.name]
