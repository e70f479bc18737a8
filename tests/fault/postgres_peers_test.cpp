/// Ten processes of two kinds and one key: this library beside peers that follow the protocol of
/// docs/storage.md statement by statement.
#include "postgres_fault.hpp"
#include "support/child_process.hpp"
#include "support/postgres_peer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

std::chrono::seconds duration_of_run() {
    const char* const longer = std::getenv("SYNCGUARD_LONG_TESTS");
    return longer != nullptr && std::string(longer) == "1" ? 60s : 6s;
}

/// What the lock protects: a file that says who is inside, and one that tells the fences in order.
class resource {
  public:
    explicit resource(const std::filesystem::path& folder)
        : door_(folder / "inside"), record_(folder / "record") {}

    /// False if somebody else is inside.
    [[nodiscard]] bool visit(const std::string& fence, const std::string& who) const {
        const int alone = ::open(door_.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (alone < 0) return false;
        ::close(alone);
        {
            // One write to a file in append mode: whole lines, in order.
            std::ofstream record(record_, std::ios::app);
            record << fence + " " + who + "\n" << std::flush;
        }
        return ::unlink(door_.c_str()) == 0;
    }
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> visits() const {
        std::vector<std::pair<std::string, std::string>> all;
        std::ifstream record(record_);
        for (std::string fence, who; record >> fence >> who;)
            all.emplace_back(fence, who);
        return all;
    }

  private:
    std::string door_;
    std::string record_;
};

int run_ours(const std::string& url, const resource& guarded, std::chrono::seconds span) {
    const postgres::backend locks(postgres::parse_url(url), quiet());
    const auto end = steady_clock::now() + span;
    while (steady_clock::now() < end) {
        auto lease = locks.acquire("k", {.ttl = 30s});
        if (!lease) continue;
        if (!guarded.visit(lease->fence().to_string(), "ours")) return 1;
        if (!lease->release().ok) return 2;
    }
    return 0;
}

int run_peer(const std::string& url, const resource& guarded, std::chrono::seconds span) {
    postgres_peer peer(url);
    const auto end = steady_clock::now() + span;
    while (steady_clock::now() < end) {
        const auto id = postgres_peer::new_lock_id();
        const auto fence = peer.acquire("k", id, 30s);
        if (!fence) continue;
        if (!guarded.visit(*fence, "peer")) return 1;
        if (!peer.release(id)) return 2;
    }
    return 0;
}

TEST(postgres_peers, ten_processes_of_both_kinds_exclude_each_other_and_share_the_fences) {
    const postgres_server server;
    const temporary_folder folder;
    const resource guarded(folder.path());
    const auto span = duration_of_run();
    std::vector<std::unique_ptr<child_process>> all;
    for (int i = 0; i < 10; ++i) {
        all.push_back(std::make_unique<child_process>([&, i] {
            return i % 2 == 0 ? run_ours(server.url(), guarded, span)
                              : run_peer(server.url(), guarded, span);
        }));
    }
    for (const auto& each : all)
        EXPECT_EQ(each->wait(), 0);

    const auto visits = guarded.visits();
    std::set<std::string> kinds;
    std::uint64_t expected = 0;
    for (const auto& [token, who] : visits) {
        // Not one number is skipped: no contended attempt has spent any.
        EXPECT_EQ(token, fence::from_counter(++expected).to_string());
        kinds.insert(who);
    }
    EXPECT_EQ(kinds, (std::set<std::string>{"ours", "peer"}));
    EXPECT_GT(visits.size(), 100U);
    EXPECT_EQ(server.value("SELECT fence FROM syncguard_fence_counters"),
              std::to_string(visits.size()));
    EXPECT_FALSE(holds_lock(server, "k"));
}

}  // namespace
}  // namespace syncguard::test
