# Needs Python 3.10 or newer, git and make. What is done is in scripts/, where it can be read.
#   PYTHON=...  the interpreter; the torch for CUDA or ROCm that it has is used
#   VENV=...    where the environment is made: .venv to examine a node, .venv-dev to work on the project
#   ARGS=...    further options
#   CUDA_TORCH=...  versions of torch for `make test-cuda` and `make test-nightly`
export PYTHON VENV CUDA_TORCH
export TYPED = make $(MAKECMDGOALS)$(if $(ARGS), ARGS="$(ARGS)")
DEV = $(or $(VENV),.venv-dev)

.PHONY: help accept test test-faults test-nightly test-cuda lint format docs site picture wheel bundle clean

help:
	@echo 'Use it'
	@echo '  make accept      examine this node:  make accept ARGS="--accel-sku=h100-sxm --accel-level=standard"'
	@echo '  make wheel       build dist/pytest_accel-*.whl, for an environment of your own'
	@echo '  make bundle      pack one file for a node without a network:  make bundle ARGS="--python 3.12"'
	@echo '                   with --session: one file for a first session on a GPU (benchmarks/README.md)'
	@echo 'Work on it'
	@echo '  make test        run the quick tests:  make test ARGS="-k judge"'
	@echo '  make test-faults    run one case of each kind of fault of a simulated node'
	@echo '  make test-nightly   run all other tests: products, faults, builds, end-to-end runs, browsers, and test-cuda'
	@echo '  make test-cuda   run the suite on the CUDA build of torch, over a stand-in for the runtime (no GPU; 5 GB):'
	@echo '                   make test-cuda CUDA_TORCH="2.6.0 2.15.0"'
	@echo '  make lint        check code, types, formatting, threshold files, and the budget of lines'
	@echo '  make format      format the code, and correct what can be corrected without a decision'
	@echo '  make docs        make the generated pages and the picture anew (many minutes)'
	@echo '  make site        make the documentation as a site in site/, and check its links'
	@echo '  make picture     make docs/terminal.svg anew (a minute)'
	@echo '  make clean       remove the environments and what was built'

accept:
	@scripts/accept.sh $(ARGS)

test:
	@scripts/test.sh fast $(ARGS)

test-faults test-nightly test-cuda:
	@scripts/test.sh $(@:test-%=%) $(ARGS)

lint:
	@scripts/env.sh dev
	$(DEV)/bin/ruff check
	$(DEV)/bin/ruff format --check
	$(DEV)/bin/mypy
	$(DEV)/bin/lint-imports --no-logo
	$(DEV)/bin/pytest-accel sku lint
	$(DEV)/bin/python scripts/budget.py

format:
	@scripts/env.sh dev
	$(DEV)/bin/ruff check --fix
	$(DEV)/bin/ruff format

docs: picture
	$(DEV)/bin/python scripts/fault_codes.py
	$(DEV)/bin/python scripts/facts.py
	$(DEV)/bin/python scripts/schemas.py
	$(DEV)/bin/python scripts/fault_matrix.py

site:
	@scripts/env.sh dev
	$(DEV)/bin/sphinx-build -q -W -c docs . site
	@echo 'open site/README.html'

picture:
	@scripts/env.sh dev
	$(DEV)/bin/python scripts/picture.py

wheel:
	$(or $(PYTHON),python3) -m pip wheel --no-deps --wheel-dir dist .

bundle:
	@scripts/bundle.sh $(ARGS)

clean:
	rm -rf site .venv .venv-* build dist .coverage .benchmarks .mypy_cache .pytest_cache tests/.pytest_cache .ruff_cache
