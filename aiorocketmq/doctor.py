"""``python -m aiorocketmq.doctor -n HOST:PORT``: what is wrong between this machine and a cluster.
The same as ``mqdoctor``, see ``docs/doctor.md``."""

from __future__ import annotations

import runpy

if __name__ == "__main__":  # by name, because tools import the face
    runpy.run_module(f"{__package__}.tools.doctor", run_name="__main__", alter_sys=True)
