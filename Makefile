# Each target sets up what it needs first.
HPARAMS ?= dqn_cartpole
OUTPUT_DIR ?= runs/$(HPARAMS)
SYS ?= local
TEST_EPISODES ?= 20
ARGS ?=

RUN = ./setup.sh
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Bytecode is kept, whatever the machine's default: these commands start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lock train test test-all torture lint format docs bench

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## */  make \1\t/p' Makefile | expand -t 18

setup:  ## the environment .venv
	@$(RUN)

lock:  ## requirements.lock after a change of requirements; ARGS=--upgrade: the newest of everything
	@$(RUN) --lock $(ARGS)

train:  ## train HPARAMS (dqn_cartpole) into OUTPUT_DIR; more flags in ARGS
	@$(RUN) python train.py --sys $(SYS) --hparams $(HPARAMS) --output_dir $(OUTPUT_DIR) \
		--test_episodes $(TEST_EPISODES) $(ARGS)

test:  ## all tests but the slow ones
	@$(RUN) python -m pytest -q -n 2 --dist worksteal -m "not slow" $(ARGS)

test-all:  ## all tests
	@$(RUN) python -m pytest -q -n 2 --dist worksteal $(ARGS)

torture:  ## faults of all kinds done to small runs, hours; goes on where it ended: ARGS="--kinds ... --faults N"
	@$(RUN) python benchmarks/torture.py $(ARGS)

lint:  ## style, formatting, types, lengths and docstrings, arrows among imports, pages
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy rl k8s tools
	@$(RUN) python tools/check_files.py
	@$(RUN) python tools/check_imports.py
	@$(RUN) python docs/algos/generate.py --check

format:  ## rewrite the files in the project's style
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

docs:  ## the site of all pages, in build/docs
	@NO_MKDOCS_2_WARNING=1 $(RUN) python -m mkdocs build --strict

bench:  ## speed beside other libraries: ARGS="--purejaxrl PATH --cleanrl PATH", see benchmarks/README.md
	@$(RUN) python benchmarks/bench.py $(ARGS)
