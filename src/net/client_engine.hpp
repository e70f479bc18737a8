/// Base class of the networked engines: blocking and asynchronous calls, shutdown, and forks.
#pragma once

#include "util/fork_guard.hpp"

#include <syncguard/engine.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace syncguard::net {

/// `Client` executes operations; a `LockOperation` is a request on its way through the client.
template <class Client, class LockOperation>
class client_engine : public engine, private fork_participant {
  public:
    ~client_engine() override {
        fork_guard::remove(*this);
        client_->shutdown(shutdown_grace);
    }

    [[nodiscard]] std::shared_ptr<const void> reserve_io_thread() final {
        const auto client = client_;
        client->loop().reserve_for_own_thread();
        const auto unreserve = [client](const void*) { client->loop().unreserve(); };
        return {client.get(), unreserve};
    }

    [[nodiscard]] outcome execute(const request& req, const call_limits& limits) final {
        const auto op = make_operation(req, limits, nullptr);
        op->watch_for_stop(limits.stop);
        try {
            client_->execute(op);
        } catch (...) {
            client_->cancel(op);
            op->detach_caller();
            throw;
        }
        return op->result();
    }

    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept final {
        try {
            const auto op = make_operation(req, limits, handler);
            op->watch_for_stop(limits.stop);
            client_->submit(op);
        } catch (...) {
            handler(std::current_exception(), {});
        }
    }

  protected:
    /// `make_client` lives as long as the engine.
    explicit client_engine(std::function<std::shared_ptr<Client>()> make_client)
        : make_client_(std::move(make_client)), client_(make_client_()) {
        fork_guard::add(*this);
    }

    [[nodiscard]] const std::shared_ptr<Client>& client() const noexcept { return client_; }

    /// `handler` is empty for a blocking caller, who then asks for the result.
    [[nodiscard]] virtual std::shared_ptr<LockOperation> make_operation(const request& req,
                                                                        const call_limits& limits,
                                                                        completion handler) = 0;

  private:
    /// How long the destructor waits for background releases.
    static constexpr milliseconds shutdown_grace{1'000};

    // A child would read answers that belong to its parent, so it gets a new client.
    void before_fork() override { client_->sockets().before_fork(); }
    void after_fork_in_parent() override { client_->sockets().after_fork_in_parent(); }
    void after_fork_in_child() override {
        client_->sockets().after_fork_in_child();
        // Threads of the parent may have been using the old client, so it is never destroyed.
        static auto* const leaked_after_fork = new std::vector<std::shared_ptr<Client>>;
        leaked_after_fork->push_back(std::move(client_));
        client_ = make_client_();
    }

    const std::function<std::shared_ptr<Client>()> make_client_;
    std::shared_ptr<Client> client_;
};

}  // namespace syncguard::net
