/// PostgreSQL URLs, and the options read from connection strings.
#include "postgres/server_address.hpp"
#include "postgres/service_file.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using postgres::parse_url;
using postgres::server_address;

TEST(postgres_url, passes_libpqs_options_on_and_reads_its_own) {
    const auto read = parse_url(
        "POSTGRES://u:p%40w@h1:5433,h2/db?sslmode=require&pool_size=3&locks_table=a.l&"
        "fence_counters_table=a.f&connect_timeout_ms=7&statement_timeout_ms=8&"
        "cleanup_in_is_locked=true&target_session_attrs=read-write");
    EXPECT_EQ(read.connection,
              "postgresql://u:p%40w@h1:5433,h2/db?sslmode=require&target_session_attrs=read-write");
    EXPECT_EQ(read.pool_size, 3U);
    EXPECT_EQ(read.tables.locks, "a.l");
    EXPECT_EQ(read.tables.fence_counters, "a.f");
    EXPECT_EQ(read.connect_timeout, 7ms);
    EXPECT_EQ(read.statement_timeout, 8ms);
    EXPECT_TRUE(read.cleanup_in_is_locked);
}

TEST(postgres_url, that_is_malformed_is_refused_without_being_repeated) {
    for (const std::string url :
         {"postgres:h", "postgres://h?pool_size=0", "postgres://h?pool_size=x",
          "postgres://h?cleanup_in_is_locked=yes", "postgres://h?statement_timeout_ms=-1"}) {
        expect_error(error_code::invalid_argument, [&] { (void)parse_url(url); });
    }
    for (const std::string url : {"postgres://u:hunter2@h?nonsense=1", "postgres://u:hunter2%ZZ@h",
                                  "postgres://[hunter2", "postgres://u:hunter2/x@h/db",
                                  "postgres://u:hunter2@x@h/db", "postgresql://u:x@hunter2/y@h"}) {
        const auto failure = expect_error(error_code::invalid_argument,
                                          [&] { postgres::backend backend(parse_url(url)); });
        EXPECT_EQ(std::string(failure->what()).find("hunter2"), std::string::npos);
    }
}

TEST(postgres_server_address, has_an_entry_for_each_host_with_its_port) {
    const server_address read({.connection = "host=a,b,/run port=1,2,3 password=hunter2"});
    ASSERT_EQ(read.candidates.size(), 3U);
    EXPECT_EQ(read.candidates[1].host, "b");
    EXPECT_EQ(read.candidates[1].port, "2");
    EXPECT_TRUE(read.candidates[1].needs_lookup());
    EXPECT_FALSE(read.candidates[2].needs_lookup());
    EXPECT_EQ(read.server_name, "PostgreSQL at a:1, b:2, /run:3");
    EXPECT_EQ(read.settings.at("password"), "hunter2");
}

TEST(postgres_server_address, shares_one_port_among_all_hosts) {
    const server_address read({.connection = "host=a,b port=7"});
    EXPECT_EQ(read.candidates.at(0).port, "7");
    EXPECT_EQ(read.candidates.at(1).port, "7");
}

TEST(postgres_server_address, does_not_resolve_numeric_addresses) {
    const server_address read({.connection = "host=127.0.0.1,::1,name hostaddr=,,10.0.0.1"});
    for (const auto& each : read.candidates)
        EXPECT_FALSE(each.needs_lookup()) << each.host;
}

TEST(postgres_server_address, prefers_the_connect_timeout_of_the_string) {
    EXPECT_EQ(server_address({.connection = "connect_timeout=3"}).connect_timeout, 3s);
    EXPECT_EQ(server_address({.connection = "connect_timeout=0"}).connect_timeout, 5s);
    expect_error(error_code::invalid_argument,
                 [] { server_address({.connection = "connect_timeout=soon"}); });
}

TEST(postgres_server_address, uses_utf8_whatever_the_string_requests) {
    EXPECT_EQ(
        server_address({.connection = "client_encoding=LATIN1"}).settings.at("client_encoding"),
        "UTF8");
}

