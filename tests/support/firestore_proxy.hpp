/// An HTTP proxy to the Firestore emulator that injects faults into single requests.
#pragma once

#include "support/http_server.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace syncguard::test {

/// What happens to one request.
struct request_fault {
    /// Whether the emulator gets it, before anything else happens.
    bool forward = false;
    enum class ending {
        answer,   ///< With this status, and the service's status name in `word`.
        cut,      ///< The connection is closed without an answer.
        stall,    ///< No answer until `resume` is called or the proxy is destroyed.
        hold,     ///< Forwarded when `resume` is called or the proxy is destroyed.
        late,     ///< The connection is closed; `deliver_late` forwards it.
        interim,  ///< The emulator's answer follows an interim response with this status.
    } mode = ending::answer;
    unsigned status = 0;
    std::string word{};
    std::string body{};  ///< Of the answer; if empty, an error with `status` and `word`.
};

/// Forwards requests without a fault unchanged.
class firestore_proxy {
  public:
    explicit firestore_proxy(std::uint16_t emulator_port);
    firestore_proxy(const firestore_proxy&) = delete;
    firestore_proxy& operator=(const firestore_proxy&) = delete;
    ~firestore_proxy();

    /// `host:port`
    [[nodiscard]] std::string host() const;
    [[nodiscard]] const http_server& server() const noexcept { return server_; }

    /// Applies a fault to the next request of this method ("batchGet", "runQuery", "commit").
    /// Several calls queue faults for consecutive requests.
    void fail_next(const std::string& method, const request_fault& fault);
    /// Applies a fault to all requests of this method that have no fault from `fail_next`.
    void fail_all(const std::string& method, const request_fault& fault);
    void resume();
    /// Forwards the requests whose connections were closed (`late`). Returns the statuses of the
    /// emulator's answers.
    std::vector<unsigned> deliver_late();

    /// How many requests of this method arrived, how many of them the emulator has answered, and
    /// how many faults of `fail_next` are left.
    [[nodiscard]] std::size_t requests(const std::string& method) const;
    [[nodiscard]] std::size_t forwarded(const std::string& method) const;
    [[nodiscard]] std::size_t faults_left() const;

  private:
    [[nodiscard]] http_reply answer(const http_received& request);
    [[nodiscard]] http_reply forward(const http_received& request);

    const std::uint16_t emulator_port_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool stalls_ = true;
    std::map<std::string, std::deque<request_fault>> faults_;
    std::map<std::string, request_fault> lasting_faults_;
    std::vector<http_received> late_;
    std::map<std::string, std::size_t> requests_;
    std::map<std::string, std::size_t> forwarded_;
    http_server server_;
};

}  // namespace syncguard::test
