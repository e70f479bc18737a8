/// `file_descriptor`: owns and closes a file descriptor.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace syncguard {

class file_descriptor {
  public:
    /// `number` is the result of the system call `call`. Throws `std::system_error` if the call
    /// failed.
    file_descriptor(int number, const char* call) : number_(number) {
        if (number < 0) throw std::system_error(errno, std::generic_category(), call);
    }
    file_descriptor(file_descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    file_descriptor& operator=(file_descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~file_descriptor() { close(); }

    [[nodiscard]] int get() const noexcept { return number_; }

    /// Gives up ownership: the caller must close the descriptor.
    [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

    void close() noexcept {
        if (number_ >= 0) ::close(std::exchange(number_, -1));
    }

  private:
    int number_;
};

}  // namespace syncguard
