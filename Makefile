# What can be done here: `make` lists it.

TARGET := $(or $(CARGO_TARGET_DIR),target)
IODYNO := $(TARGET)/release/iodyno
STATIC := $(shell uname -m)-unknown-linux-musl
DENY := 0.20.2

.PHONY: help build demo test test-long check deny static bench

help:
	@echo "make build    the program, in $(IODYNO)"
	@echo "make demo     builds it and compares two ways of reading in a scratch folder"
	@echo "make test     all tests; installs the tools they need, where it may"
	@echo "make test-long   campaigns of kills, which take minutes"
	@echo "make check    form, lints, dependencies and tests"
	@echo "make static   one file for any Linux guest, in $(TARGET)/$(STATIC)/release"
	@echo "make bench    what a million numbers, a stored trial, a verdict and what an op costs, beside fio, pebble and"
	@echo "              sysbench where they are installed; FIO=PATH, PEBBLE=PATH and SYSBENCH=PATH choose them"

build:
	cargo build --release --locked

demo: build
	@experiments/demo $(IODYNO)

test:
	@.ci/test --locked

test-long:
	@.ci/test-long --locked

check:
	@.ci/run

# Licences, sources and doubled versions of what iodyno is built from.
deny:
	@cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny@$(DENY)
	cargo deny --locked check bans licenses sources

# The C library is linked in, and with it SQLite's C: musl's own C compiler is needed. Without the
# tables of lines it is a small file to copy.
static:
	@command -v musl-gcc >/dev/null || { \
	  echo "musl-gcc is missing: install it with \`apt-get install musl-tools\`" >&2; exit 1; }
	@rustc --print target-libdir --target $(STATIC) | xargs test -d || rustup target add $(STATIC) || { \
	  echo "Rust's standard library for $(STATIC) is missing: \`rustup target add $(STATIC)\`" >&2; exit 1; }
	CARGO_PROFILE_RELEASE_STRIP=debuginfo cargo build --release --locked --target $(STATIC)
	@echo "static: $(TARGET)/$(STATIC)/release/iodyno"

bench: build
	@cargo bench --locked -q -p iodyno-stats --bench million
	@cargo bench --locked -q -p iodyno-engine --bench look
	@cargo bench --locked -q -p iodyno-telemetry --bench cost
	@cargo bench --locked -q -p iodyno-store --bench cost
	@cargo bench --locked -q -p iodyno-judge --features testing --bench cost
	@cargo bench --locked -q -p iodyno-import --bench cost
	@benches/against-fio.py $(IODYNO)
	@benches/against-peers.py $(IODYNO)
