# Every target sets up what it needs in .venv: `make demo` and `make test` work on a fresh clone.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow sanitize lint format docs bench clean

demo: .venv/installed
	$(BIN)/hnca demo

test: .venv/installed
	$(BIN)/python -m pytest

# What takes longer than a change should wait for.
test-slow: .venv/installed
	$(BIN)/python -m pytest -m slow
	$(BIN)/python tests/mutants.py
	$(BIN)/python tests/faults.py

# The native kernel under the address, undefined-behaviour and thread sanitizers; test-slow has it too.
sanitize: .venv/installed
	$(BIN)/python -m pytest -m slow tests/test_native.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/installed: pyproject.toml constraints.txt hatch_build.py src/hnca/kernels/native/bernoulli.cc
	$(PYTHON) -c "import sys; sys.exit('hnca needs Python 3.11 or newer') if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The site, in docs/_build/html: open index.html.
docs: .venv/installed
	$(BIN)/python docs/notebooks.py
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html

# All of them, and failure at the end if one has missed its bar.
BENCHMARKS := step_time baselines_time conv_time trace_time epoch_time report_time sweep_time
bench: .venv/installed
	@missed=0; for name in $(BENCHMARKS); do \
	    $(BIN)/python benchmarks/$$name.py || missed=1; \
	done; exit $$missed

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis docs/_build docs/_generated
