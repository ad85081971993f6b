# Everything a contributor runs. `make test` sets up what it needs, in .venv.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: test check long accept bench demo

test: $(VENV)/ready
	PATH="$(abspath $(BIN)):$$PATH" ./.ci/check

long: $(VENV)/ready
	$(BIN)/python -m pytest -m long -n auto --maxprocesses 4 --dist worksteal

accept: $(VENV)/ready
	$(BIN)/python -m pytest tests/test_pages.py --accept

bench: $(VENV)/ready
	$(BIN)/pip install -q '.[bench]'
	$(BIN)/python benchmarks/run.py

demo: $(VENV)/ready
	$(BIN)/nap demo

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $@
