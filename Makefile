# Two commands matter:  make demo   sets up and answers a real question.
#                       make test   sets up and runs the tests.
# Both install the pins of constraints.txt into .venv; a second run finds them there.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q install -c constraints.txt
PINS   := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test setup lint types wheel check constraints clean

help:
	@echo "make demo    probe, quick bench and two recommendations on this machine (installs torch, jax, onnxruntime)"
	@echo "make test    set up and run the tests"
	@echo "make check   what .ci/run does: lint, types, tests, wheel"

$(VENV)/.base: $(PINS)
	@echo "[1/4] environment $(VENV): the advisor and its base packages"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

$(VENV)/.frameworks: $(VENV)/.base
	@echo "[2/4] frameworks: torch, jax, onnxruntime (about 1.7 GB, one to three minutes)"
	@$(PIP) -e '.[torch,jax,onnx,calibrate]'
	@$(BIN)/advisor probe --frameworks --json > /dev/null
	@touch $@

$(VENV)/.dev: $(VENV)/.frameworks
	@echo "development tools: pytest, hypothesis, ruff, mypy"
	@$(PIP) -e '.[torch,jax,onnx,postgres,parquet,calibrate,dataload,serve]' pytest pytest-xdist hypothesis httpx ruff mypy types-PyYAML types-psutil build
	@touch $@

demo: $(VENV)/.frameworks
	@echo "[3/4] what is here, and how fast it is"
	@$(BIN)/advisor probe
	@$(BIN)/advisor bench gemm attention bandwidth --quick --backend torch,jax,onnxruntime,numpy --budget 150
	@echo "[4/4] the recommendation: gpt-13b on this machine, then on 64 A100"
	@$(BIN)/advisor recommend --model gpt-13b || test $$? -eq 1
	@$(BIN)/advisor recommend --model gpt-13b --hardware 64xa100-sxm4-80gb --seq 2048 --global-batch 512

setup: $(VENV)/.dev

test: setup
	@$(BIN)/python -m pytest -n 2 $(ARGS)

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy

# The wheel, built from the checkout and used from an empty folder in an environment of its own: what a user installs.
wheel: setup
	@rm -rf build/wheel && mkdir -p build/wheel/empty
	@$(BIN)/python -m build --wheel --outdir build/wheel . > build/wheel/log 2>&1 || { cat build/wheel/log; exit 1; }
	@$(PYTHON) -m venv build/wheel/venv
	@build/wheel/venv/bin/python -m pip --disable-pip-version-check -q install -c constraints.txt build/wheel/*.whl
	@cd build/wheel/empty && export ADVISOR_HOME=$$PWD/home && ../venv/bin/advisor probe --no-save > /dev/null \
	  && ../venv/bin/advisor hardware list > /dev/null && ../venv/bin/advisor db upgrade > /dev/null \
	  && ../venv/bin/advisor recommend --model gpt-13b --hardware 64xa100-sxm4-80gb --seq 2048 --global-batch 512 | head -3
	@echo "wheel: built, installed and used from an empty folder"

check: lint types test wheel

constraints: setup
	@$(BIN)/python -m pip freeze --exclude-editable

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
