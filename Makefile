# Every target makes its own .venv first when there is none; Python 3.11 or newer and make are all it takes.
#
#   make PYTHON=python3.13 demo      another interpreter (only read when .venv is made)
#   make demo INPUT=orders.csv       your own data
#   make LOCKED=1 test               with exactly what stands in requirements/, each file by its hash (as CI does)
#   make SPARK=no demo               without Spark, which is installed, and run, where there is Java 17 or newer

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
RUN_STAMP := .venv/.run-stamp
DEV_STAMP := .venv/.dev-stamp
BENCH_STAMP := .venv/.bench-stamp
FUZZ_STAMP := .venv/.fuzz-stamp
CONSOLE_STAMP := .venv/.console-stamp
SPARK_STAMP := .venv/.spark-stamp
ARCHIVE_STAMP := .venv/.class-archive-stamp
SPARK_IF_WANTED := $(if $(filter no,$(SPARK)),,$(SPARK_STAMP))

# An environment that stands for another folder (a moved or copied clone) would run that folder's code.
MOVED := $(shell [ ! -f $(RUN_STAMP) ] || [ "$$(cat $(RUN_STAMP))" = "$$(pwd -P)" ] || echo moved)

LEAVES := setup.py $(filter-out %/built_from.h,$(wildcard $(addprefix remoting/protocol/leaves/*,.pyx .pxi .h)))

STORE_CAMPAIGN := tests/fault/test_store_machine.py tests/fault/test_recovery_histories.py tests/fault/test_store_recovery.py tests/fault/test_retention.py

# Where it is set, each of the hundreds of processes that the tests start would compile all that it imports once more.
unexport PYTHONDONTWRITEBYTECODE

define SAY_WHICH_LEAVES
from aiorocketmq.remoting.protocol.leaves import KIND
if KIND != "compiled":
    print("the hot path runs as", KIND, "- all works, a message costs several times as much CPU.")
    print("With gcc and the headers of Python (python3-dev): touch setup.py, and make again.")
endef
export SAY_WHICH_LEAVES

.DEFAULT_GOAL := help
.PHONY: help setup lock audit demo test check wheel release lint types publictypes imports docs picture screenshots fmt bench smoke fuzz degradation raft sim jepsen sanitize soak services clean moved copy spark-versions pipeline spark-zip spark-recipes

help:  ## what can be made here
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST))

demo: $(RUN_STAMP) $(CONSOLE_STAMP) $(SPARK_IF_WANTED)  ## a cluster in processes of its own takes a real data set through a topic (INPUT=file.csv|file.jsonl)
	@$(PY) -m examples.demo $(if $(filter no,$(SPARK)),--no-spark) $(if $(INPUT),--input "$(INPUT)")

pipeline: $(RUN_STAMP) $(SPARK_IF_WANTED)  ## two topics joined by Spark into a topic and Parquet, with a driver that is killed; a page of plots (ARGS="--namesrv host:port": your cluster)
	@$(PY) -m examples.pipeline $(ARGS)

test: $(DEV_STAMP) $(SPARK_IF_WANTED)  ## all tests
	$(PY) -m pytest -n auto --dist loadfile $(ARGS)

check: lint types imports  ## lint, format, types, import contract

bench: $(BENCH_STAMP) $(SPARK_IF_WANTED)  ## what messages cost, next to the machine's limit: all in 20 minutes, into docs/performance.md (ARGS="send --quick": a part)
	@$(PY) -m benchmarks $(or $(ARGS),--page docs/performance.md)

smoke: $(RUN_STAMP)  ## a million messages through the real daemons
	@$(PY) -m benchmarks.smoke $(ARGS)

# What every parser is given (tests/fuzzing) has arguments of its own; with one of them it is all that runs.
OF_PARSERS := $(filter --target --executions --repeat --list --figures,$(ARGS))
fuzz: $(DEV_STAMP) $(FUZZ_STAMP)  ## bad input against the real daemons (ARGS="--seconds 300 --seed 7"), the dearest frames, every parser (ARGS="--target headers --executions 1000000": only that), then all property tests at full size (STORE=1: only those of the store)
ifneq ($(OF_PARSERS),)
	@$(PY) -m tests.fuzzing $(ARGS)
else
	@$(if $(STORE),,$(PY) -m benchmarks.fuzz $(ARGS))
	@$(if $(STORE),,$(PY) -m benchmarks.cost)
	@$(if $(STORE),,$(PY) -m benchmarks.growth)
	@$(if $(STORE),,$(PY) -m tests.fuzzing)
	@TEST_SIZE=nightly $(PY) -m pytest -q -n auto -o faulthandler_timeout=0 $(if $(STORE),$(STORE_CAMPAIGN),-m hypothesis)
endif

degradation: $(RUN_STAMP)  ## 10,000 connections, 1,000 members, 99,900 topics, nonsense, poison, clocks and late packets, each before, during, after (ARGS="--only topics --small")
	@$(PY) -m benchmarks.degradation $(ARGS)

raft: $(DEV_STAMP)  ## 100,000 random schedules of Raft groups that lose messages, members and disks (ARGS="--schedules 1000000 --seed 7")
	@$(PY) -m tests.store.raft.campaign $(ARGS)

sim: $(DEV_STAMP)  ## whole clusters on virtual time under faults, one for each seed (ARGS="--seeds 1000 --seed 7 --show")
	@$(PY) -m tests.simulation $(ARGS)

jepsen: $(RUN_STAMP)  ## real processes killed, stopped, cut off, slowed down, filled up, and a verdict on what clients saw: one broker, a pair, a group (MINUTES=60; ARGS="--shape group --seed 7", ARGS="--namesrv host:port": any cluster, without faults)
	@$(PY) -m benchmarks.jepsen $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

# A build of its own, in front of the installed one. PYTHONMALLOC: so that every object is a piece of memory of its own.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g
SANITIZED := build/sanitized
LEAVES_TESTS := tests/remoting/protocol/leaves
sanitize: $(DEV_STAMP)  ## the compiled leaves under AddressSanitizer and UndefinedBehaviorSanitizer: their tests, golden bytes, 10 million inputs (ARGS="--inputs 1000000 --seed 7")
	@rm -rf $(SANITIZED)
	@LEAVES_CFLAGS="$(SANITIZE)" $(PY) setup.py -q build --build-lib $(SANITIZED) --build-temp $(SANITIZED)/temp
	@export LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(SANITIZED):. PYTHONSAFEPATH=1; \
	$(PY) -c 'from aiorocketmq.remoting.protocol.leaves import KIND, _compiled as c; assert "$(SANITIZED)" in c.__file__, c.__file__; print(KIND, c.__file__)' && \
	$(PY) -m pytest -q --capture=sys -o "pythonpath=$(SANITIZED) ." --deselect $(LEAVES_TESTS)/test_leaks.py -o faulthandler_timeout=0 $(LEAVES_TESTS) tests/golden && \
	$(PY) -m tests.remoting.protocol.leaves.fuzz $(ARGS)

soak: $(RUN_STAMP) $(SPARK_IF_WANTED)  ## faults under load: a broker; master, slave, name server; a group that elects; consumers; a Spark query (ONLY=soak, soak_replication, raft_faults, consumers, soak_spark or soak_exactly_once; ARGS="--rounds 1000 --seed 7")
	@failed=; for name in $(or $(ONLY),soak soak_replication raft_faults consumers soak_spark soak_exactly_once); do \
		$(PY) -m benchmarks.$$name $$(case "$$name$(ONLY)" in consumers|soak_spark|soak_exactly_once) ;; *) echo '$(ARGS)';; esac) || failed="$$failed $$name"; done; \
		[ -z "$$failed" ] || { echo "not good:$$failed"; exit 1; }

services: $(RUN_STAMP)  ## delayed messages, transactions, held pulls, new groups, slow and deaf peers at full size (ONLY=scheduled, ... slow_peers; ARGS=--help)
	@failed=; for name in $(or $(ONLY),scheduled transactions long_poll new_groups slow_peers); do \
		$(PY) -m benchmarks.$$name $(ARGS) || failed="$$failed $$name"; done; \
		[ -z "$$failed" ] || { echo "not good:$$failed"; exit 1; }

spark-versions: $(DEV_STAMP) $(SPARK_STAMP)  ## the tests of the Spark connector with older versions of Spark (VERSIONS="4.1": only that)
	@$(PY) .ci/spark_versions.py $(or $(VERSIONS),4.0 4.1 4.2)

spark-zip: $(DEV_STAMP)  ## one file for spark-submit --py-files (dist/aiorocketmq-spark.zip)
	@$(PY) .ci/spark_zip.py dist/aiorocketmq-spark.zip

spark-recipes: $(DEV_STAMP) $(SPARK_STAMP)  ## the ways to ship the package to Spark's executors, run on two of them: installed, zip, archive (ONLY=zip)
	@$(PY) .ci/spark_recipes.py $(ONLY)

wheel: $(RUN_STAMP)  ## a wheel for the Python of .venv, with the compiled leaves where there is a C compiler
	@$(PIP) wheel --no-deps --wheel-dir dist .
	@ls dist/*.whl

# It makes environments of its own, so that nothing of .venv is in what it tries.
release:  ## sdist and wheels of the last commit in dist/, checked, installed and tried; says what is to be tagged (PYTHONS="python3.12 python3.13": wheels for these, too)
	@$(PYTHON) .ci/release.py $(PYTHONS)

screenshots: $(DEV_STAMP)  ## the pictures of docs/console.md, by Chromium in front of a cluster of their own
	@$(PY) docs/screenshots.py

docs: $(DEV_STAMP)  ## write the pages and pictures that follow from the code
	@$(PY) docs/generate.py && $(PY) docs/monitoring.py && $(PY) docs/reliability.py && $(PY) docs/rooms.py

picture: $(RUN_STAMP)  ## write the picture of the README anew, from what its commands print
	@$(PY) docs/picture.py

fmt: $(DEV_STAMP)  ## format the code and fix what can be fixed
	$(PY) -m ruff check --fix --exit-zero --quiet .
	$(PY) -m ruff format .

# For every Python that is supported, and every platform.
lock: $(DEV_STAMP)  ## pin what it is developed and tested with, with hashes (requirements/)
	@$(PIP) install uv
	@for extras in "dev" "spark --extra spark-connect --extra dev" "release"; do \
		.venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
			--extra $$extras pyproject.toml -o requirements/$${extras%% *}.txt; done

audit: $(DEV_STAMP)  ## known holes in what is pinned (asks osv.dev)
	@$(PIP) install pip-audit
	@.venv/bin/pip-audit -s osv --disable-pip --require-hashes -r requirements/spark.txt || { \
		echo "not audited, or with holes: see above" >&2; exit 1; }

setup: $(DEV_STAMP) $(if $(SPARK_IF_WANTED),$(ARCHIVE_STAMP))  ## the environment with everything for development

clean:  ## remove the environment and everything that was made
	rm -rf .venv .typecheck build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

lint: $(DEV_STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: copy
	$(PY) .ci/typecheck.py

publictypes: copy $(SPARK_IF_WANTED)  ## whether every public name has a type that all checkers see alike (pyright, needs node)
	@$(PY) -c 'import pyright' 2>/dev/null || $(PIP) install pyright
	@$(PY) .ci/public_types.py

imports: copy
	cd .typecheck && ../.venv/bin/lint-imports --config ../pyproject.toml --no-cache --no-logo

# The rooms stand at the top level, the import package is one: mypy and import-linter read a copy as it installs.
copy: $(DEV_STAMP)
	@rm -rf .typecheck && mkdir .typecheck
	@$(PY) -c 'import setuptools; setuptools.setup()' -q \
		egg_info --egg-base .typecheck build_py --build-lib .typecheck

$(RUN_STAMP): pyproject.toml $(LEAVES) $(MOVED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "aiorocketmq needs Python 3.11 or newer; $(PYTHON) says: $$($(PYTHON) --version 2>&1)"; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(PY) -c '' 2>/dev/null || { echo "making .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv --clear .venv; } || { \
		rm -rf .venv; echo "$(PYTHON) cannot make a virtual environment."; \
		echo "On Debian and Ubuntu the package python3-venv is missing."; exit 1; } >&2
	@echo "installing aiorocketmq and what it needs into .venv"
	@$(if $(LOCKED),$(PIP) install --require-hashes -r requirements/dev.txt && \
		$(PIP) install --no-deps --no-build-isolation --editable .,$(PIP) install --editable .)
	@$(PY) -c "$$SAY_WHICH_LEAVES"
	@pwd -P > $@

# What is installed here stays right when only the leaves were built again.
$(DEV_STAMP): pyproject.toml | $(RUN_STAMP)
	@echo "installing the development tools into .venv"
	@$(if $(LOCKED),:,$(PIP) install --editable '.[dev]')
	@touch $@

$(BENCH_STAMP): pyproject.toml | $(RUN_STAMP)
	@$(PIP) install --only-binary matplotlib --editable '.[bench]' 2>/dev/null || echo "matplotlib cannot be installed here: no charts" >&2
	@touch $@

$(CONSOLE_STAMP): pyproject.toml | $(RUN_STAMP)
	@$(if $(LOCKED),:,$(PIP) install --editable '.[console]' || echo "the console's packages cannot be installed here: the demo goes on without" >&2)
	@touch $@

$(FUZZ_STAMP): pyproject.toml | $(RUN_STAMP)
	@$(PIP) install --only-binary atheris --editable '.[fuzz]' 2>/dev/null || echo "atheris cannot be installed here: inputs are not guided by coverage" >&2
	@touch $@

# Without Java Spark cannot run, and is not installed; there is no stamp then, so that a Java of tomorrow is seen.
$(SPARK_STAMP): pyproject.toml | $(RUN_STAMP)
	@$(PY) -m aiorocketmq.spark_connector.session.java || { echo "going on without Spark" >&2; exit 0; }; \
	$(PY) -c 'import pyspark' 2>/dev/null || echo "installing Spark into .venv (460 MB to download the first time; SPARK=no: without)"; \
	if $(PIP) install --retries 2 $(if $(LOCKED),--require-hashes -r requirements/spark.txt,--editable '.[spark,spark-connect]'); then touch $@; \
	else echo "Spark cannot be installed here: going on without" >&2; fi

# Only speed: without it all goes on as before. It takes longer to make than one run of the tests gains by it.
$(ARCHIVE_STAMP): $(SPARK_STAMP)
	@[ ! -f $(SPARK_STAMP) ] || { echo "making an archive of Spark's classes: Spark then starts in half the time"; \
	$(PY) -m aiorocketmq.spark_connector.session.class_archive --if-missing || true; touch $@; }

moved:
	@echo ".venv belongs to another folder, making a new one"
	@rm -rf .venv
