"""All commands of ``mqadmin`` in the order in which they are listed (``admin-cli.md`` §2).

To add one: give its row the module that defines it with ``@command("<name>")``. A row without a module is known,
listed as not served yet, and refused with exit code 2.
"""

from __future__ import annotations

import importlib
from typing import Final, NamedTuple

from .command import SERVED, AdminCommand


class Entry(NamedTuple):
    """One command."""

    name: str
    summary: str
    module: str | None = None
    """The module of this package that defines it."""
    aliases: tuple[str, ...] = ()


CATALOG: Final = (
    Entry("updateTopic", "Create or change a topic", "topic"),
    Entry("deleteTopic", "Delete a topic from brokers and name servers", "topic"),
    Entry("updateSubGroup", "Create or change a consumer group", "consumer"),
    Entry("deleteSubGroup", "Delete a consumer group from brokers"),
    Entry("updateBrokerConfig", "Change one property of a running broker"),
    Entry("updateTopicPerm", "Change who may read and write a topic"),
    Entry("topicRoute", "Which brokers have a topic", "topic"),
    Entry("topicStatus", "Offsets of every queue of a topic", "topic"),
    Entry("topicClusterList", "Which clusters have a topic"),
    Entry("brokerStatus", "Figures of a running broker", "broker"),
    Entry("queryMsgById", "A message by the id that its broker gave it"),
    Entry("queryMsgByKey", "Messages by a key"),
    Entry("queryMsgByUniqueKey", "A message by the id that its producer gave it"),
    Entry("queryMsgByOffset", "A message by queue and offset"),
    Entry("queryMsgTraceById", "What the trace says of a message", aliases=("QueryMsgTraceById",)),
    Entry("printMsg", "Print the messages of a topic"),
    Entry("printMsgByQueue", "Print the messages of a queue"),
    Entry("sendMsgStatus", "Send messages to a broker and print how it went"),
    Entry("brokerConsumeStats", "How far the groups of a broker are behind"),
    Entry("producerConnection", "The connected producers of a group"),
    Entry("consumerConnection", "The connected consumers of a group"),
    Entry("consumerProgress", "How far consumer groups are behind", "consumer"),
    Entry("consumerStatus", "What goes on inside the consumers of a group"),
    Entry("cloneGroupOffset", "Copy the offsets of a group to another one"),
    Entry("producer", "The producers of a broker"),
    Entry("clusterList", "The brokers of all clusters", "cluster"),
    Entry("topicList", "The topics that the name server knows", "topic"),
    Entry("updateKvConfig", "Create or change a value in the name servers' KV config"),
    Entry("deleteKvConfig", "Delete a value from the name servers' KV config"),
    Entry("wipeWritePerm", "Keep producers away from a broker"),
    Entry("addWritePerm", "Let producers come back to a broker"),
    Entry("resetOffsetByTime", "Move a group to a point in time"),
    Entry("skipAccumulatedMessage", "Move a group to the end"),
    Entry("updateOrderConf", "Read or change the order configuration of a topic"),
    Entry("cleanExpiredCQ", "Remove consume queues that nothing points to"),
    Entry("deleteExpiredCommitLog", "Remove commit log files past their time"),
    Entry("cleanUnusedTopic", "Remove the files of topics that are gone"),
    Entry("startMonitoring", "Watch consumer groups"),
    Entry("statsAll", "Rates and backlog of topics and groups"),
    Entry("allocateMQ", "How queues would be shared"),
    Entry("checkMsgSendRT", "Measure how long sending takes"),
    Entry("clusterRT", "Measure how long sending takes, for every broker"),
    Entry("getNamesrvConfig", "The configuration of the name servers"),
    Entry("updateNamesrvConfig", "Change one property of running name servers"),
    Entry("getBrokerConfig", "The configuration of brokers"),
    Entry("getConsumerConfig", "The configuration of a consumer group"),
    Entry("queryCq", "Entries of a consume queue"),
    Entry("sendMessage", "Send one message", "message"),
    Entry("consumeMessage", "Read messages without moving any group", "message"),
    Entry("updateAclConfig", "Create or change an account"),
    Entry("deleteAclConfig", "Delete an account", aliases=("deleteAccessConfig",)),
    Entry("clusterAclConfigVersion", "Versions of the accounts"),
    Entry("updateGlobalWhiteAddr", "Change the addresses that need no account"),
    Entry("exportMetadata", "Write topics and groups to files"),
    Entry("exportConfigs", "Write the configuration of brokers to a file"),
    Entry("exportMetrics", "Write figures of a cluster to a file"),
)

_BY_NAME: Final = {name.lower(): entry for entry in CATALOG for name in (entry.name, *entry.aliases)}


def find(name: str) -> Entry | None:
    """The command of that name or alias, whatever the case."""
    return _BY_NAME.get(name.lower())


def load(entry: Entry) -> AdminCommand | None:
    """The command itself, ``None`` when it is not served yet. Only the module that is needed is imported."""
    if entry.module is None:
        return None
    importlib.import_module(f".{entry.module}", __package__)
    return SERVED[entry.name]