TEST(postgres_server_address, requires_a_writable_server_by_default) {
    const auto wanted = [](const std::string& connection) {
        return server_address({.connection = connection}).settings.at("target_session_attrs");
    };
    EXPECT_EQ(wanted("host=a"), "read-write");
    EXPECT_EQ(wanted("host=a target_session_attrs=any"), "any");
    ASSERT_EQ(::setenv("PGTARGETSESSIONATTRS", "any", 1), 0);
    EXPECT_FALSE(
        server_address({.connection = "host=a"}).settings.contains("target_session_attrs"));
    ASSERT_EQ(::unsetenv("PGTARGETSESSIONATTRS"), 0);
}

TEST(postgres_server_address, by_service_has_the_hosts_of_the_service_file) {
    const service_file file(
        "[main]\nhost=a.example,b.example\nport=7,8\nuser=u\npassword=secret\n");
    const auto expect_hosts_of = [](const server_address& read) {
        ASSERT_EQ(read.candidates.size(), 2U);
        EXPECT_EQ(read.candidates[0].host, "a.example");
        EXPECT_EQ(read.candidates[1].port, "8");
        EXPECT_TRUE(read.candidates[0].needs_lookup());
        EXPECT_EQ(read.server_name, "PostgreSQL at a.example:7, b.example:8");
    };
    expect_hosts_of(server_address({.connection = "service=main"}));
    expect_hosts_of(server_address({.connection = "postgres://?service=main"}));
    const server_address other({.connection = "service=main host=c.example port=9"});
    EXPECT_EQ(other.server_name, "PostgreSQL at c.example:9");
    ASSERT_EQ(::setenv("PGSERVICE", "main", 1), 0);
    expect_hosts_of(server_address({.connection = "dbname=d"}));
}

TEST(postgres_server_address, by_service_requires_a_writable_server_by_default) {
    const service_file file("[main]\nhost=a\n[second]\nhost=a\ntarget_session_attrs=standby\n");
    const auto wanted = [](const std::string& connection) {
        const auto settings = server_address({.connection = connection}).settings;
        const auto found = settings.find("target_session_attrs");
        return found == settings.end() ? "the service's" : found->second;
    };
    EXPECT_EQ(wanted("service=main"), "read-write");
    EXPECT_EQ(wanted("service=main target_session_attrs=any"), "any");
    EXPECT_EQ(wanted("service=second"), "the service's");
    ASSERT_EQ(::setenv("PGSERVICE", "main", 1), 0);
    EXPECT_EQ(wanted(""), "read-write");
    ASSERT_EQ(::setenv("PGSERVICE", "second", 1), 0);
    EXPECT_EQ(wanted(""), "the service's");
}

TEST(postgres_server_address, by_an_unknown_service_is_refused) {
    const service_file file("[main]\nhost=a\n");
    const auto expect_refused = [](const std::string& connection) {
        const auto failure = expect_error(error_code::invalid_argument,
                                          [&] { server_address({.connection = connection}); });
        ASSERT_TRUE(failure);
        EXPECT_NE(std::string(failure->what()).find("absent"), std::string::npos);
        EXPECT_EQ(std::string(failure->what()).find("hunter2"), std::string::npos);
    };
    expect_refused("service=absent password=hunter2");
    ASSERT_EQ(::setenv("PGSERVICE", "absent", 1), 0);
    expect_refused("password=hunter2");
}

TEST(postgres_server_address, refuses_numbers_of_hosts_and_ports_that_do_not_match) {
    expect_error(error_code::invalid_argument,
                 [] { server_address({.connection = "host=a,b port=1,2,3"}); });
}

TEST(postgres_options, that_cannot_be_used_are_refused_at_once) {
    const auto refused = [](postgres::options store) {
        expect_error(error_code::invalid_argument,
                     [&] { postgres::backend backend(std::move(store)); });
    };
    refused({.connection = {}, .tables = {}, .pool_size = 0});
    refused({.connection = {}, .tables = {}, .pool_size = 101});
    refused({.connection = {}, .tables = {}, .pool_size = 1, .connect_timeout = 0ms});
    refused({.connection = "no connection string"});
    refused({.connection = std::string("host=a\0b", 8)});
}

}  // namespace
}  // namespace syncguard::test
