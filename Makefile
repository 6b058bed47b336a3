# Every target makes its own .venv first when there is none; Python 3.11 or newer and make are all it takes.
#
#   make PYTHON=python3.13 demo      another interpreter (only read when .venv is made)
#   make demo INPUT=orders.csv       your own data

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
RUN_STAMP := .venv/.run-stamp
DEV_STAMP := .venv/.dev-stamp

# An environment that stands for another folder (a moved or copied clone) would run that folder's code.
MOVED := $(shell [ ! -f $(RUN_STAMP) ] || [ "$$(cat $(RUN_STAMP))" = "$$(pwd -P)" ] || echo moved)

STORE_CAMPAIGN := tests/fault/test_store_machine.py tests/fault/test_store_recovery.py tests/fault/test_retention.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types imports fmt bench smoke fuzz soak services clean moved copy

help:  ## what can be made here
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST))

demo: $(RUN_STAMP)  ## a cluster in processes of its own takes a real data set through a topic (INPUT=file.csv|file.jsonl)
	@$(PY) -m examples.demo $(if $(INPUT),--input "$(INPUT)")

test: $(DEV_STAMP)  ## all tests
	$(PY) -m pytest -n auto --dist loadfile $(ARGS)

check: lint types imports  ## lint, format, types, import contract

bench: $(RUN_STAMP)  ## CPU time per message, measured from outside the broker
	@$(PY) -m benchmarks $(ARGS)

smoke: $(RUN_STAMP)  ## a million messages through the real daemons
	@$(PY) -m benchmarks.smoke $(ARGS)

fuzz: $(DEV_STAMP)  ## bad input against the real daemons (ARGS="--seconds 300 --seed 7"), any history against the store (STORE=1: only that)
	@$(if $(STORE),,$(PY) -m benchmarks.fuzz $(ARGS))
	@TEST_SIZE=nightly $(PY) -m pytest -q -n auto -o faulthandler_timeout=0 $(STORE_CAMPAIGN)

soak: $(RUN_STAMP)  ## kills under load: a broker; master, slave, name server; consumers (ONLY=soak, soak_replication or consumers; ARGS="--rounds 1000 --seed 7")
	@failed=; for name in $(or $(ONLY),soak soak_replication consumers); do \
		$(PY) -m benchmarks.$$name $$([ "$$name" = consumers -a -z "$(ONLY)" ] || echo '$(ARGS)') || failed="$$failed $$name"; done; \
		[ -z "$$failed" ] || { echo "not good:$$failed"; exit 1; }

services: $(RUN_STAMP)  ## delayed messages, transactions and held pulls at full size (ONLY=scheduled, transactions or long_poll; ARGS=--help)
	@failed=; for name in $(or $(ONLY),scheduled transactions long_poll); do \
		$(PY) -m benchmarks.$$name $(ARGS) || failed="$$failed $$name"; done; \
		[ -z "$$failed" ] || { echo "not good:$$failed"; exit 1; }

fmt: $(DEV_STAMP)  ## format the code and fix what can be fixed
	$(PY) -m ruff check --fix --exit-zero --quiet .
	$(PY) -m ruff format .

setup: $(DEV_STAMP)  ## the environment with everything for development

clean:  ## remove the environment and everything that was made
	rm -rf .venv .typecheck build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

lint: $(DEV_STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: copy
	$(PY) .ci/typecheck.py

imports: copy
	cd .typecheck && ../.venv/bin/lint-imports --config ../pyproject.toml --no-cache --no-logo

# The rooms stand at the top level, the import package is one: mypy and import-linter read a copy as it installs.
copy: $(DEV_STAMP)
	@rm -rf .typecheck && mkdir .typecheck
	@PYTHONDONTWRITEBYTECODE= $(PY) -c 'import setuptools; setuptools.setup()' -q \
		egg_info --egg-base .typecheck build_py --build-lib .typecheck

$(RUN_STAMP): pyproject.toml $(MOVED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "aiorocketmq needs Python 3.11 or newer; $(PYTHON) says: $$($(PYTHON) --version 2>&1)"; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(PY) -c '' 2>/dev/null || { echo "making .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv --clear .venv; } || { \
		rm -rf .venv; echo "$(PYTHON) cannot make a virtual environment."; \
		echo "On Debian and Ubuntu the package python3-venv is missing."; exit 1; } >&2
	@echo "installing aiorocketmq and what it needs into .venv"
	@$(PIP) install --editable .
	@$(PIP) install --only-binary numpy,isal --editable '.[fast]' || \
		echo "numpy and isal have no wheel for this Python: going on without them, somewhat slower" >&2
	@pwd -P > $@

$(DEV_STAMP): $(RUN_STAMP)
	@echo "installing the development tools into .venv"
	@$(PIP) install --editable '.[dev]'
	@touch $@

moved:
	@echo ".venv belongs to another folder, making a new one"
	@rm -rf .venv
