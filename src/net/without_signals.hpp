/// Completion token adapter that blocks signals while the operation starts. For operations that
/// make Asio start a thread, such as the first name lookup of an io_context: the thread inherits
/// the blocked signals.
#pragma once

#include "util/library_thread.hpp"

#include <boost/asio/async_result.hpp>

#include <utility>

namespace syncguard::net {

template <class Token>
struct without_signals {
    explicit without_signals(Token adapted) : token(std::move(adapted)) {}
    Token token;
};

}  // namespace syncguard::net

template <class Token, class... Signatures>
class boost::asio::async_result<syncguard::net::without_signals<Token>, Signatures...> {
  public:
    template <class Initiation, class... Arguments>
    static auto initiate(Initiation initiation, syncguard::net::without_signals<Token> adapted,
                         Arguments... arguments) {
        return boost::asio::async_initiate<Token, Signatures...>(
            [initiation = std::move(initiation)](auto handler, auto... passed) mutable {
                const syncguard::signals_blocked inherited;
                std::move(initiation)(std::move(handler), std::move(passed)...);
            },
            adapted.token, std::move(arguments)...);
    }
};
