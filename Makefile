# Needs Python 3.10 or newer, git and make. What is done is in scripts/, where it can be read.
#   PYTHON=...  the interpreter; the torch for CUDA or ROCm that it has is used
#   VENV=...    where the environment is made
#   ARGS=...    further options
PYTHON ?= python3
VENV ?= .venv
export PYTHON VENV

.PHONY: help accept test test-slow lint thresholds-changelog bundle clean

help:
	@echo 'make accept   examine this node:  make accept ARGS="--accel-sku=h100-sxm --accel-level=standard"'
	@echo 'make test     our own tests:      make test ARGS="-k judge"'
	@echo 'make test-slow   those that take minutes: full products, builds, end-to-end cases, the whole fault matrix'
	@echo 'make lint     ruff, mypy, and the plausibility of the threshold files'
	@echo 'make thresholds-changelog   a new version of the thresholds:  make thresholds-changelog ARGS="--reason ..."'
	@echo 'make bundle   one file for a node without a network:  make bundle ARGS="--python 3.12"'
	@echo 'make clean    remove the environment and what was built'

accept:
	@scripts/accept.sh $(ARGS)

test:
	@scripts/test.sh fast $(ARGS)

test-slow:
	@scripts/test.sh slow $(ARGS)

lint:
	@scripts/env.sh dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest-accel sku lint

thresholds-changelog:
	@scripts/env.sh dev
	$(VENV)/bin/python scripts/threshold_changes.py --write $(ARGS)

bundle:
	@scripts/bundle.sh $(ARGS)

clean:
	rm -rf .venv build dist .coverage .benchmarks .mypy_cache .pytest_cache .ruff_cache
