# The front door. Each target does everything it needs, packages included.
#
#   make run     two processes and one lock, on the embedded store
#   make test    build, and run every test
#   make bench   measure, and check the figures against their bars
#   make lint    format and clang-tidy
#   make asan    unit, contract and engine tests under AddressSanitizer and UBSan
#   make tsan    unit, contract and redis_fault tests under ThreadSanitizer
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
	@ctest --preset dev --parallel $$(nproc)

bench:
	@tools/setup build bench
	@tools/build bench
	@for program in build/bench/bin/*_bench; do echo "==> $$program"; $$program || exit 1; done

lint:
	@tools/setup build lint
	@tools/lint

# ThreadSanitizer has little to find where one thread at a time asks a server for its rules.
watched_by_tsan = syncguard_unit_tests syncguard_contract_tests syncguard_redis_fault_tests \
  syncguard_firestore_keeper
watched_by_asan = $(watched_by_tsan) syncguard_redis_tests syncguard_postgres_tests \
  syncguard_postgres_fault_tests syncguard_firestore_tests syncguard_firestore_fault_tests

asan tsan:
	@tools/setup build test
	@tools/build $@ $(watched_by_$@)
	@ctest --preset $@ --parallel $$(nproc)

FUZZ_SECONDS ?= 30

fuzz:
	@tools/setup build fuzz
	@tools/build fuzz
	@tools/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build
