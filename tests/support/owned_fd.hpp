/// A file descriptor that its owner's destructor closes.
#pragma once

#include <unistd.h>

#include <utility>

namespace syncguard::test {

class owned_fd {
  public:
    owned_fd() = default;
    explicit owned_fd(int fd) : fd_(fd) {}
    owned_fd(owned_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    owned_fd& operator=(owned_fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~owned_fd() {
        if (fd_ >= 0) ::close(fd_);
    }

    [[nodiscard]] int get() const noexcept { return fd_; }

  private:
    int fd_ = -1;
};

}  // namespace syncguard::test
