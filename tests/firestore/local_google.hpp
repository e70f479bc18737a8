/// A local imitation of Google: a Firestore without documents that checks tokens, and a server that
/// issues them.
#pragma once

#include "support/http_server.hpp"
#include "support/loopback.hpp"
#include "support/temporary_folder.hpp"

#include <boost/json.hpp>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {

/// The answer to a read or a query if nothing is stored.
inline std::string nothing_found(const http_received& request) {
    boost::json::array entries;
    const auto asked = boost::json::parse(request.body);
    if (const auto* const wanted = asked.as_object().if_contains("documents")) {
        for (const auto& name : wanted->as_array())
            entries.push_back(boost::json::object{{"missing", name}, {"readTime", "t"}});
    } else {
        entries.push_back(boost::json::object{{"readTime", "t"}});
    }
    return boost::json::serialize(entries);
}

/// Answers every read with "missing" and every commit with success, to every client with a valid
/// token.
class local_firestore {
  public:
    explicit local_firestore(std::optional<certificate_files> tls = {})
        : server_([this](const http_received& request) { return answer(request); },
                  std::move(tls)) {}

    [[nodiscard]] std::string endpoint() const { return server_.url(); }
    [[nodiscard]] const http_server& server() const noexcept { return server_; }

    /// Accepts only this token from now on; if empty, any token.
    void accept_only(const std::string& token) {
        const std::lock_guard guard(mutex_);
        accepted_ = token;
    }
    /// The Date header; there is none if `date` is empty.
    void show_date(std::function<std::string()> date) {
        const std::lock_guard guard(mutex_);
        date_ = std::move(date);
    }
    /// The delay of each answer, as that of a distant server.
    void answer_after(std::chrono::milliseconds delay) { delay_ = delay; }
    [[nodiscard]] std::vector<std::string> tokens_seen() const {
        const std::lock_guard guard(mutex_);
        return seen_;
    }
    [[nodiscard]] std::size_t commits() const { return commits_; }
    [[nodiscard]] std::size_t questions_for_the_time() const { return questions_; }

  private:
    http_reply answer(const http_received& request) {
        std::this_thread::sleep_for(delay_.load());
        const std::lock_guard guard(mutex_);
        http_reply reply;
        if (date_) reply.headers.emplace_back("Date", date_());
        if (request.target == "/") {
            ++questions_;
            return reply;
        }
        const auto authorization = request.headers.find("authorization");
        const std::string token = authorization == request.headers.end()
                                      ? std::string()
                                      : authorization->second.substr(7);
        seen_.push_back(token);
        if (!accepted_.empty() && token != accepted_) {
            reply.status = 401;
            reply.body = R"({"error":{"status":"UNAUTHENTICATED"}})";
        } else if (request.target.ends_with(":commit")) {
            ++commits_;
            const auto commit = boost::json::parse(request.body);
            boost::json::array results(commit.at("writes").as_array().size(),
                                       {{"updateTime", "v"}});
            reply.body = boost::json::serialize(boost::json::object{{"writeResults", results}});
        } else {
            reply.body = nothing_found(request);
        }
        return reply;
    }

    mutable std::mutex mutex_;
    std::string accepted_;
    std::function<std::string()> date_;
    std::atomic<std::chrono::milliseconds> delay_{};
    std::vector<std::string> seen_;
    std::atomic<std::size_t> commits_{0};
    std::atomic<std::size_t> questions_{0};
    http_server server_;
};

/// Issues token-1, token-2, ...
class local_token_server {
  public:
    explicit local_token_server(std::optional<certificate_files> tls = {})
        : server_([this](const http_received& request) { return answer(request); },
                  std::move(tls)) {}

    local_token_server(const local_token_server&) = delete;
    local_token_server& operator=(const local_token_server&) = delete;
    ~local_token_server() { resume(); }

    [[nodiscard]] std::string url() const { return server_.url() + "/token"; }
    [[nodiscard]] const http_server& server() const noexcept { return server_; }
    void set_lifetime(int seconds) { lifetime_ = seconds; }
    /// Sends this answer instead of tokens, until `accept_again`.
    void refuse_with(const http_reply& answer) {
        const std::lock_guard guard(mutex_);
        refusal_ = answer;
    }
    void accept_again() {
        const std::lock_guard guard(mutex_);
        refusal_.reset();
    }
    /// Holds further requests until `resume` is called.
    void hold() {
        const std::lock_guard guard(mutex_);
        holds_ = true;
    }
    void resume() {
        const std::lock_guard guard(mutex_);
        holds_ = false;
        changed_.notify_all();
    }
    [[nodiscard]] std::vector<http_received> requests() const {
        const std::lock_guard guard(mutex_);
        return requests_;
    }

  private:
    http_reply answer(const http_received& request) {
        std::unique_lock guard(mutex_);
        requests_.push_back(request);
        changed_.wait(guard, [&] { return !holds_; });
        if (refusal_) return *refusal_;
        return {.body = R"({"access_token":"token-)" + std::to_string(++given_) +
                        R"(","expires_in":)" + std::to_string(lifetime_) +
                        R"(,"token_type":"Bearer"})"};
    }

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool holds_ = false;
    std::atomic<int> lifetime_{3600};
    int given_ = 0;
    std::optional<http_reply> refusal_;
    std::vector<http_received> requests_;
    http_server server_;
};

/// An RSA key, and the file of a service account with this key.
class service_account_file {
  public:
    explicit service_account_file(const std::string& token_uri)
        : key_(::EVP_RSA_gen(2048), &::EVP_PKEY_free) {
        const std::unique_ptr<BIO, decltype(&::BIO_free)> out(::BIO_new(::BIO_s_mem()),
                                                              &::BIO_free);
        ::PEM_write_bio_PrivateKey(out.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
        char* text = nullptr;
        const auto length = ::BIO_ctrl(out.get(), BIO_CTRL_INFO, 0, &text);
        pem_.assign(text, static_cast<std::size_t>(length));
        const boost::json::object content{{"type", "service_account"},
                                          {"client_email", "robot@example.com"},
                                          {"private_key_id", "key-1"},
                                          {"private_key", pem_},
                                          {"token_uri", token_uri}};
        std::ofstream(path()) << boost::json::serialize(content);
    }

    [[nodiscard]] std::filesystem::path path() const { return folder_ / "account.json"; }
    [[nodiscard]] EVP_PKEY* key() const { return key_.get(); }
    [[nodiscard]] const std::string& pem() const noexcept { return pem_; }

  private:
    temporary_folder folder_;
    std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key_;
    std::string pem_;
};

}  // namespace syncguard::test
