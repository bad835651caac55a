# make demo, make test: each sets up what is missing, builds what changed, then does its job.
#
#   PYTHON=python3.12     the interpreter for a new .venv
#   VENV=path             another environment (its interpreter must match the build)
#   ARGS="-k sum -x"      more arguments for pytest
#   TORCH_PYTHON=path     a Python with PyTorch, for `make bench`

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
ARGS ?=
CMAKE_ARGS ?=
TORCH_PYTHON ?=

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build demo test test-cpp test-python sanitize bench wheel lint format clean help

BIN := $(abspath $(VENV))/bin
# One build folder an environment: a new .venv with another Python must not reuse the old cache.
BUILD := build/dev
SANITIZE := build/sanitize
export PYTHONPATH := $(CURDIR)

# The environment. The stamp's name carries the checksum of pyproject.toml, so that a checkout
# which merely touches the file installs nothing.
DEPS := $(VENV)/.deps-$(firstword $(shell cksum < pyproject.toml))

$(DEPS):
	@[ -x $(BIN)/python ] || { echo "== Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@echo "== Installing what pyproject.toml asks for"
	@$(BIN)/python tools/requirements.py build run test > $(VENV)/requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt
	@rm -f $(VENV)/.deps-*
	@# Lets $(VENV)/bin/python import the package from anywhere.
	@$(BIN)/python -c 'import sysconfig; open(sysconfig.get_path("purelib") + "/rushlight_dev.pth", "w").write("$(CURDIR)\n")'
	@touch $@

CONFIGURE = PATH="$(BIN):$$PATH" $(BIN)/cmake -S . -G Ninja -DPython_EXECUTABLE=$(BIN)/python \
	-DCMAKE_MAKE_PROGRAM=$(BIN)/ninja -DRUSHLIGHT_TESTS=ON $(CMAKE_ARGS)
# Ninja itself runs CMake again when a CMake file or the list of sources changes.
BUILD_ID := $(BIN) $(CMAKE_ARGS)

build: $(DEPS)
	@if [ "$$(cat $(BUILD)/.configured 2>/dev/null)" != "$(BUILD_ID)" ]; then \
	  rm -rf $(BUILD); mkdir -p $(BUILD); \
	  $(CONFIGURE) -B $(BUILD) -DRUSHLIGHT_INPLACE=ON; \
	  echo "$(BUILD_ID)" > $(BUILD)/.configured; \
	fi
	@$(BIN)/ninja -C $(BUILD) -j$(JOBS)

demo: build
	@$(BIN)/python examples/digits.py

# C++ first: when the core is broken, its own tests say so best.
test: build
	@start=$$SECONDS; $(MAKE) --no-print-directory test-cpp; cpp=$$SECONDS; \
	$(MAKE) --no-print-directory test-python; \
	echo "== C++ tests $$((cpp - start)) s, Python tests $$((SECONDS - cpp)) s"

test-cpp: build
	@$(BIN)/ctest --test-dir $(BUILD) -j$(JOBS) --output-on-failure --no-tests=error

test-python: build
	@$(BIN)/pytest -n $(JOBS) -q tests $(ARGS)

# A second copy of the package in the build folder, under ASan and UBSan. The interpreter is not
# instrumented, so the runtime has to be loaded before it, and its own leaks are not ours to report.
sanitize: $(DEPS)
	@if [ ! -e $(SANITIZE)/.configured ]; then \
	  $(CONFIGURE) -B $(SANITIZE) -DRUSHLIGHT_SANITIZE="address;undefined" -DRUSHLIGHT_DEBUG=ON \
	    -DCMAKE_INSTALL_PREFIX=$(SANITIZE)/site; \
	  touch $(SANITIZE)/.configured; \
	fi
	@$(BIN)/ninja -C $(SANITIZE) -j$(JOBS)
	@rm -rf $(SANITIZE)/site && mkdir -p $(SANITIZE)/site/rushlight
	@tar -C rushlight --exclude='*.so' --exclude=__pycache__ -cf - . | tar -C $(SANITIZE)/site/rushlight -xf -
	@$(BIN)/cmake --install $(SANITIZE) > /dev/null
	@$(BIN)/ctest --test-dir $(SANITIZE) -j$(JOBS) --output-on-failure --no-tests=error
	@runtimes="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libubsan.so)"; \
	code=0; PYTHONPATH=$(CURDIR)/$(SANITIZE)/site LD_PRELOAD="$$runtimes" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
	  $(BIN)/pytest -q -m native tests -p no:cacheprovider $(ARGS) || code=$$?; \
	if [ $$code = 5 ]; then echo "== No test is marked native"; code=0; fi; exit $$code

bench: build
	@for script in benchmarks/bench_*.py; do \
	  [ -e "$$script" ] || { echo "There are no benchmarks"; exit 1; }; \
	  echo "== $$script"; TORCH_PYTHON="$(TORCH_PYTHON)" $(BIN)/python $$script; \
	done

# What `pip install .` would build, without the network; fails when it has grown over 15 MB.
wheel: $(DEPS)
	@rm -rf dist && PATH="$(BIN):$$PATH" $(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps -w dist .
	@for file in dist/*.whl; do \
	  size=$$(wc -c < $$file); echo "== $$file: $$((size / 1000)) kB"; [ $$size -le 15000000 ]; \
	done

$(VENV)/.lint: $(DEPS)
	@$(BIN)/python tools/requirements.py dev > $(VENV)/requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements-dev.txt
	@touch $@

CXX_FILES = $$(git ls-files '*.cpp' '*.h' '*.cu')

lint: $(VENV)/.lint
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)

format: $(VENV)/.lint
	@$(BIN)/ruff check --fix-only --quiet . && $(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $(CXX_FILES)

clean:
	@rm -rf build dist rushlight/*.so rushlight/lib

help:
	@sed -n '1,/^$$/p' Makefile
	@echo "Targets: build demo test test-cpp test-python sanitize bench wheel lint format clean"
