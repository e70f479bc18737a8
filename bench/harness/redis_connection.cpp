#include "harness/redis_connection.hpp"

#include <stdexcept>

namespace syncguard::bench {

redis_connection::redis_connection(redisContext* context) : context_(context) {
    if (context_ == nullptr) throw std::runtime_error("hiredis: no memory for a connection");
    if (context_->err != 0) {
        throw std::runtime_error(std::string("hiredis: cannot connect: ") + context_->errstr);
    }
}

redis_connection redis_connection::over_tcp(int port) {
    return redis_connection(redisConnect("127.0.0.1", port));
}

redis_connection redis_connection::over_socket(const std::filesystem::path& socket) {
    return redis_connection(redisConnectUnix(socket.c_str()));
}

redis_reply redis_connection::call(const redis_command& command) {
    point_to(command);
    return checked(redisCommandArgv(context_.get(), static_cast<int>(pointers_.size()),
                                    pointers_.data(), lengths_.data()));
}

void redis_connection::append(const redis_command& command) {
    point_to(command);
    if (redisAppendCommandArgv(context_.get(), static_cast<int>(pointers_.size()), pointers_.data(),
                               lengths_.data()) != REDIS_OK) {
        checked(nullptr);
    }
}

redis_reply redis_connection::next_reply() {
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK) reply = nullptr;
    return checked(reply);
}

std::string redis_connection::load_script(std::string_view text) {
    const auto reply = call({"SCRIPT", "LOAD", std::string(text)});
    return {reply->str, static_cast<std::size_t>(reply->len)};
}

void redis_connection::point_to(const redis_command& command) {
    pointers_.clear();
    lengths_.clear();
    for (const auto& part : command) {
        pointers_.push_back(part.data());
        lengths_.push_back(part.size());
    }
}

redis_reply redis_connection::checked(void* reply) const {
    redis_reply owned(static_cast<redisReply*>(reply));
    if (owned == nullptr) throw std::runtime_error(std::string("hiredis: ") + context_->errstr);
    if (owned->type == REDIS_REPLY_ERROR) {
        throw std::runtime_error(std::string("redis-server: ") + owned->str);
    }
    return owned;
}

}  // namespace syncguard::bench
