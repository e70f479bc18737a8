/// Completion token adapter for name lookups. The first one of an io_context makes Asio start a
/// thread: it inherits the blocked signals and the name.
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
                const syncguard::inherited_thread_name name("syncguard-dns");
                std::move(initiation)(std::move(handler), std::move(passed)...);
            },
            adapted.token, std::move(arguments)...);
    }
};
