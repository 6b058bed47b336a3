"""pyright --verifytypes over the installed copy in .typecheck: has every public name a type that
all checkers see alike?

pyright looks for the package among what is installed, and does not see an editable installation. So
the copy is put into an environment of its own, which takes everything else from the one that runs
this.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

COPY = Path(__file__).resolve().parent.parent / ".typecheck"
PACKAGE = "aiorocketmq"


def main() -> int:
    environment = COPY / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    paths = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", vars=paths))
    shutil.copytree(COPY / PACKAGE, packages / PACKAGE)
    (packages / "everything_else.pth").write_text(sysconfig.get_path("purelib") + "\n")
    scripts = Path(sysconfig.get_path("scripts", vars=paths))
    command = [sys.executable, "-m", "pyright", "--verifytypes", PACKAGE, "--ignoreexternal"]
    search = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(environment),
    }
    result = subprocess.run(
        command, cwd=environment, env=search, stdout=subprocess.PIPE, text=True, check=False
    )
    print(
        "\n".join(
            line for line in result.stdout.splitlines() if "error:" in line or "score" in line
        )
    )
    if importlib.util.find_spec("pyspark") is None:
        print(
            "Spark is not installed: what the connector's classes are based on is unknown, and "
            "counts as such."
        )
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
