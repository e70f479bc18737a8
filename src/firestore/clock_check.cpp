#include "firestore/checked_options.hpp"
#include "firestore/client.hpp"
#include "util/deferred_cancellation.hpp"

#include <syncguard/error.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace syncguard::firestore {

namespace {

/// The difference is known well enough when its bounds are this close.
constexpr milliseconds close_enough{60};
constexpr milliseconds pause_between_questions{10};
/// Times are in whole milliseconds.
constexpr milliseconds rounding{2};

/// Asks repeatedly until a second of the server's clock begins: the beginning of a second
/// determines the difference.
class clock_question : public coroutine_operation {
  public:
    using coroutine_operation::coroutine_operation;

    std::optional<clock_skew> answer;
    std::exception_ptr failure;

  private:
    boost::asio::awaitable<void> run(lock_store& store, net::call_context& ctx) override {
        service& server = store.server();
        auto previous = std::chrono::steady_clock::now();
        while (true) {
            const auto begin = std::chrono::steady_clock::now();
            const bool has_time = co_await server.ask_for_time(ctx);
            if (!has_time) {
                throw lock_error(error_code::service_unavailable,
                                 server.server_name() + " does not tell the time");
            }
            answer = server.clocks().value();
            // The second began between two answers, so their distance limits the precision.
            const auto both_answers =
                std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - previous);
            const auto enough = std::max(close_enough, both_answers + rounding);
            if (answer && answer->at_most - answer->at_least <= enough) co_return;
            previous = begin;
            co_await ctx.sleep(pause_between_questions);
        }
    }
    void fail(std::exception_ptr error) noexcept override { failure = std::move(error); }
};

}  // namespace

clock_skew measure_clock_skew(options opts, milliseconds timeout) {
    const deferred_cancellation whole_call;
    opts = checked(std::move(opts));
    // The server sends the time without credentials.
    service_config config{
        .origin = find_origin(opts), .credentials = emulator_owner{}, .server_name = {}};
    config.server_name = "Firestore at " + config.origin.authority();
    const auto asking = std::make_shared<client>(std::move(config), std::move(opts), nullptr);
    const auto question =
        std::make_shared<clock_question>(std::chrono::steady_clock::now() + timeout);
    asking->execute(question);
    asking->shutdown(milliseconds{0});
    if (question->answer) return *question->answer;
    std::rethrow_exception(question->failure);
}

}  // namespace syncguard::firestore
