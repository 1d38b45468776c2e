# make demo   a server, a client and a host beyond it in namespaces, measured and removed again: OpenVPN, WireGuard, then IPsec
# make check  what takes no root, no network and, once all is compiled, a few minutes: format, lints, unit and machine tests
# make test   everything that is checked before a change lands
# make test-long   what takes longer: tests of many more cases, more seeds of the simulator, a minute for each fuzz target
# make deb    packages in target/packages (also: make rpm, make tarball); make test-packages tries the debs on fresh systems
# make test-networkmanager   eight profiles in NetworkManager, with OpenVPN and with adit
# All but `make check` install what they need (scripts/install-deps). The namespaces need root: scripts/as-root uses sudo where you are not root.

CARGO ?= cargo
AS_ROOT := $(CURDIR)/scripts/as-root
# Test programs run as root, the compiler does not.
RUN_TESTS := env $(LINTING) $(CARGO) test --locked --config 'target."cfg(all())".runner = "$(AS_ROOT)"'

PACKAGES := deb rpm tarball
.PHONY: help check test test-long demo $(PACKAGES) test-packages test-networkmanager build fmt-check lint deny fuzz-run miri unit \
	build-tests run-tests timed-tests computing-tests doc deps check-deps demo-deps lab-peers

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

# What is tested is compiled once, and linted and documented by the way: `make lint doc` would compile all dependencies again.
CHECKED := RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/compile-and-check CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
test: deps fmt-check deny
	@$(MAKE) unit LINTING="$(CHECKED)"
	@$(MAKE) fuzz-run miri

# Crates that do no I/O: those without a clippy.toml of their own (CONTRIBUTING.md). Their tests are machine tests.
CRATES := $(patsubst %/Cargo.toml,%,$(wildcard crates/*/Cargo.toml crates/*/*/Cargo.toml))
PURE := $(filter-out $(patsubst %/clippy.toml,%,$(wildcard $(addsuffix /clippy.toml,$(CRATES)))),$(CRATES))
# These compute for minutes: a crate, and files of tests.
LONGER_CRATES := adit-sim
LONGER_TESTS := flood
MACHINE_TESTS := $(foreach crate,$(filter-out $(patsubst adit-%,crates/%,$(LONGER_CRATES)),$(PURE)),$(patsubst %.rs,%,$(notdir $(wildcard $(crate)/tests/*.rs))) \
	$(notdir $(patsubst %/main.rs,%,$(wildcard $(crate)/tests/*/main.rs))))
# Those that read pages and manifests.
READING_TESTS := circles commands pages dependencies
# `adit-auth` is linked with libpam.
WITHOUT := $(addprefix --exclude ,$(LONGER_CRATES) $(if $(wildcard /usr/include/security/pam_appl.h),,adit-auth))
# What needs root among unit tests says so and passes.
check: fmt-check
	env $(CHECKED) $(CARGO) test --locked --workspace $(WITHOUT) --no-fail-fast --lib --bins \
		$(addprefix --test ,$(filter-out $(LONGER_TESTS),$(sort $(MACHINE_TESTS))) $(READING_TESTS))

# Long tests stand in modules called `long`, and are ignored otherwise: each has a short one beside it.
SEEDS ?= 0..20000
test-long: deps check-deps
	@$(MAKE) build-tests
	CI=true $(RUN_TESTS) --no-fail-fast --workspace -- --ignored long::
	$(CARGO) run --release --locked -p adit-sim -- --seeds $(SEEDS)
	@$(MAKE) fuzz-run FUZZ_SECONDS=60

demo: demo-deps build
	@echo OpenVPN:
	@$(AS_ROOT) target/release/adit-lab demo
	@echo; echo WireGuard:
	@$(AS_ROOT) target/release/adit-lab demo --wireguard
	@echo; echo IPsec:
	@$(AS_ROOT) target/release/adit-lab demo --ipsec

$(PACKAGES):
	@scripts/install-deps $@
	scripts/make-packages $@

# Too slow for every change: it makes two systems from Debian's archive. As root.
test-packages: deb
	@scripts/install-deps package-test
	lintian --fail-on error target/packages/*.deb
	$(AS_ROOT) scripts/test-packages

# Some minutes. NetworkManager and its plugin are those of this system's Debian, which are unpacked for it and not installed.
test-networkmanager:
	@scripts/install-deps networkmanager
	$(CARGO) build --locked -p adit
	$(AS_ROOT) scripts/networkmanager-profiles /usr/sbin/openvpn target/debug/adit

build:
	$(CARGO) build --release --locked -p adit -p adit-lab

fmt-check:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Licences, banned crates and where crates come from: deny.toml. What fuzzing adds is not shipped: its licences are left out.
DENY := PATH="$(CURDIR)/target/tools/bin:$$PATH" $(CARGO) deny --locked
deny: check-deps
	@$(DENY) check bans licenses sources
	@$(DENY) --manifest-path fuzz/Cargo.toml --config deny.toml check bans sources

# Each target for this long, after the tests: their dependencies serve it.
FUZZ_SECONDS ?= 1
fuzz-run: check-deps
	@FUZZ_BUILD=quick scripts/fuzz-smoke $(FUZZ_SECONDS)

# Where there is no Miri (exit 3), that is said and all goes on.
miri:
	@scripts/miri; status=$$?; [ $$status -eq 0 ] || [ $$status -eq 3 ]

# CI=true: skip none. scripts/run-tests runs a few failed tests once more and names those that passed only then.
TEST := CI=true scripts/run-tests $(RUN_TESTS) --no-fail-fast --workspace
# Tunnels that are watched over several rekeys wait nearly all the time: many of them at once. The other tests of tunnels
# mostly wait: more of them at once than there are processors.
WAITING := handshake::rows:: handshake::pairwise:: peer_access::peers_expire
# What needs a processor for long and no real time fills the pauses of the others, with the least priority.
COMPUTING := seeds_ flood_ simulation:: killed_at_each_write full_disk kernel_peers::
unit: build-tests lab-peers run-tests

build-tests:
	$(RUN_TESTS) --workspace --no-run

run-tests: build-tests lab-peers
	@$(MAKE) -j2 timed-tests computing-tests

timed-tests:
	RUST_TEST_THREADS=16 $(TEST) --test interop -- $(WAITING)
	RUST_TEST_THREADS=6 $(TEST) -- $(addprefix --skip ,$(WAITING) $(COMPUTING))

computing-tests:
	nice -n 19 env $(TEST) --tests -- $(COMPUTING)

doc:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked

# The peers that the lab's test measures: the lab gets them itself.
LAB_PEERS := openvpn-udp,wireguard-go-debian,strongswan,tinc
lab-peers: build-tests
	@$(AS_ROOT) target/debug/adit-lab setup --subjects $(LAB_PEERS)

deps:
	@scripts/install-deps test

check-deps:
	@scripts/install-deps checks

demo-deps:
	@scripts/install-deps demo
