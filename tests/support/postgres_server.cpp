#include "support/postgres_server.hpp"

#include "support/eventually.hpp"
#include "support/owned_fd.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

namespace fs = std::filesystem;

/// The user that runs the server: PostgreSQL refuses to run as root.
struct account {
    uid_t user = ::geteuid();
    gid_t group = ::getegid();
};

account server_account() {
    if (::geteuid() != 0) return {};
    const passwd* const entry = ::getpwnam("postgres");
    if (entry == nullptr) throw std::runtime_error("there is no user 'postgres' to run a server");
    return {.user = entry->pw_uid, .group = entry->pw_gid};
}

void give(const fs::path& path, const account& to) {
    if (::chown(path.c_str(), to.user, to.group) != 0) {
        throw std::system_error(errno, std::generic_category(), "chown " + path.string());
    }
}

std::vector<char*> as_c_strings(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const auto& each : texts)
        pointers.push_back(const_cast<char*>(each.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

/// Runs in the forked child. Other threads of the test were not copied and may have held locks, so
/// that only system calls are allowed here.
[[noreturn]] void become(char* const* command, char* const* environment, const char* log,
                         const char* folder, const account& user, pid_t parent) {
    const int output = ::open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
    if (user.user != ::geteuid() &&
        (::setgroups(0, nullptr) != 0 || ::setgid(user.group) != 0 || ::setuid(user.user) != 0)) {
        ::_exit(1);
    }
    // When the parent ends: immediate shutdown of the server and all its children.
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (::getppid() != parent || ::chdir(folder) != 0) ::_exit(1);
    ::execve(command[0], command, environment);
    constexpr char problem[] = "PostgreSQL could not be executed; tools/setup test installs it\n";
    (void)!::write(STDERR_FILENO, problem, sizeof problem - 1);
    ::_exit(127);
}

pid_t launch(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             const fs::path& folder) {
    const auto words = as_c_strings(command);
    const auto settings = as_c_strings(environment);
    const std::string log = folder / "log";
    const std::string working_folder = folder;
    const account user = server_account();
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) {
        become(words.data(), settings.data(), log.c_str(), working_folder.c_str(), user, parent);
    }
    return child;
}

int wait_for(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

std::string text_of(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

std::string program(const char* name) {
    return std::string(SYNCGUARD_POSTGRES_PROGRAMS) + "/" + name;
}

/// A new cluster, made once for each build tree, because making one takes seconds and copying it
/// does not.
const fs::path& fresh_cluster() {
    static const fs::path cluster = [] {
        const fs::path place = SYNCGUARD_POSTGRES_TEMPLATE;
        fs::create_directories(place.parent_path());
        const owned_fd turn(
            ::open((place.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        if (turn.get() < 0 || ::flock(turn.get(), LOCK_EX) != 0) {
            throw std::system_error(errno, std::generic_category(), "lock for " + place.string());
        }
        if (fs::exists(place)) return place;
        const temporary_folder folder;
        give(folder.path(), server_account());
        const pid_t maker =
            launch({program("initdb"), "-D", (folder / "data").string(), "-A", "trust", "-U",
                    "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"},
                   {"PATH=/usr/bin:/bin"}, folder.path());
        if (wait_for(maker) != 0) {
            throw std::runtime_error("initdb failed:\n" + text_of(folder / "log"));
        }
        const fs::path unfinished = place.string() + ".part";
        fs::remove_all(unfinished);
        fs::copy(folder / "data", unfinished, fs::copy_options::recursive);
        fs::rename(unfinished, place);
        return place;
    }();
    return cluster;
}

void copy_cluster(const fs::path& to) {
    fs::copy(fresh_cluster(), to, fs::copy_options::recursive);
    const account owner = server_account();
    give(to, owner);
    fs::permissions(to, fs::perms::owner_all);
    for (const auto& each : fs::recursive_directory_iterator(to))
        give(each.path(), owner);
}

/// The child processes of a server; they run on for a while after it is killed.
std::vector<pid_t> children_of(pid_t parent) {
    const std::string id = std::to_string(parent);
    std::ifstream list("/proc/" + id + "/task/" + id + "/children");
    std::vector<pid_t> found;
    for (pid_t each = 0; list >> each;)
        found.push_back(each);
    return found;
}

/// Whether a process has released its files and memory. It may still be a zombie.
bool has_let_go(pid_t process) {
    return text_of("/proc/" + std::to_string(process) + "/cmdline").empty();
}

constexpr const char* tables = R"sql(
CREATE TABLE syncguard_locks (
    key            TEXT PRIMARY KEY,
    lock_id        TEXT NOT NULL UNIQUE,
    expires_at_ms  BIGINT NOT NULL,
    acquired_at_ms BIGINT NOT NULL,
    fence          TEXT NOT NULL,
    user_key       TEXT NOT NULL
);
CREATE INDEX ON syncguard_locks (expires_at_ms);
CREATE TABLE syncguard_fence_counters (
    fence_key TEXT PRIMARY KEY,
    fence     BIGINT NOT NULL DEFAULT 0,
    key_debug TEXT
);
)sql";

}  // namespace

postgres_server::postgres_server(postgres_server_options options) : options_(std::move(options)) {
    give(folder_.path(), server_account());
    make_cluster();
    if (!options_.host_rules.empty()) {
        std::ofstream rules(data_folder() / "pg_hba.conf", std::ios::trunc);
        rules << "local all postgres trust\n" << options_.host_rules;
    }
    if (options_.controlled_clock) {
        clock_.emplace(folder_ / "clock");
        give(folder_ / "clock", server_account());
    }
    if (options_.certificate) {
        // The server refuses keys that other users can read.
        const std::array<std::pair<fs::path, const char*>, 2> files{
            {{options_.certificate->certificate, "server.crt"},
             {options_.certificate->key, "server.key"}}};
        for (const auto& [from, to] : files) {
            const fs::path own = data_folder() / to;
            fs::copy_file(from, own);
            fs::permissions(own, fs::perms::owner_read | fs::perms::owner_write);
            give(own, server_account());
        }
        options_.settings.emplace_back("ssl=on");
    }
    start();
    if (options_.with_tables && options_.primary == nullptr) run(tables);
}

void postgres_server::make_cluster() {
    if (options_.primary == nullptr) {
        copy_cluster(data_folder());
        return;
    }
    const pid_t copying = launch(
        {program("pg_basebackup"), "-D", data_folder().string(), "-h",
         options_.primary->socket_folder().string(), "-p", std::to_string(options_.primary->port()),
         "-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"},
        {"PATH=/usr/bin:/bin"}, folder_.path());
    if (wait_for(copying) != 0) throw std::runtime_error("pg_basebackup failed:\n" + log());
}

postgres_server::~postgres_server() {
    kill();
}

std::string postgres_server::url() const {
    return url_at(port());
}

std::string postgres_server::url_at(std::uint16_t port) const {
    return "postgres://postgres@127.0.0.1:" + std::to_string(port) +
           "/postgres?sslmode=disable&gssencmode=disable";
}

std::string postgres_server::log() const {
    return text_of(folder_ / "log");
}

void postgres_server::kill() {
    if (pid_ <= 0) return;
    // Stopped first, so that it starts no more children.
    ::kill(pid_, SIGSTOP);
    auto all = children_of(pid_);
    all.push_back(pid_);
    for (const pid_t each : all)
        ::kill(each, SIGKILL);
    wait_for(std::exchange(pid_, -1));
    // This process cannot wait for grandchildren, and they use the folder until they have ended.
    all.pop_back();
    (void)eventually([&] { return std::all_of(all.begin(), all.end(), has_let_go); });
}

void postgres_server::shut_down() {
    ::kill(pid_, SIGINT);
    wait_for(std::exchange(pid_, -1));
}

void postgres_server::restart() {
    kill();
    start();
}

void postgres_server::promote() {
    run("SELECT pg_promote()");
}

postgres_connection postgres_server::connect() const {
    return postgres_connection("host=" + socket_folder().string() +
                               " user=postgres dbname=postgres port=" + std::to_string(port()));
}

postgres_rows postgres_server::run(const std::string& sql,
                                   const std::vector<std::string>& parameters) const {
    return connect().run(sql, parameters);
}

std::string postgres_server::value(const std::string& sql,
                                   const std::vector<std::string>& parameters) const {
    return connect().value(sql, parameters);
}

std::chrono::sys_time<std::chrono::milliseconds> postgres_server::now() const {
    return std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::milliseconds(
        std::stoll(value("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"))));
}

void postgres_server::advance(std::chrono::milliseconds step) {
    clock().advance(step);
}

void postgres_server::set_offset(std::chrono::milliseconds ahead_of_host) {
    clock().set_offset(ahead_of_host);
}

controlled_clock& postgres_server::clock() {
    if (!clock_) throw std::logic_error("this server lives by the host's clock");
    return *clock_;
}

void postgres_server::start() {
    std::vector<std::string> command = {program("postgres"), "-D", data_folder().string(), "-p",
                                        std::to_string(port())};
    std::vector<std::string> settings = {"listen_addresses=127.0.0.1",
                                         "unix_socket_directories=" + socket_folder().string(),
                                         "shared_buffers=8MB",
                                         "max_connections=50",
                                         "autovacuum=off",
                                         std::string("fsync=") + (options_.durable ? "on" : "off")};
    settings.insert(settings.end(), options_.settings.begin(), options_.settings.end());
    for (const auto& each : settings)
        command.insert(command.end(), {"-c", each});
    std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
    if (clock_) {
        const auto more = clock_->environment();
        environment.insert(environment.end(), more.begin(), more.end());
    }
    pid_ = launch(command, environment, folder_.path());
    bool ended = false;
    const bool up = eventually([&] { return (ended = has_ended()) || answers(); });
    if (up && !ended) return;
    kill();
    constexpr std::size_t enough = 2000;
    const std::string said = log();
    throw std::runtime_error(
        std::string("PostgreSQL ") + (ended ? "ended at its start" : "did not answer in time") +
        "; its log ends with:\n" + said.substr(said.size() - std::min(said.size(), enough)));
}

bool postgres_server::answers() const {
    try {
        return value("SELECT 1") == "1";
    } catch (const postgres_failure&) {
        // The server does not listen yet.
        return false;
    }
}

bool postgres_server::has_ended() {
    if (::waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
}

}  // namespace syncguard::test
