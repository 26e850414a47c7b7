# The commands of the project. Each first makes sure that the Debian packages it needs are there (packages.txt).

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# What `make x264` runs of it: scripts/x264-race --help.
X264 ?= --quick
PRESETS := release asan tsan explore

configure = cmake --preset $(1) $(2) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }
build = $(configure); cmake --build build/$(1) -j $(JOBS)

# A compiler cache, where there is one, serves other clones, too.
ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
endif

help:
	@echo 'make race      weft beside its peers, and inside x264: a few minutes'
	@echo 'make x264      the x264 part of the race alone; X264=--full for all of it'
	@echo 'make hosts     hosts whose source Debian has, stock and with weft: their tests, outputs, memory, speed: an hour or two;'
	@echo '               ROUNDS=0 for outputs and memory alone, some 25 minutes'
	@echo 'make hooks     FFTW, JPEG XL, FFmpeg, OpenBLAS and Blosc2 on their own threads and on weft'
	@echo 'make cluster   the real x264 over ranks and over a chunk queue, kills, three network namespaces with a cut link: some minutes'
	@echo 'make test      every test: release, ASan and UBSan, TSan, schedule explorer'
	@echo 'make docs      the pages, the reference and the manual pages, to build/docs'
	@echo 'make lint      the rules of the code that a script can check'
	@echo 'make format    clang-format over every file'
	@echo 'make timeline-view  a timeline in the Perfetto viewer, in a headless browser (large packages)'
	@echo 'make nightly   random programs, mutants, new seeds, stress, faults, fuzzing: an hour, or NIGHTLY=minutes; GENMC=path'
	@echo 'make fuzz      libFuzzer over what reads text and files, FUZZ=seconds for each target ($(FUZZ))'
	@echo 'make genmc     the small protocols under the model checker GenMC; GENMC=path'
	@echo 'make mutants   weakens each memory order and changes each condition in turn; a check must fail for it (hours; resumes).'
	@echo '               MUTANTS=--changed for what the last commit touches; verify/mutants --help'
	@echo 'make aarch64   the tests on 64-bit Arm, under an emulator'
	@echo 'make clang     the release tests, and those with sanitizers, compiled by clang'
	@echo 'make musl      the library, the C examples and the heap on another C library'
	@echo 'make install   the release build, to PREFIX ($(PREFIX))'
	@echo 'make install-command   the same, with the command weft: doctor, latency, why, race'
	@echo 'make install-machines  the same, with weft chunks and the libraries for loops over several machines (docs/howto/machines.md)'
	@echo 'make clean     removes build/'

build:
	@mkdir -p build

race: build
	@scripts/need build command race x264
	@$(call build,release,-DWEFT_RAYON=ON -DWEFT_TESTS=OFF)
	@build/release/tools/weft race $(RACE)

x264: build
	@scripts/need build x264
	@$(call build,release,-DWEFT_TESTS=OFF) --target weft_static
	@scripts/x264-race $(X264)

# What `make hosts` runs: scripts/host --help. HOSTS="libvmaf=DIR oai=DIR" names trees. ROUNDS are the turns of each case; 0: outputs and
# memory alone.
HOSTS ?= --all
ROUNDS ?= 7

hosts: build
	@scripts/need build x264 libvmaf hosts
	@$(call build,release,-DWEFT_TESTS=OFF) --target weft_static
	@scripts/host --rounds $(ROUNDS) $(HOSTS)

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

# What `make cluster` runs: scripts/cluster --help. The namespaces need root.
CLUSTER ?=

cluster: build
	@scripts/need build test mpi cluster
	@$(call build,release)
	@scripts/cluster $(CLUSTER)

test: build
	@scripts/need build test mpi
	@JOBS=$(JOBS) scripts/build $(PRESETS)
	@JOBS=$(JOBS) scripts/test $(PRESETS)

lint: build
	@scripts/need build test lint
	@$(call build,release,--log-level=WARNING)
	@$(call build,abi,--log-level=WARNING) --target weft_shared weft_malloc
	@CC=clang-14 CXX=clang++-14 cmake --preset dev -B build/lint >build/lint.log 2>&1 || { cat build/lint.log; exit 1; }
	@scripts/lint

format:
	@scripts/need lint
	@git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format-14 -i

# The site: every page as HTML, the reference from the headers (a warning of Doxygen is an error), manual pages.
docs: build
	@scripts/need docs
	@mkdir -p build/docs
	@doxygen docs/reference/Doxyfile
	@scripts/man build/docs/man3
	@scripts/site build/docs
	@scripts/lint links

aarch64: build
	@scripts/need build test aarch64
	@$(call build,aarch64)
	@JOBS=$(JOBS) scripts/test aarch64

# All of the release tests, compiled by clang; then its AddressSanitizer and UndefinedBehaviorSanitizer.
clang: build
	@scripts/need build test clang
	@for preset in release asan; do CC=clang-14 CXX=clang++-14 cmake --preset $$preset -B build/clang-$$preset >build/clang.log 2>&1 \
	    && cmake --build build/clang-$$preset -j $(JOBS) || { cat build/clang.log; exit 1; }; done
	@JOBS=$(JOBS) scripts/test clang-release clang-asan

musl: build
	@scripts/need build musl
	@scripts/musl

timeline-view: build
	@scripts/need build test timeline-view
	@$(call build,release) --target trace_scene
	@scripts/timeline-viewer build/viewer
	@tests/view_trace.py build/release/tests/trace_scene build/viewer build/timeline.png

# Minutes of `make nightly`; seconds of `make fuzz` for each target; GENMC is the path of that model checker.
NIGHTLY ?= 60
FUZZ ?= 60
GENMC ?=

nightly: build
	@scripts/need build test mpi nightly fuzz
	@JOBS=$(JOBS) scripts/build release tsan explore fuzz
	@JOBS=$(JOBS) scripts/nightly --minutes $(NIGHTLY) $(if $(GENMC),--genmc $(GENMC))

fuzz: build
	@scripts/need build fuzz
	@$(call build,fuzz)
	@scripts/fuzz --seconds $(FUZZ)

genmc:
	@verify/genmc/run "$(GENMC)"

mutants: build
	@scripts/need build test mutants
	@$(call build,explore)
	@verify/mutants --jobs $(JOBS) $(MUTANTS)

install: build
	@scripts/need build
	@scripts/need install || echo "install: goes on; without them no manual pages are made, or pkg-config does not find weft" >&2
	@$(call build,release,-DWEFT_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX)) --target weft_shared weft_static weft_malloc weft_malloc_static
	@cmake --install build/release --component library --prefix $(PREFIX)
	@[ "$$(id -u)" != 0 ] || ldconfig

# The command `weft` beside the library: doctor, latency, simulate, why, and the race with the peers that are there.
install-command: install
	@scripts/need build command
	@$(call build,release,-DWEFT_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX))
	@cmake --install build/release --component race --prefix $(PREFIX)

# The libraries of docs/howto/machines.md, libweft-mpi for the MPIs that are there, and the command.
install-machines: install
	@scripts/need build command
	@$(call build,release,-DWEFT_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX))
	@cmake --install build/release --component machines --prefix $(PREFIX)
	@[ "$$(id -u)" != 0 ] || ldconfig

clean:
	rm -rf build

.PHONY: help docs race x264 hosts hooks cluster test lint format timeline-view nightly fuzz genmc mutants aarch64 clang musl install install-command install-machines clean
