# edgegpt for its developers. Needs Python 3.10 or newer and make; all else goes into .venv.

PYTHON ?= python3
# An index with CPU builds of torch, where pip's own has only CUDA ones (several GB).
TORCH_INDEX ?=
# More words for pytest, as in `make test ARGS="-m 'not slow' -k tokenizer"`.
ARGS ?=

STAMP := .venv/.edgegpt-is-set-up
PIP := .venv/bin/python -m pip --disable-pip-version-check
TORCH := $(shell sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 14
	@echo
	@echo "Variables: PYTHON=python3.12 (interpreter for .venv), TORCH_INDEX=URL (index with CPU builds"
	@echo "of torch, where pip's own has only CUDA ones), ARGS=\"...\" (more arguments for pytest)."

setup: $(STAMP)  ## prepare .venv; done once, then a second

demo: setup  ## the main job on the checkpoint in this repository: export, verify, answer
	.venv/bin/python examples/demo.py

test: setup  ## all tests, the slow ones too
	.venv/bin/pytest $(ARGS)

lint: setup  ## ruff, its formatter, and mypy
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

clean:  ## remove caches and builds; .venv stays
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find edgegpt export tests benchmarks examples -name __pycache__ -prune -exec rm -r {} +

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) > /dev/null || \
	  { echo "There is no '$(PYTHON)' here; edgegpt needs Python 3.10 or newer: make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "edgegpt needs Python 3.10 or newer and '$(PYTHON)' is $$($(PYTHON) -V 2>&1): make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || \
	  { echo "'$(PYTHON)' lacks the venv module; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@
