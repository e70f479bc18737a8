#include "support/firestore_proxy.hpp"

#include "support/http_client.hpp"

#include <optional>

namespace syncguard::test {

namespace {

std::string method_of(const std::string& target) {
    return target.substr(target.rfind(':') + 1);
}

}  // namespace

firestore_proxy::firestore_proxy(std::uint16_t emulator_port)
    : emulator_port_(emulator_port),
      server_([this](const http_received& request) { return answer(request); }) {}

firestore_proxy::~firestore_proxy() {
    resume();
}

std::string firestore_proxy::host() const {
    return "127.0.0.1:" + std::to_string(server_.port());
}

void firestore_proxy::fail_next(const std::string& method, const request_fault& fault) {
    const std::lock_guard guard(mutex_);
    faults_[method].push_back(fault);
}

void firestore_proxy::fail_all(const std::string& method, const request_fault& fault) {
    const std::lock_guard guard(mutex_);
    lasting_faults_[method] = fault;
}

void firestore_proxy::resume() {
    const std::lock_guard guard(mutex_);
    stalls_ = false;
    changed_.notify_all();
}

std::vector<unsigned> firestore_proxy::deliver_late() {
    std::vector<http_received> requests;
    {
        const std::lock_guard guard(mutex_);
        requests.swap(late_);
    }
    std::vector<unsigned> statuses;
    for (const auto& each : requests)
        statuses.push_back(forward(each).status);
    return statuses;
}

std::size_t firestore_proxy::requests(const std::string& method) const {
    const std::lock_guard guard(mutex_);
    const auto counted = requests_.find(method);
    return counted == requests_.end() ? 0 : counted->second;
}

std::size_t firestore_proxy::forwarded(const std::string& method) const {
    const std::lock_guard guard(mutex_);
    const auto counted = forwarded_.find(method);
    return counted == forwarded_.end() ? 0 : counted->second;
}

std::size_t firestore_proxy::faults_left() const {
    const std::lock_guard guard(mutex_);
    std::size_t sum = 0;
    for (const auto& [method, faults] : faults_)
        sum += faults.size();
    return sum;
}

http_reply firestore_proxy::answer(const http_received& request) {
    std::optional<request_fault> fault;
    {
        const std::lock_guard guard(mutex_);
        const auto method = method_of(request.target);
        ++requests_[method];
        if (auto& waiting = faults_[method]; !waiting.empty()) {
            fault = waiting.front();
            waiting.pop_front();
        } else if (const auto lasting = lasting_faults_.find(method);
                   lasting != lasting_faults_.end()) {
            fault = lasting->second;
        }
    }
    if (!fault) return forward(request);
    if (fault->forward) (void)forward(request);
    if (fault->mode == request_fault::ending::answer) {
        if (!fault->body.empty()) return {.status = fault->status, .body = fault->body};
        return {.status = fault->status,
                .body = R"({"error":{"code":)" + std::to_string(fault->status) +
                        R"(,"message":"secret-name","status":")" + fault->word + R"("}})"};
    }
    if (fault->mode == request_fault::ending::interim) {
        auto reply = forward(request);
        reply.before = "HTTP/1.1 " + std::to_string(fault->status) + " Interim\r\n\r\n";
        return reply;
    }
    if (fault->mode == request_fault::ending::late) {
        const std::lock_guard guard(mutex_);
        late_.push_back(request);
        return {.cut = true};
    }
    if (fault->mode != request_fault::ending::cut) {
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [&] { return !stalls_; });
    }
    if (fault->mode == request_fault::ending::hold) return forward(request);
    return {.cut = true};
}

http_reply firestore_proxy::forward(const http_received& request) {
    const auto answer =
        http_client(emulator_port_).send(request.method, request.target, request.body);
    const std::lock_guard guard(mutex_);
    ++forwarded_[method_of(request.target)];
    return {.status = answer.status, .body = answer.body};
}

}  // namespace syncguard::test
