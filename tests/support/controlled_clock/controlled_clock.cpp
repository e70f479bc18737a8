#include "support/controlled_clock/controlled_clock.hpp"

#include "support/owned_fd.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

namespace syncguard::test {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

clock_page* map_new_file(const std::filesystem::path& path) {
    const owned_fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0 || ::ftruncate(file.get(), sizeof(clock_page)) != 0) {
        throw std::system_error(errno, std::generic_category(), "create " + path.string());
    }
    void* const memory =
        ::mmap(nullptr, sizeof(clock_page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(), "map " + path.string());
    }
    return new (memory) clock_page{};
}

}  // namespace

controlled_clock::controlled_clock(std::filesystem::path path)
    : path_(std::move(path)), page_(map_new_file(path_)) {
    const auto host =
        std::chrono::floor<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
    page_->frozen_at = microseconds(host).count();
}

controlled_clock::~controlled_clock() {
    ::munmap(page_, sizeof(clock_page));
}

std::vector<std::string> controlled_clock::environment() const {
    return {std::string(clock_page_variable) + "=" + path_.string(),
            std::string("LD_PRELOAD=") + SYNCGUARD_PRELOADED_CLOCK};
}

void controlled_clock::advance(milliseconds step) {
    auto& moved = page_->frozen_at != 0 ? page_->frozen_at : page_->offset;
    moved += microseconds(step).count();
}

void controlled_clock::set_offset(milliseconds ahead_of_host) {
    // In this order, so that no reader sees a running clock with the old offset.
    page_->offset = microseconds(ahead_of_host).count();
    page_->frozen_at = 0;
}

}  // namespace syncguard::test
