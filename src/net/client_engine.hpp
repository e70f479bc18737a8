/// What engines that ask a server have in common: both doors, the end, and forks.
#pragma once

#include "util/fork_guard.hpp"

#include <syncguard/engine.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace syncguard::net {

/// `Client` takes operations, a `LockOperation` is a request on its way through it.
template <class Client, class LockOperation>
class client_engine : public engine, private fork_participant {
  public:
    ~client_engine() override {
        fork_guard::remove(*this);
        client_->end(farewell);
    }

    [[nodiscard]] std::shared_ptr<const void> reserve_io_thread() final {
        const auto client = client_;
        client->driver().reserve_for_own_thread();
        const auto unreserve = [client](const void*) { client->driver().unreserve(); };
        return {client.get(), unreserve};
    }

    [[nodiscard]] outcome perform(const request& what, const call_limits& limits) final {
        const auto call = make_operation(what, limits, nullptr);
        call->watch_for_stop(limits.stop);
        try {
            client_->perform(call);
        } catch (...) {
            client_->cancel(call);
            call->abandon();
            throw;
        }
        return call->result();
    }

    void start(const request& what, const call_limits& limits, completion done) noexcept final {
        try {
            const auto call = make_operation(what, limits, done);
            call->watch_for_stop(limits.stop);
            client_->start(call);
        } catch (...) {
            done(std::current_exception(), {});
        }
    }

  protected:
    /// `make_client` lives as long as the engine.
    explicit client_engine(std::function<std::shared_ptr<Client>()> make_client)
        : make_client_(std::move(make_client)), client_(make_client_()) {
        fork_guard::add(*this);
    }

    [[nodiscard]] const std::shared_ptr<Client>& client() const noexcept { return client_; }

    /// `done` is empty for a caller who waits and then asks for the result.
    [[nodiscard]] virtual std::shared_ptr<LockOperation> make_operation(const request& what,
                                                                        const call_limits& limits,
                                                                        completion done) = 0;

  private:
    /// How long the end may take for releases that are still to be made.
    static constexpr milliseconds farewell{1'000};

    // A child would read the answers meant for its parent: it gets a client of its own.
    void before_fork() override { client_->sockets().before_fork(); }
    void after_fork_in_parent() override { client_->sockets().after_fork_in_parent(); }
    void after_fork_in_child() override {
        client_->sockets().after_fork_in_child();
        // Threads of the parent may have been inside: what they left is never destroyed.
        static auto* const left_behind = new std::vector<std::shared_ptr<Client>>;
        left_behind->push_back(std::move(client_));
        client_ = make_client_();
    }

    const std::function<std::shared_ptr<Client>()> make_client_;
    std::shared_ptr<Client> client_;
};

}  // namespace syncguard::net
