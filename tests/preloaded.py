"""What the processes of ``forked`` have imported when they begin: only the one they are forked from
imports this."""

from __future__ import annotations

import gc
import importlib

from aiorocketmq.broker.daemon import BROKER
from aiorocketmq.daemon.launch import command_of
from aiorocketmq.namesrv.daemon import NAMESRV

for name in (
    "aiorocketmq.local_cluster",
    "aiorocketmq.sync",
    "aiorocketmq.tools.command_line",
    "uvloop",
    "tests.forked",
):
    importlib.import_module(name)
for daemon in (NAMESRV, BROKER):
    command_of(daemon)  # what it finds out about properties is kept
gc.collect()
# no collection in a forked process looks at all this again, and copies its pages by that
gc.freeze()
