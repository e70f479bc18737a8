/// TLS to a Redis server: works with valid certificates, and fails closed otherwise.
#include "redis/redis_fault.hpp"
#include "support/certificates.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

class redis_tls_test : public testing::TestWithParam<api_form_kind> {
  protected:
    static const certificates& issued() {
        static const certificates all;
        return all;
    }

    [[nodiscard]] static redis_server_options secured(const certificate_files& presented,
                                                      bool clients_need_certificates = false) {
        return {.tls = redis_tls{.certificate = presented.certificate,
                                 .key = presented.key,
                                 .ca = issued().ca(),
                                 .clients_need_certificates = clients_need_certificates}};
    }

    [[nodiscard]] static redis::options trusting(std::uint16_t port,
                                                 const std::string& host = "127.0.0.1") {
        return {.host = host,
                .port = port,
                .tls = redis::tls_options{.ca_file = issued().ca()},
                .password = secret,
                .connect_timeout = 500ms};
    }

    void expect_it_works(const redis::options& options) {
        const any_backend locks = redis::backend(options, quiet());
        auto lease = form_->acquire(locks, "k", {.ttl = 60s}, {});
        ASSERT_TRUE(lease);
        EXPECT_TRUE(form_->extend(*lease, {.ttl = 60s}));
        EXPECT_TRUE(form_->release(*lease));
    }

    /// Expects that operations fail with `code` and a message that contains `hint`.
    void expect_refusal(const redis::options& options, error_code code, const std::string& hint) {
        const any_backend locks = redis::backend(options, quiet());
        for (int i = 0; i < 3; ++i) {
            const auto failure =
                expect_error(code, [&] { (void)form_->acquire(locks, "k", {}, {}); });
            if (!failure) return;
            const std::string text = failure->what();
            EXPECT_NE(text.find(hint), std::string::npos) << text;
            EXPECT_EQ(text.find(secret), std::string::npos) << text;
        }
    }

    static constexpr const char* secret = "sesame-open";
    std::unique_ptr<api_form> form_ = GetParam().make();
};

TEST_P(redis_tls_test, a_valid_certificate_is_accepted_by_name_and_by_address) {
    const redis_server server(secured(issued().server()));
    expect_it_works(trusting(server.tls_port()));
    expect_it_works(trusting(server.tls_port(), "localhost"));
}

TEST_P(redis_tls_test, many_threads_share_one_tls_connection) {
    const redis_server server(secured(issued().server()));
    fault_proxy proxy(server.tls_port());
    const any_backend locks = redis::backend(trusting(proxy.port()), quiet());
    proxy.slice(direction::to_client);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 50; ++i) {
        threads.emplace_back([&, i] {
            const std::string key = "own:" + std::to_string(i);
            for (std::uint64_t round = 1; round <= 10; ++round) {
                auto lease = locks.acquire(key);
                ASSERT_TRUE(lease);
                EXPECT_EQ(lease->fence(), fence::from_counter(round));
                EXPECT_TRUE(lease->release());
            }
        });
    }
    threads.clear();
    EXPECT_EQ(proxy.connections(), 1U);
}

TEST_P(redis_tls_test, invalid_certificates_are_refused) {
    {
        const redis_server server(secured(issued().expired_server()));
        expect_refusal(trusting(server.tls_port()), error_code::auth_failed, "expired");
    }
    {
        const redis_server server(secured(issued().other_host()));
        expect_refusal(trusting(server.tls_port()), error_code::auth_failed, "mismatch");
        expect_refusal(trusting(server.tls_port(), "localhost"), error_code::auth_failed,
                       "mismatch");
    }
    {
        const redis_server server(secured(issued().self_signed()));
        expect_refusal(trusting(server.tls_port()), error_code::auth_failed, "self");
    }
    {
        const redis_server server(secured(issued().server()));
        auto without_our_authority = trusting(server.tls_port());
        without_our_authority.tls->ca_file.clear();
        expect_refusal(without_our_authority, error_code::auth_failed, "certificate");
    }
}

TEST_P(redis_tls_test, nothing_is_sent_to_an_unverified_server) {
    const redis_server server(secured(issued().expired_server()));
    const any_backend locks = redis::backend(trusting(server.tls_port()), quiet());
    EXPECT_THROW((void)form_->acquire(locks, "k", {}, {}), lock_error);
    EXPECT_EQ(server.command({"INFO", "commandstats"}).text.find("cmdstat_hello"),
              std::string::npos);
}

TEST_P(redis_tls_test, a_client_certificate_is_sent_if_the_server_requests_one) {
    const redis_server server(secured(issued().server(), true));
    auto options = trusting(server.tls_port());
    // Repeated, because the server's alert races with the end of the connection.
    for (int i = 0; i < 6; ++i)
        expect_refusal(options, error_code::auth_failed, "certificate");
    options.tls->certificate_file = issued().client().certificate;
    options.tls->private_key_file = issued().client().key;
    expect_it_works(options);
}

