# edgegpt for its developers. Needs Python 3.10 or newer and make; all else goes into .venv.

PYTHON ?= python3
# An index with CPU builds of torch, where pip's own has only CUDA ones (several GB).
TORCH_INDEX ?=
# More arguments for pytest or benchmarks/peers.py, as in `make test ARGS="-m 'not slow' -k tokenizer"`.
ARGS ?=

STAMP := .venv/.edgegpt-is-set-up
PIP := .venv/bin/python -m pip --disable-pip-version-check
TORCH := $(shell sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints.txt)

# $(call step,NAME,WHAT) COMMAND: run it quietly; its output goes to runs/setup/NAME.log.
step = @tools/step runs/setup/$(1).log "$(2)"

.DEFAULT_GOAL := help
.PHONY: help setup ros demo test test-budget test-ros dist-test rover-file peers docs lint clean

# $(call if-ros,WHAT,COMMAND): COMMAND, or a message that WHAT is left out where ROS 2 cannot be built.
if-ros = $(PYTHON) ros2_ws/make_ros.py; code=$$?; \
	if [ $$code = 3 ]; then echo "Left out: $(1), see above."; exit 0; fi; [ $$code = 0 ] || exit $$code; $(2)

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18
	@echo
	@echo "Variables: PYTHON=python3.12 (interpreter for .venv), TORCH_INDEX=URL (index with CPU builds"
	@echo "of torch, where pip's own has only CUDA ones), ARGS=\"...\" (arguments for pytest or peers.py)."

setup: $(STAMP)  ## prepare .venv; done once

ros:  ## ROS 2 Jazzy from pip into .venv-ros, and the packages of ros2_ws; done once
	@$(PYTHON) ros2_ws/make_ros.py

demo: setup  ## rover, the checkpoint of this repository: export, verify, answer, serve over ROS 2
	@.venv/bin/python examples/demo.py
	@$(call if-ros,examples/ros_demo.py,ros2_ws/run -- python examples/ros_demo.py runs/demo/rover.onnx)

test: setup  ## all tests, the slow ones too, the budget, and those of ROS 2
	tools/run-tests .venv/bin/pytest $(ARGS)
	@$(if $(ARGS),echo "Left out for ARGS: make test-budget test-ros",$(MAKE) --no-print-directory test-budget test-ros)

test-budget: rover-file  ## the shipped model against configs/budgets/ci.yaml, one process after another
	.venv/bin/pytest configs/budgets/ci.yaml --edgegpt-model runs/test/rover.onnx \
	  --edgegpt-budget configs/budgets/ci.yaml --edgegpt-checkpoint checkpoints/rover

test-ros: setup  ## the tests of ROS 2 alone
	@$(call if-ros,tests/ros,ros2_ws/run -- tools/run-tests pytest tests/ros)

dist-test: rover-file  ## build wheel and sdist, and use each in an environment without the extras
	.venv/bin/python tools/dist_test.py runs/test/rover.onnx

rover-file: setup
	@mkdir -p runs/test
	.venv/bin/edgegpt export checkpoints/rover --out runs/test/rover.onnx

peers:  ## compare edgegpt with other engines, in .venv-peers; one of them compiles for eight minutes
	@$(PYTHON) benchmarks/peer/install.py $(if $(TORCH_INDEX),--torch-index $(TORCH_INDEX))
	.venv-peers/bin/python benchmarks/peers.py $(ARGS)

docs: setup  ## the documentation site into runs/site; a broken link or a missing page fails
	@.venv/bin/python -c 'import material, mkdocstrings' 2> /dev/null || $(PIP) install -q -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build -q

lint: setup  ## ruff, its formatter, and mypy
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy tools

clean:  ## remove caches and builds; .venv stays
	rm -rf ros2_ws/build ros2_ws/install ros2_ws/log build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find edgegpt export tests benchmarks examples -name __pycache__ -prune -exec rm -r {} +

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) > /dev/null || \
	  { echo "There is no '$(PYTHON)' here; edgegpt needs Python 3.10 or newer: make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "edgegpt needs Python 3.10 or newer and '$(PYTHON)' is $$($(PYTHON) -V 2>&1): make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || \
	  { echo "'$(PYTHON)' lacks the venv module; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Setting up .venv: two minutes, 350 MB to download, 1.6 GB on disk. ROS 2, where a target needs it,"
	@echo "goes into .venv-ros: two minutes, 110 MB to download, 0.5 GB on disk."
	$(call step,venv,Python environment) $(PYTHON) -m venv .venv
	$(call step,torch,PyTorch) $(PIP) install -c constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	$(call step,edgegpt,edgegpt and the tools of its developers) $(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@
