# hutch - a directory for every sandbox.  `make help` lists the targets.
#
#	SAN=1		AddressSanitizer and UBSan, in a build directory of its own
#	WERROR=1	warnings are errors (what CI does)
#	B=DIR		another build directory
#	CC, PKG_CONFIG	for another machine: see CONTRIBUTING.md
#	RUN=EMULATOR	what runs the programs made for another machine
#	PREFIX, DESTDIR	where `make install` puts things
#	ROOMS="base fs"	only these for lint and format
#	T=SECONDS	how long fuzz-NAME runs
#	VM="NAME..."	only these tests in the virtual machine; -v shows their cases
#	SOAK_TESTS="NAME..."	only these tests in soak

VERSION    := 0.1.0
PREFIX     ?= /usr/local
sbindir    ?= $(PREFIX)/sbin
bindir     ?= $(PREFIX)/bin
libexecdir ?= $(PREFIX)/libexec
datadir    ?= $(PREFIX)/share
mandir     ?= $(datadir)/man

B          := build$(if $(SAN),-san)
CFLAGS     ?= $(if $(SAN),-O1,-O2) -g
PKG_CONFIG ?= pkg-config
INSTALL    ?= install
T          ?= 30

# ---- what each program is made of: a line per room ----

base      := $(wildcard base/*.c)
net_link  := $(wildcard net/link/*.c)
agent     := $(wildcard agent/*.c)
agent_lib := $(filter agent/args.c agent/proto.c,$(agent))
sandbox   := $(wildcard sandbox/*.c)
fs        := $(wildcard fs/*.c)
t_hutchd  := $(wildcard $(addprefix tools/,hutchd.c config.c mountpoint.c daemonize.c options.c place.c))
t_hutch   := $(wildcard $(addprefix tools/,hutch.c hutch_*.c options.c place.c table.c tar_*.c pack.c unpack.c))
t_bench   := $(filter-out tools/bench_true.c tools/bench_bare.c,$(wildcard tools/bench_*.c)) tools/options.c
t_unit    := $(wildcard tests/unit/test_*.c)
t_fuzz    := $(wildcard tests/fuzz/fuzz_*.c)

# What a fuzz target may reach besides base: the parsers.
parsers   := $(wildcard tools/tar_read.c fs/ctl_line.c sandbox/request*.c sandbox/spec.c sandbox/env.c agent/proto.c)

hutchd    := $(t_hutchd) $(fs) $(sandbox) $(net_link) $(agent_lib) $(base)
hutch     := $(t_hutch) $(base)
# Process 1 of a sandbox: nothing from base, static, and never sanitized, since
# it has neither /proc nor libraries where it runs.
# Where agent/libc.c knows the machine, without libc, whose start costs more than the agent's.
agent_own_libc := $(filter x86_64 aarch64,$(shell $(CC) -dumpmachine | cut -d- -f1))
hutch_agent := $(filter-out $(agent_lib) $(if $(agent_own_libc),,agent/libc.c),$(agent))

programs  := $B/hutchd $B/hutch-agent $B/hutch
units     := $(t_unit:tests/unit/%.c=$B/unit/%)
replays   := $(t_fuzz:tests/fuzz/fuzz_%.c=$B/fuzz/replay_%)
helpers   := $B/flow $B/park $B/slowfs
benches   := $B/bench/bench $B/bench/bench_true $B/bench/bench_bare

# ---- flags ----

pkgs      := fuse3 libnl-3.0 libnl-route-3.0 libcjson libcap
LIBS      := $(shell $(PKG_CONFIG) --libs $(pkgs))
JSON_LIBS := $(shell $(PKG_CONFIG) --libs libcjson)
# As system headers: their warnings are not ours.
pkg_flags := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(pkgs)))

WARN      := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith \
	     -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wcast-qual -Wswitch-enum \
	     $(if $(WERROR),-Werror)
LANG_C    := -std=gnu17 -D_GNU_SOURCE -I. $(pkg_flags) \
	     -DHUTCH_VERSION=\"$(VERSION)\" -DHUTCH_LIBEXECDIR=\"$(libexecdir)/hutch\"
SANITIZE  := -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all
HARDEN    := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
RELRO     := -Wl,-z,relro,-z,now

C_ALL     := $(LANG_C) $(WARN) -fPIE $(if $(SAN),$(SANITIZE),$(HARDEN)) $(CFLAGS)
C_STATIC  := $(LANG_C) $(WARN) -fno-pie $(HARDEN) -O2 -g
LD_ALL    := -pie $(RELRO) -Wl,--as-needed $(if $(SAN),$(SANITIZE)) $(LDFLAGS)
LD_STATIC := -static -no-pie $(RELRO)

obj       = $(patsubst %.c,$B/%.o,$(1))
static    = $(patsubst %.c,$B/static/%.o,$(1))

.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

# ---- programs ----

all: $(programs) $(helpers) ## hutchd, hutch-agent and hutch (the default)

$B/hutchd: $(call obj,$(hutchd))
	$(CC) $(LD_ALL) $^ -o $@ $(LIBS)
$B/hutch: $(call obj,$(hutch))
	$(CC) $(LD_ALL) $^ -o $@ $(JSON_LIBS)
$B/hutch-agent: $(call static,$(hutch_agent))
	$(CC) $(LD_STATIC) $(if $(agent_own_libc),-nostdlib) $^ -o $@
# What these would need of a libc's start: thread-local storage and checked variants.
# Private, so that $B/flags does not see them.
ifneq ($(agent_own_libc),)
$(call static,$(hutch_agent)): private C_STATIC += -fno-stack-protector -U_FORTIFY_SOURCE \
	-fno-asynchronous-unwind-tables
endif

# A process 1 that breaks its protocol, for a test.
$B/evil-agent: $B/static/tests/evil/agent.o
	$(CC) $(LD_STATIC) $^ -o $@

# What whole-tree tests check streams with, on both sides of the wall.
$B/flow: $B/static/tests/flow.o
	$(CC) $(LD_STATIC) $^ -o $@
# Many readers that wait; for the benchmarks too.
$B/park: $B/static/tests/park.o
	$(CC) $(LD_STATIC) $^ -o $@ -pthread
# A file system with a slow disk, for a test.
$B/slowfs: $(call obj,tests/slow/slowfs.c)
	$(CC) $(LD_ALL) $^ -o $@ $(LIBS)

# The rooms as archives, for tests and benchmarks: each takes what it needs.
$B/lib/base.a:    $(call obj,$(base))
$B/lib/net.a:     $(call obj,$(net_link))
$B/lib/agent.a:   $(call obj,$(agent_lib))
$B/lib/sandbox.a: $(call obj,$(sandbox))
$B/lib/fs.a:      $(call obj,$(fs))
$B/lib/tools.a:   $(call obj,$(filter-out tools/hutchd.c tools/hutch.c,$(t_hutchd) $(t_hutch)))
$B/lib/parsers.a: $(call obj,$(parsers))
$B/lib/%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $(sort $^)

libs      := $(patsubst %,$B/lib/%.a,tools fs sandbox agent net base)
# Tests of base link base only, so that they do not wait for the rest to compile.
base_units := $(filter $(patsubst base/%.c,$B/unit/test_%,$(base)) $B/unit/test_watch \
	      $B/unit/test_list,$(units))

$(base_units): $B/unit/%: $B/tests/unit/%.o $B/lib/base.a
$(filter-out $(base_units),$(units)): $B/unit/%: $B/tests/unit/%.o $(libs)
$B/unit/test_hostile: | $B/evil-agent
$(units):
	@mkdir -p $(@D)
	$(CC) $(LD_ALL) $^ -o $@ $(LIBS)

$(replays): $B/fuzz/replay_%: $B/tests/fuzz/fuzz_%.o $B/tests/fuzz/replay.o $B/lib/parsers.a \
	    $B/lib/base.a
	@mkdir -p $(@D)
	$(CC) $(LD_ALL) $^ -o $@ $(JSON_LIBS)

$B/bench/bench: $(call obj,$(t_bench)) $B/lib/base.a
	@mkdir -p $(@D)
	$(CC) $(LD_ALL) $^ -o $@ $(JSON_LIBS)
$B/bench/bench_true: $B/static/tools/bench_true.o
	@mkdir -p $(@D)
	$(CC) $(LD_STATIC) $^ -o $@

$B/bench/bench_bare: $(call obj,tools/bench_bare.c)
	@mkdir -p $(@D)
	$(CC) $(LD_ALL) $^ -o $@ $(shell $(PKG_CONFIG) --libs fuse3)

$B/static/%.o: %.c $B/flags
	@mkdir -p $(@D)
	$(CC) $(C_STATIC) -MMD -MP -c $< -o $@
$B/%.o: %.c $B/flags
	@mkdir -p $(@D)
	$(CC) $(C_ALL) -MMD -MP -c $< -o $@

# Changes when the flags do, so that everything is built anew.
$B/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(C_ALL) $(C_STATIC)' | cmp -s - $@ || echo '$(CC) $(C_ALL) $(C_STATIC)' > $@
FORCE:

# ---- man pages: what the tables know is filled in ----

pages     := $(wildcard docs/*.[158]) $(patsubst docs/%.in,$B/docs/%,$(wildcard docs/*.in))

$B/manpage: $(call obj,tools/manpage.c) $(libs)
	$(CC) $(LD_ALL) $^ -o $@ $(LIBS)
$B/docs/%: docs/%.in $B/manpage
	@mkdir -p $(@D)
	$(RUN) $B/manpage $< > $@
docs: $(pages) ## the man pages

# ---- tests ----

export UBSAN_OPTIONS ?= print_stacktrace=1

run_unit   = prove -j$(jobs) --exec '$(RUN)' $(units)
run_replay = for r in $(replays); do $(RUN) $$r tests/fuzz/corpus/$${r\#\#*/replay_} || exit 1; done
run_tree   = tests/run $B

