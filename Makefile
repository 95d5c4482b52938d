# SPDX-License-Identifier: Apache-2.0
# A thin front for cmake and ctest. Everything made goes to build/; DPMF_ALL=1 adds the optional test builds and parts.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export JOBS
MAKEFLAGS += --no-print-directory

presets := release
long_presets := release-long asan-long
ifeq ($(DPMF_ALL),1)
presets += asan tsan
parts += scripts/test_python.sh scripts/test_frameworks.sh scripts/test_aarch64.sh scripts/build_wheels.sh scripts/test_readme.sh
long_presets += libfuzzer-long
endif

.PHONY: build test test-python test-long demo reproduce bench docs install format clean

build:
	@scripts/install_dependencies.sh build
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target dpmf_products

test:
	@scripts/install_dependencies.sh test
	@status=0; scripts/run_tests.sh $(presets) || status=1; \
	for part in $(parts); do echo "== $$part"; $$part || status=1; done; exit $$status

test-python:
	@scripts/test_python.sh

test-long:
	@DPMF_CLANG=1 scripts/install_dependencies.sh test
	@scripts/run_tests.sh $(long_presets)
ifeq ($(DPMF_ALL),1)
	@DPMF_LONG=1 scripts/test_python.sh
endif

demo:
	@scripts/install_dependencies.sh demo
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target dpmf_program
	@scripts/demo.sh build/dpmf build/demo

reproduce:
	@scripts/install_dependencies.sh build
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target dpmf_program
	@papers/reproduce.py $(or $(TABLE),all)

bench: build
	@cmake --build --preset release --parallel $(JOBS) --target bench
	@for program in build/bench/bench_*; do if [ -x "$$program" ]; then "$$program" || exit 1; fi; done

docs: build
	@scripts/test_python.sh --reference
	@scripts/build_site.sh build/dpmf

install: build
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

format:
	@scripts/install_dependencies.sh test
	@scripts/check_format.sh --fix

clean:
	rm -rf build
