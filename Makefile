# Worldline's two commands are `make demo` and `make test`. Both set up .venv first.
#
#   PYTHON=python3.12   the Python to set up with (3.11 or newer, with its venv module)
#   INDEX=URL           a package index to search beside pip's own: PyTorch's CPU wheels, a mirror
#   REUSE=1             no download: use the torch, Triton and cuda-core that PYTHON imports
#   MODEL=PATH          make demo: a local model folder or float16 safetensors file
#   ARGS="..."          passed on: to the demo, to pytest, to the bench

PYTHON ?= python3
INDEX ?=
REUSE ?=
MODEL ?=
ARGS ?=

VENV_PYTHON := .venv/bin/python
STAMP := .venv/worldline-setup
SETUP := $(PYTHON) -m tools.setup_env$(if $(filter-out 0,$(REUSE)), --path reuse)$(if $(INDEX), --index '$(INDEX)')

.DEFAULT_GOAL := help
.PHONY: help demo test bench lint setup clean

help:
	@echo 'make demo    split a real model over four ranks and sum through our all-reduce'
	@echo 'make test    ruff, mypy and the tests'
	@echo 'make bench   time the all-reduce algorithms on this machine'
	@echo 'make lint    ruff and mypy alone'
	@echo 'make setup   make .venv again; make clean removes it and all build output'
	@sed -n 's/^#   /  /p' Makefile

demo: $(STAMP)
	$(VENV_PYTHON) -m worldline demo$(if $(MODEL), --model '$(MODEL)')$(if $(ARGS), $(ARGS))

test: lint
	$(VENV_PYTHON) -m pytest$(if $(ARGS), $(ARGS))

bench: $(STAMP)
	$(VENV_PYTHON) -m worldline bench all-reduce$(if $(ARGS), $(ARGS))

lint: $(STAMP)
	$(VENV_PYTHON) -m tools.lint

setup:
	$(SETUP)

# Only what changes the environment: editing the sources needs no new set-up (editable install).
$(STAMP): pyproject.toml constraints.txt tools/setup_env.py tools/download_size.py
	$(SETUP)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
