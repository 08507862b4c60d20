# make demo      runs the examples on NumPy arrays (needs Python and make, nothing else)
# make test      linters, types, layers and SAMPLE per cent of the tests (installs torch, CPU build)
# make test-all  the same with every test
# make corpus    runs operators of other packages on the CPU against torch's (installs flag-gems without its pins)
# make lint      linters, types and layers only
# make pages     writes the generated pages of docs/ anew
# make clean     removes the virtual environment and everything that was generated
#
# Variables: PYTHON (interpreter for the virtual environment, 3.10 or newer), VENV (where it lives),
# SAMPLE (per cent of the tests that `make test` runs), JOBS (test processes), PYTEST_ARGS,
# TORCH_VERSION and TORCH_INDEX (see CONTRIBUTING.md).

PYTHON ?= python3
VENV ?= .venv
SAMPLE ?= 100
JOBS ?= auto
PYTEST_ARGS ?=
FLAG_GEMS_VERSION ?= 5.0.2
TORCH_VERSION ?= 2.13.0
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)
# The same language on the other host, which has llvmlite's loader and Python's threads; 5: PYTEST_ARGS chose none of it.
PORTABLE := TILEWRIGHT_HOST=portable $(PYTEST) --sample 5 tests/lang tests/errors tests/runtime/test_jit.py || test $$? = 5

.DEFAULT_GOAL := help
.PHONY: help demo test test-all corpus lint pages clean

help:
	@sed -n '/^$$/q;s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.core
	@$(BIN)/python examples/run_all.py

test: lint
	$(PYTEST) --sample $(SAMPLE)
	$(PORTABLE)

test-all: lint
	$(PYTEST)
	$(PORTABLE)

corpus: $(VENV)/.corpus
	$(BIN)/python -m pytest tests/corpus $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

pages: $(VENV)/.core
	$(BIN)/python -m tilewright knobs --page > docs/knobs.md
	$(BIN)/python -m tools.language_reference > docs/language.md
	$(BIN)/python -m tools.differences_page > docs/differences.md

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamp files: set-up runs once, and again when the dependencies change.
$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Tilewright needs Python 3.10 or newer; \
	$(PYTHON) is something else. Name one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: \
	apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.core: pyproject.toml | $(VENV)/.base
	@echo "Setting up $(VENV) with NumPy and llvmlite ..."
	@$(PIP) install --quiet --editable .
	@touch $@

# The CPU build of torch carries the local version "+cpu"; where no source that pip knows has it, torch's own index does.
$(VENV)/.dev: $(VENV)/.core
	@echo "Setting up $(VENV) with torch (CPU build) and the development tools ..."
	@$(PIP) install --quiet 'torch==$(TORCH_VERSION)+cpu' 2>/dev/null \
	|| $(PIP) install --quiet --index-url '$(TORCH_INDEX)' 'torch==$(TORCH_VERSION)'
	@$(PIP) install --quiet --editable '.[dev,plot]'
	@touch $@

# flag-gems pins other versions of what is here already; what else it needs is the extra `corpus`.
$(VENV)/.corpus: $(VENV)/.dev
	@echo "Setting up $(VENV) with flag-gems $(FLAG_GEMS_VERSION) ..."
	@$(PIP) install --quiet --editable '.[dev,plot,corpus]'
	@$(PIP) install --quiet --no-deps 'flag-gems==$(FLAG_GEMS_VERSION)'
	@touch $@
