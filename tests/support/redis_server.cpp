#include "support/redis_server.hpp"

#include "support/eventually.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace syncguard::test {

namespace {

std::vector<char*> as_c_strings(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const auto& each : texts)
        pointers.push_back(const_cast<char*>(each.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

void reap(pid_t pid) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

/// Runs in the forked child. Other threads of the test were not copied and may have held locks, so
/// that only system calls are allowed here.
[[noreturn]] void become(char* const* command, char* const* environment, const char* log,
                         pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    // A session of its own, as servers have. With autogroups, Linux first divides the CPUs among
    // sessions: in the session of its clients, the server would get only one thread's share.
    ::setsid();
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    const int output = ::open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    // A copy of a test's socket would keep its connection open when the test closes it.
    ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
    ::execvpe(command[0], command, environment);
    constexpr char problem[] = "redis-server could not be executed; tools/setup test installs it\n";
    (void)!::write(STDERR_FILENO, problem, sizeof problem - 1);
    ::_exit(127);
}

}  // namespace

redis_server::redis_server(redis_server_options options) : options_(std::move(options)) {
    if (options_.controlled_clock) clock_.emplace(folder_ / "clock");
    start();
}

redis_server::~redis_server() {
    kill();
}

std::string redis_server::url() const {
    return "redis://127.0.0.1:" + std::to_string(port());
}

std::string redis_server::log() const {
    std::ostringstream text;
    text << std::ifstream(folder_ / "log").rdbuf();
    return text.str();
}

void redis_server::kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    reap(std::exchange(pid_, -1));
}

void redis_server::restart() {
    kill();
    start();
}

void redis_server::pause() const {
    ::kill(pid_, SIGSTOP);
    // The signal may take effect later: wait until the server has stopped, so that it does nothing
    // after this call.
    while (::waitpid(pid_, nullptr, WUNTRACED) < 0 && errno == EINTR) {
    }
}

void redis_server::resume() const {
    ::kill(pid_, SIGCONT);
}

redis_reply redis_server::command(const std::vector<std::string>& arguments) const {
    redis_connection connection(socket_path());
    if (!options_.password.empty()) {
        std::vector<std::string> credentials = {"AUTH", options_.password};
        if (!options_.username.empty())
            credentials.insert(credentials.begin() + 1, options_.username);
        const auto answer = connection.command(credentials);
        if (answer.is_error) return answer;
    }
    return connection.command(arguments);
}

std::chrono::sys_time<std::chrono::milliseconds> redis_server::now() const {
    const auto time = command({"TIME"}).list;
    const std::chrono::seconds seconds(std::stoll(time.at(0).text));
    const std::chrono::microseconds fraction(std::stoll(time.at(1).text));
    return std::chrono::floor<std::chrono::milliseconds>(
        std::chrono::sys_time<std::chrono::microseconds>(seconds + fraction));
}

void redis_server::advance(std::chrono::milliseconds step) {
    clock().advance(step);
}

void redis_server::set_offset(std::chrono::milliseconds ahead_of_host) {
    clock().set_offset(ahead_of_host);
}

controlled_clock& redis_server::clock() {
    if (!clock_) throw std::logic_error("this server lives by the host's clock");
    return *clock_;
}

void redis_server::start() {
    const std::vector<std::string> words = command_line();
    const std::vector<std::string> variables = environment();
    const std::string log_path = folder_ / "log";
    const auto arguments = as_c_strings(words);
    const auto settings = as_c_strings(variables);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ == 0) become(arguments.data(), settings.data(), log_path.c_str(), parent);

    bool ended = false;
    const bool up = eventually([&] { return (ended = has_ended()) || answers(); });
    if (up && !ended) return;
    kill();
    constexpr std::size_t enough = 2000;
    const std::string said = log();
    throw std::runtime_error(
        std::string("redis-server ") + (ended ? "ended at its start" : "did not answer in time") +
        "; its log ends with:\n" + said.substr(said.size() - std::min(said.size(), enough)));
}

std::vector<std::string> redis_server::command_line() const {
    std::vector<std::string> command = {"redis-server",
                                        "--bind",
                                        "127.0.0.1",
                                        "--port",
                                        std::to_string(port()),
                                        "--dir",
                                        folder_.path(),
                                        "--unixsocket",
                                        socket_path(),
                                        "--unixsocketperm",
                                        "700",
                                        "--save",
                                        "",
                                        "--appendonly",
                                        "no"};
    if (options_.tls) {
        const auto& tls = *options_.tls;
        const std::vector<std::string> added = {
            "--tls-port",         std::to_string(tls_port()),
            "--tls-cert-file",    tls.certificate,
            "--tls-key-file",     tls.key,
            "--tls-ca-cert-file", tls.ca,
            "--tls-auth-clients", tls.clients_need_certificates ? "yes" : "no"};
        command.insert(command.end(), added.begin(), added.end());
    }
    command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
    return command;
}

std::vector<std::string> redis_server::environment() const {
    std::vector<std::string> variables;
    if (clock_) variables = clock_->environment();
    for (char** each = environ; *each != nullptr; ++each) {
        const std::string inherited = *each;
        const auto has_its_name = [&, name = inherited.substr(0, inherited.find('=') + 1)](
                                      const std::string& ours) { return ours.starts_with(name); };
        if (std::none_of(variables.begin(), variables.end(), has_its_name))
            variables.push_back(inherited);
    }
    return variables;
}

bool redis_server::answers() const {
    try {
        return command({"PING"}).text == "PONG";
    } catch (const std::runtime_error&) {
        // The server does not listen yet.
        return false;
    }
}

bool redis_server::has_ended() {
    if (::waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
}

}  // namespace syncguard::test