# One recipe, so that with -j the parts still come one after the other.
check: all $(units) $(replays) ## unit tests, the fuzz corpus, then as root the whole tree
	$(run_unit)
	@$(run_replay)
	@if [ "$$(id -u)" = 0 ]; then $(run_tree); else echo "not root: no whole-tree tests"; fi

unit: $(units) ## unit tests only
	$(run_unit)

tree: all ## whole-tree tests only: they mount the real daemon
	$(run_tree)

soak: all ## whole-tree tests with bulk data and many rounds: 10 GB through streams
	SOAK=1 TEST_TIMEOUT=1800 $(run_tree) $(SOAK_TESTS)

vm: all $(units) ## tests under Debian 12's kernel and pure cgroup v2, in a virtual machine
	tools/install-packages build test vm guest
	tests/vm/run $(VM) $B

fuzz-replay: $(replays) ## every fuzz target on its corpus, without a fuzzer
	@$(run_replay)

fuzz_list  := $(t_fuzz:tests/fuzz/fuzz_%.c=fuzz-%)
# What the fuzzer finds goes to $B; what is worth keeping is moved to the corpus by hand.
$(fuzz_list): fuzz-%: tests/fuzz/fuzz_%.c ## fuzz-NAME: libFuzzer for T seconds on tests/fuzz/fuzz_NAME.c
	@mkdir -p $B/fuzz/found/$* tests/fuzz/corpus/$*
	clang $(LANG_C) -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		$< $(parsers) $(base) -o $B/fuzz/$* $(JSON_LIBS)
	$B/fuzz/$* -max_total_time=$(T) -artifact_prefix=$B/fuzz/$*- $B/fuzz/found/$* \
		tests/fuzz/corpus/$*

