# Every command a contributor needs. `make help` lists them.
# The environment is made once and remade when pyproject.toml changes; VENV=path puts it elsewhere.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n auto

# A PYTHON from the command line or the environment may be a name or a path.
ifneq ($(origin PYTHON),file)
override PYTHON := $(or $(shell sh scripts/find_python.sh '$(PYTHON)'),$(PYTHON))
endif

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
BENCH_ARGS ?=
DIST_ARGS ?=
LOWEST_VENV ?= $(VENV)-lowest

.DEFAULT_GOAL := help
.PHONY: docs docs-tutorials docs-serve help demo test test-lowest test-neighbours lint format types generate drift dist bench clean same-python
.DELETE_ON_ERROR:

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.stamp-run  ## install Pullback and show what it does
	$(BIN)/python -m pullback demo

test: $(VENV)/.stamp-dev  ## install the test needs and run the whole suite
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-lowest:  ## run the suite with the lowest Python, NumPy and SciPy that pyproject.toml promises
	@python=$$(sh scripts/find_python.sh lowest) && \
	  $(MAKE) --no-print-directory $(LOWEST_VENV)/.stamp-lowest VENV=$(LOWEST_VENV) PYTHON="$$python"
	$(LOWEST_VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-neighbours: $(VENV)/.stamp-neighbours  ## install pandas and others, run the tests that use them
	$(BIN)/python -m pytest -n auto tests/interop/test_neighbours.py tests/interop/test_constants_in_mode.py tests/examples tests/distributed/test_examples.py

lint: $(VENV)/.stamp-dev  ## check rules and format with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.stamp-dev  ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.stamp-dev  ## check package, operator records and tools with mypy --strict
	$(BIN)/mypy --strict

generate: $(VENV)/.stamp-dev  ## write the source of the operators from their tables
	$(BIN)/python scripts/generate.py
	$(BIN)/python scripts/method_stubs.py

drift: $(VENV)/.stamp-dev  ## check that the generated source is what the tables say
	$(BIN)/python scripts/generate.py --check
	$(BIN)/python scripts/method_stubs.py --check

docs: $(VENV)/.stamp-docs  ## build the site in build/docs, and check its links; no tutorial is run
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs build/docs
	$(BIN)/python -m tools.repodocs build . --out build/docs/repository --title Pullback --home ../index.html
	$(BIN)/python scripts/check_links.py build/docs

docs-tutorials:  ## the same, with the tutorials run
	PULLBACK_DOCS_EXECUTE=force $(MAKE) --no-print-directory docs

docs-serve: docs  ## build the site and show it at http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs 8000

dist: $(VENV)/.stamp-dist  ## build sdist and wheel, install and test the sdist without network
	$(BIN)/python scripts/check_dist.py $(DIST_ARGS)

bench: $(VENV)/.stamp-bench  ## compare with the peers that are installed
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)
	$(BIN)/python benchmarks/bench_dispatch.py

clean:  ## remove the environment, caches and build results
	rm -rf $(VENV) $(LOWEST_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A PYTHON that is given is used: an environment of another version is not silently kept.
VERSION := -c 'import platform; print(platform.python_version())'
same-python:
ifneq ($(origin PYTHON),file)
	@if [ -x $(BIN)/python ]; then \
	  wanted=$$($(PYTHON) $(VERSION)) || exit 1; present=$$($(BIN)/python $(VERSION)); \
	  [ "$$wanted" = "$$present" ] || { \
	    echo "$(VENV) has Python $$present, but '$(PYTHON)' is $$wanted." >&2; \
	    echo "Run 'make clean' first, or put it elsewhere: make VENV=other PYTHON=$(PYTHON) $(MAKECMDGOALS)" >&2; \
	    exit 1; }; \
	fi
endif

$(VENV)/.stamp-venv: | same-python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Pullback needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.stamp-run: $(VENV)/.stamp-venv pyproject.toml
	$(INSTALL) .
	@touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-venv pyproject.toml
	$(INSTALL) '.[dev]'
	@touch $@ $(VENV)/.stamp-run

# The pins come after the rest: pip chooses the newest versions for the tools first.
$(VENV)/.stamp-lowest: $(VENV)/.stamp-dev scripts/lowest_versions.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  $$($(BIN)/python scripts/lowest_versions.py)
	@touch $@

$(VENV)/.stamp-neighbours: $(VENV)/.stamp-dev
	$(INSTALL) '.[neighbours]'
	@touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp-dev
	$(INSTALL) '.[docs]'
	@touch $@

$(VENV)/.stamp-dist: $(VENV)/.stamp-dev
	$(INSTALL) '.[dist]'
	@touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp-venv pyproject.toml
	$(INSTALL) '.[bench]'
	@touch $@ $(VENV)/.stamp-run
