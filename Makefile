# Entry point for developers. Each target does everything it needs, packages included.
#
#   make run     two processes and one lock, on the embedded store
#   make test    build, and run every test
#   make bench   measure, and check the figures against their bars
#   make lint    format, names and clang-tidy
#   make asan    tests under AddressSanitizer and UBSan, those of LABELS or most of them
#   make tsan    tests under ThreadSanitizer, likewise
#   make fuzz    every fuzzer for FUZZ_SECONDS (30), with the same sanitizers as asan

.PHONY: help run test bench lint asan tsan fuzz clean

help:
	@sed -n 's/^#  *\(make .*\)/\1/p' Makefile

run:
	@tools/setup build
	@tools/build release
	@tools/demo build/release/bin/syncguard

test:
	@tools/setup build test
	@tools/build dev all all_verify_interface_header_sets
	@ctest --preset dev --parallel $$(nproc) $(CTEST_FLAGS)

bench:
	@tools/setup build bench
	@tools/build bench
	@for program in build/bench/bin/*_bench; do echo "==> $$program"; $$program || exit 1; done

lint:
	@tools/setup build lint
	@tools/lint

# Labels of the tests to run. ThreadSanitizer finds little in tests where one thread at a time
# queries a server.
asan_labels = unit contract redis redis_fault postgres postgres_fault firestore firestore_fault
tsan_labels = unit contract redis_fault
LABELS ?= $($@_labels)

asan tsan:
	@tools/setup build test
	@tools/build $@ $(LABELS:%=syncguard_%_tests) syncguard_firestore_emulator_daemon
	@ctest --preset $@ --parallel $$(nproc) $(CTEST_FLAGS) -L '^($(shell echo $(LABELS) | tr ' ' '|'))$$'

FUZZ_SECONDS ?= 30

fuzz:
	@tools/setup build fuzz
	@tools/build fuzz
	@tools/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build