bench: all $(benches) ## the benchmarks, next to their floors and rivals (BENCH=--quick)
	tools/bench $(BENCH) $B

# ---- lint ----

ROOMS     ?= base net agent sandbox fs tools tests
lint_c    := $(foreach r,$(ROOMS),$(wildcard $r/*.c $r/*/*.c))
lint_h    := $(foreach r,$(ROOMS),$(wildcard $r/*.h $r/*/*.h))
jobs      := $(shell nproc)

lint: lint-format lint-includes lint-cppcheck lint-tidy ## clang-format, include direction, cppcheck, clang-tidy

lint-format:
	@clang-format --dry-run -Werror $(lint_c) $(lint_h)
lint-includes:
	@tools/lint-includes
lint-cppcheck:
	@mkdir -p $B/cppcheck
	@cppcheck -q -j$(jobs) --cppcheck-build-dir=$B/cppcheck --std=c11 --language=c \
		--enable=warning,performance,portability --error-exitcode=1 --inline-suppr \
		--suppressions-list=.cppcheck -D__linux__ -D_GNU_SOURCE -I. $(lint_c)
lint-tidy:
	@printf '%s\n' $(lint_c) | xargs -P$(jobs) -I{} sh -c \
		'out=$$(clang-tidy --quiet --warnings-as-errors="*" {} -- $(LANG_C) 2>&1) || \
		{ printf "%s\n" "$$out"; exit 1; }'

format: ## apply .clang-format
	clang-format -i $(lint_c) $(lint_h)

# ---- install ----

completion = $(wildcard tools/completion/$(1))

install: all $(pages) ## into PREFIX (/usr/local), below DESTDIR
	$(INSTALL) -D -m 755 $B/hutchd $(DESTDIR)$(sbindir)/hutchd
	$(INSTALL) -D -m 755 $B/hutch $(DESTDIR)$(bindir)/hutch
	$(INSTALL) -D -m 755 $B/hutch-agent $(DESTDIR)$(libexecdir)/hutch/hutch-agent
	@for page in $(pages); do \
		$(INSTALL) -D -m 644 $$page \
			$(DESTDIR)$(mandir)/man$${page##*.}/$${page##*/} || exit 1; done
	@for f in $(call completion,*.bash); do n=$${f##*/}; $(INSTALL) -D -m 644 $$f \
		$(DESTDIR)$(datadir)/bash-completion/completions/$${n%.bash} || exit 1; done
	@for f in $(call completion,_*); do $(INSTALL) -D -m 644 $$f \
		$(DESTDIR)$(datadir)/zsh/site-functions/$${f##*/} || exit 1; done
	@for f in $(call completion,*.fish); do $(INSTALL) -D -m 644 $$f \
		$(DESTDIR)$(datadir)/fish/vendor_completions.d/$${f##*/} || exit 1; done

clean: ## remove the build directories
	rm -rf build build-san

help: ## this list
	@sed -n -e 's/^\$$(fuzz_list):.*## \([^:]*\): /\1: ## /' \
		-e 's/^\([a-zA-Z-]*\):.*## /\1\t/p' Makefile | \
		while IFS='	' read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done
	@sed -n 's/^#	\([A-Z][^	]*\)	*\(.*\)/  \1: \2/p' Makefile

.PHONY: all check unit tree soak vm fuzz-replay $(fuzz_list) bench docs lint lint-format \
	lint-includes lint-cppcheck lint-tidy format install clean help FORCE

-include $(shell find $B -type f -name '*.d' 2>/dev/null)
