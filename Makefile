# The front door. Each target does everything it needs, packages included.
#
#   make run     two processes and one lock, on the embedded store
#   make test    build, and run every test
#   make bench   measure, and check the figures against their bars
#   make lint    format and clang-tidy
#   make asan    unit, contract, redis, postgres and fault tests under AddressSanitizer and UBSan
#   make tsan    the same under ThreadSanitizer
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

asan tsan:
	@tools/setup build test
	@tools/build $@ syncguard_unit_tests syncguard_contract_tests syncguard_redis_tests \
	  syncguard_redis_fault_tests syncguard_postgres_tests syncguard_postgres_fault_tests
	@ctest --preset $@ --parallel $$(nproc)

FUZZ_SECONDS ?= 30

fuzz:
	@tools/setup build fuzz
	@tools/build fuzz
	@tools/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build