TEST_P(redis_tls_test, a_server_without_tls_is_refused) {
    const redis_server server;
    const any_backend locks = redis::backend(trusting(server.port()), quiet());
    for (int i = 0; i < 3; ++i) {
        try {
            (void)form_->acquire(locks, "k", {}, {});
            ADD_FAILURE() << "talked to a server without TLS";
        } catch (const lock_error& failure) {
            // A Redis server may wait for the end of a line and send nothing, or reply with an
            // error.
            EXPECT_TRUE(failure.code() == error_code::service_unavailable ||
                        failure.code() == error_code::network_timeout)
                << failure.what();
        }
    }
    EXPECT_EQ(server.command({"INFO", "commandstats"}).text.find("cmdstat_hello"),
              std::string::npos);
}

TEST_P(redis_tls_test, a_client_without_tls_does_not_hang_on_a_tls_port) {
    const redis_server server(secured(issued().server()));
    const any_backend locks = redis::backend(
        {.host = "127.0.0.1", .port = server.tls_port(), .connect_timeout = 500ms}, quiet());
    EXPECT_LT(time_of([&] { EXPECT_THROW((void)form_->acquire(locks, "k", {}, {}), lock_error); }),
              500ms + margin);
}

TEST_P(redis_tls_test, a_handshake_that_is_cut_fails_the_call_and_not_the_client) {
    const redis_server server(secured(issued().server()));
    fault_proxy proxy(server.tls_port());
    for (const auto way : {direction::to_client, direction::to_server}) {
        std::uint64_t bytes = 0;
        for (; bytes < 20'000; bytes += 1 + bytes / 2) {
            const any_backend locks = redis::backend(trusting(proxy.port()), quiet());
            const auto cuts = proxy.cuts();
            proxy.arm_cut(way, bytes);
            try {
                (void)form_->acquire(locks, "k", {}, {});
            } catch (const lock_error& failure) {
                EXPECT_EQ(failure.code(), error_code::service_unavailable) << failure.what();
            }
            proxy.disarm_cut();
            if (proxy.cuts() == cuts) break;
            // A cut after the last byte may hit this call instead.
            EXPECT_TRUE(eventually([&] {
                try {
                    (void)form_->is_locked(locks, "k", {});
                    return true;
                } catch (const lock_error& failure) {
                    EXPECT_EQ(failure.code(), error_code::service_unavailable) << failure.what();
                    return false;
                }
            })) << bytes;
        }
        EXPECT_GT(bytes, 300U);
    }
}

TEST_P(redis_tls_test, a_stalled_handshake_is_bounded) {
    const redis_server server(secured(issued().server()));
    fault_proxy proxy(server.tls_port());
    proxy.stall(direction::to_client);
    const any_backend locks = redis::backend(trusting(proxy.port()), quiet());
    EXPECT_LT(time_of([&] {
                  expect_error(error_code::network_timeout,
                               [&] { (void)form_->acquire(locks, "k", {}, {}); });
              }),
              500ms + margin);
    proxy.resume(direction::to_client);
    EXPECT_TRUE(form_->acquire(locks, "k", {}, {}));
}

TEST_P(redis_tls_test, a_fork_does_not_depend_on_files_that_were_read_before) {
    const redis_server server(secured(issued().server()));
    const temporary_folder folder;
    const auto copied_ca = folder / "ca.pem";
    std::filesystem::copy_file(issued().ca(), copied_ca);
    auto options = trusting(server.tls_port());
    options.tls->ca_file = copied_ca;
    const any_backend locks = redis::backend(options, quiet());
    {
        auto lease = form_->acquire(locks, "k", {}, {});
        ASSERT_TRUE(lease);
        // Complete all calls before the fork: a sanitizer's allocator does not support a fork
        // during them.
        ASSERT_TRUE(form_->release(*lease).ok);
    }

    child_process heir([&] { return locks.acquire("k") ? 0 : 1; });
    EXPECT_EQ(heir.wait(), 0);

    std::filesystem::remove(copied_ca);
    child_process bystander([] { return 0; });
    EXPECT_EQ(bystander.wait(), 0);
    child_process user([&] {
        for (int i = 0; i < 3; ++i) {
            try {
                (void)locks.acquire("k");
                return 1;
            } catch (const lock_error& failure) {
                if (failure.code() != error_code::invalid_argument) return 2;
            }
        }
        return 0;
    });
    EXPECT_EQ(user.wait(), 0);
    EXPECT_TRUE(form_->acquire(locks, "k", {}, {}));
}

INSTANTIATE_TEST_SUITE_P(all, redis_tls_test, blocking_and_async(), name_of_api_form);

}  // namespace
}  // namespace syncguard::test
