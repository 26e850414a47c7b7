# The commands of the project. Each first makes sure that the Debian packages it needs are there (packages.txt).

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# What `make x264` runs of it: scripts/x264-race --help.
X264 ?= --quick
PRESETS := release asan tsan explore

build = cmake --preset $(1) $(2) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }; cmake --build build/$(1) -j $(JOBS)

help:
	@echo 'make race      weft beside its peers, and inside x264: a few minutes'
	@echo 'make x264      the x264 part of the race alone; X264=--full for all of it'
	@echo 'make hooks     FFTW, JPEG XL, FFmpeg, OpenBLAS and Blosc2 on their own threads and on weft'
	@echo 'make test      every test: release, ASan and UBSan, TSan, schedule explorer'
	@echo 'make lint      the rules of the code that a script can check'
	@echo 'make format    clang-format over every file'
	@echo 'make timeline-view  a timeline in the Perfetto viewer, in a headless browser (large packages)'
	@echo 'make mutants   weakens each memory order in turn; a check must fail for it'
	@echo 'make aarch64   the tests on 64-bit Arm, under an emulator'
	@echo 'make install   the release build, to PREFIX ($(PREFIX))'
	@echo 'make clean     removes build/'

build:
	@mkdir -p build

race: build
	@scripts/need build race x264
	@$(call build,release,-DWEFT_RAYON=ON -DWEFT_TESTS=OFF)
	@build/release/tools/weft race $(RACE)

x264: build
	@scripts/need build x264
	@$(call build,release,-DWEFT_TESTS=OFF) --target weft_static
	@scripts/x264-race $(X264)

# Two of the libraries are in no package of Debian 12; wheels carry them, with their headers.
WHEELS := blosc2==4.14.1 scipy-openblas32==0.3.34.481.3
# What runs of it; HOOKS= only compares the outputs.
HOOKS ?= --race

hooks: build
	@scripts/need build test hooks
	@mkdir -p build/wheels
	@python3 -m pip download -q --no-deps --disable-pip-version-check -d build/wheels $(WHEELS)
	@cd build/wheels && for wheel in *.whl; do python3 -m zipfile -e $$wheel .; done
	@$(call build,release) --target hooks
	@build/release/tests/hooks/hooks $(HOOKS)

test: build
	@scripts/need build test
	@for preset in $(PRESETS); do echo "== $$preset"; $(call build,$$preset) || exit 1; done
	@JOBS=$(JOBS) scripts/test $(PRESETS)

lint: build
	@scripts/need build test lint
	@$(call build,release,--log-level=WARNING)
	@CC=clang-14 CXX=clang++-14 cmake --preset dev -B build/lint >build/lint.log 2>&1 || { cat build/lint.log; exit 1; }
	@scripts/lint

format:
	@scripts/need lint
	@git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format-14 -i

aarch64: build
	@scripts/need build test aarch64
	@$(call build,aarch64)
	@JOBS=$(JOBS) scripts/test aarch64

timeline-view: build
	@scripts/need build test timeline-view
	@$(call build,release) --target trace_scene
	@scripts/timeline-viewer build/viewer
	@tests/view_trace.py build/release/tests/trace_scene build/viewer build/timeline.png

mutants: build
	@scripts/need build mutants
	@$(call build,explore)
	@verify/mutants build/explore/verify/explore

install: build
	@scripts/need build
	@$(call build,release,-DWEFT_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX)) --target weft_shared weft_static weft_malloc
	@cmake --install build/release --component library --prefix $(PREFIX)
	@[ "$$(id -u)" != 0 ] || ldconfig

clean:
	rm -rf build

.PHONY: help race x264 hooks test lint format timeline-view mutants aarch64 install clean
