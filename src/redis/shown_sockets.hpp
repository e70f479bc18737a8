#pragma once

#include "../net/shown_sockets.hpp"

namespace syncguard::redis {

using net::shown_sockets;

}  // namespace syncguard::redis
