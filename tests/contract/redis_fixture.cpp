#include "contract/engine_fixture.hpp"
#include "support/redis_server.hpp"

#include <syncguard/redis.hpp>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::test {

namespace {

class redis_fixture : public engine_fixture {
  public:
    any_backend open(backend_options options) override {
        return redis::backend({.host = "127.0.0.1", .port = server_.port()}, std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return server_.now(); }
    void advance(milliseconds step) override { server_.advance(step); }
    // Redis itself removes a lock when its TTL is over.
    [[nodiscard]] milliseconds grace() const override { return milliseconds(1); }
    [[nodiscard]] failure_reason reason_after_expiry() const override {
        return failure_reason::not_found;
    }
    void set_fence_counter(const std::string& key, std::uint64_t counter) override {
        command({"SET", "syncguard:fence:syncguard:" + key, std::to_string(counter)});
    }
    [[nodiscard]] bool delete_fence_counter(const std::string& key) override {
        command({"DEL", "syncguard:fence:syncguard:" + key});
        command({"PERSIST", "syncguard:" + key});
        return true;
    }
    [[nodiscard]] std::string url() override {
        server_.set_offset(milliseconds(0));
        return server_.url();
    }

  private:
    void command(const std::vector<std::string>& words) const {
        const auto answer = server_.command(words);
        if (answer.is_error) throw std::runtime_error(answer.text);
    }

    redis_server server_{{.controlled_clock = true}};
};

}  // namespace

std::unique_ptr<engine_fixture> make_redis_fixture() {
    return std::make_unique<redis_fixture>();
}

}  // namespace syncguard::test
