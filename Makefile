# `make` lists the targets.

TARGET := $(or $(CARGO_TARGET_DIR),target)
IODYNO := $(TARGET)/release/iodyno
STATIC := $(shell uname -m)-unknown-linux-musl
DENY := 0.20.2
MDBOOK := 0.5.4
PREFIX := /usr/local
LINKS := $(PREFIX)/libexec/iodyno
# A shell that was started before Rust was installed does not have it.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: help build install install-links guest-kernel guest-zfs demo test test-long interleavings check deny static book bench

help:
	@echo "make build       build $(IODYNO)"
	@echo "make install     install the built program, its manual pages and completions below PREFIX ($(PREFIX)),"
	@echo "                 and the program of \`make static\`, if it was built, for nodes of other hosts"
	@echo "make install-links  make links named fio, sysbench and virtiofsd to it in LINKS ($(LINKS))"
	@echo "make guest-kernel  fetch Debian's kernel for virtual machines into the cache of this user"
	@echo "make guest-zfs   build OpenZFS for it, from Debian's sources; takes some minutes"
	@echo "make demo        build it and compare reads one and sixteen at a time"
	@echo "make test        run all tests; as root, or with INSTALL=1, install the tools they need first"
	@echo "make test-long   run the tests that take minutes: resuming killed runs, simulated verdicts, losses of power"
	@echo "make check       run all checks of .ci/run: formatting, lints, dependencies, all tests"
	@echo "make deny        check licences, sources and duplicates of dependencies"
	@echo "make static      build one file for any Linux guest, in $(TARGET)/$(STATIC)/release"
	@echo "make interleavings  check what threads of a mirror share without locks, by loom (a part of test-long)"
	@echo "make book        build the documentation as a book, in $(TARGET)/book"
	@echo "make bench       measure the cost of statistics, storing, judging and of an op; compare with fio, pebble and"
	@echo "                 sysbench where they are installed (FIO=PATH, PEBBLE=PATH, SYSBENCH=PATH select them)"

build:
	cargo build --release --locked $$(.ci/features)

# Without building, so that root does not compile: run `make build` first.
install:
	install -D -m 755 $(IODYNO) $(DESTDIR)$(PREFIX)/bin/iodyno
	$(IODYNO) man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(IODYNO) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/iodyno
# What `make static` has built is copied to nodes without iodyno.
	if [ -f $(TARGET)/$(STATIC)/release/iodyno ]; then install -D -m 755 $(TARGET)/$(STATIC)/release/iodyno \
	  $(DESTDIR)$(PREFIX)/libexec/iodyno/$(firstword $(subst -, ,$(STATIC)))/iodyno; fi

# In a folder of their own, so that the real programs stay the default: PATH=$(LINKS):$$PATH selects the links.
install-links:
	install -d $(DESTDIR)$(LINKS)
	ln -s $(PREFIX)/bin/iodyno $(DESTDIR)$(LINKS)/fio
	ln -s $(PREFIX)/bin/iodyno $(DESTDIR)$(LINKS)/sysbench
	ln -s $(PREFIX)/bin/iodyno $(DESTDIR)$(LINKS)/virtiofsd

guest-kernel:
	@.ci/guest-kernel

guest-zfs:
	@.ci/guest-zfs

demo: build
	@experiments/demo $(IODYNO)

test:
	@.ci/test --locked

test-long:
	@.ci/test-long --locked

# What threads of a mirror share without locks, checked by loom.
interleavings:
	@RUSTFLAGS="$(RUSTFLAGS) --cfg loom" cargo test --locked -p iodyno-mirror --lib interleavings

check:
	@.ci/run

# Licences, sources and duplicate versions of the dependencies.
deny:
	@cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny@$(DENY)
	cargo deny --locked check bans licenses sources

# For nodes: without the file server and reports. Links musl and SQLite statically, which needs musl's C compiler. Without debug information the file
# is small enough to copy around.
static:
	@command -v musl-gcc >/dev/null || { \
	  echo "musl-gcc is missing: install it with \`apt-get install musl-tools\`" >&2; exit 1; }
	@rustc --print target-libdir --target $(STATIC) | xargs test -d || rustup target add $(STATIC) || { \
	  echo "Rust's standard library for $(STATIC) is missing: \`rustup target add $(STATIC)\`" >&2; exit 1; }
	CARGO_PROFILE_RELEASE_STRIP=debuginfo cargo build --release --locked -p iodyno --no-default-features --target $(STATIC)
	@echo "static: $(TARGET)/$(STATIC)/release/iodyno"

# Pages with links to one another, from docs/.
book:
	@mdbook --version >/dev/null 2>&1 || cargo install --locked mdbook@$(MDBOOK)
	mdbook build --dest-dir $(abspath $(TARGET))/book
	@echo "book: $(TARGET)/book/index.html"

bench: build
	@cargo bench --locked -q -p iodyno-stats --bench million
	@cargo bench --locked -q -p iodyno-engine --bench look
	@cargo bench --locked -q -p iodyno-engine --bench cost
	@cargo bench --locked -q -p iodyno-telemetry --bench cost
	@cargo bench --locked -q -p iodyno-sim --bench cost
	@cargo bench --locked -q -p iodyno-serve --bench cost
	@cargo bench --locked -q -p iodyno-serve --bench peers
	@cargo bench --locked -q -p iodyno-store --bench cost
	@cargo bench --locked -q -p iodyno-lab --bench nodes
	@cargo bench --locked -q -p iodyno-judge --features testing --bench cost
	@cargo bench --locked -q -p iodyno-import --bench cost
	@benches/against-fio.py $(IODYNO)
	@benches/against-peers.py $(IODYNO)
