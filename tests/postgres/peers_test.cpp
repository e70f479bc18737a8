/// Ten processes that contend for one key: some use this library, the others follow the protocol of
/// docs/storage.md statement by statement.
#include "postgres/postgres_fault.hpp"
#include "support/child_process.hpp"
#include "support/postgres_peer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

constexpr auto span = 60s;

/// Sometimes a holder does not release its lock, and the others must wait until it expires.
constexpr int visits_until_it_is_forgotten = 50;
constexpr milliseconds ttl_of_a_forgotten_one{100};

/// The resource that the lock protects: a file that exists while a process uses it, and a file with
/// all fences in order.
class resource {
  public:
    explicit resource(const std::filesystem::path& folder)
        : form_(folder / "inside"), record_(folder / "record") {}

    /// False if another process is using the resource.
    [[nodiscard]] bool visit(const std::string& fence, const std::string& visitor) const {
        const int alone = ::open(form_.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (alone < 0) return false;
        ::close(alone);
        {
            // One write to a file in append mode: whole lines, in order.
            std::ofstream record(record_, std::ios::app);
            record << fence + " " + visitor + "\n" << std::flush;
        }
        return ::unlink(form_.c_str()) == 0;
    }
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> visits() const {
        std::vector<std::pair<std::string, std::string>> all;
        std::ifstream record(record_);
        for (std::string fence, visitor; record >> fence >> visitor;)
            all.emplace_back(fence, visitor);
        return all;
    }

  private:
    std::string form_;
    std::string record_;
};

int run_ours(const std::string& url, const resource& guarded) {
    const postgres::backend locks(postgres::parse_url(url), quiet());
    const auto end = steady_clock::now() + span;
    for (int visits = 1; steady_clock::now() < end;) {
        const bool forgets = visits % visits_until_it_is_forgotten == 0;
        auto lease = locks.acquire("k", {.ttl = forgets ? ttl_of_a_forgotten_one : 30s});
        if (!lease) continue;
        ++visits;
        if (!guarded.visit(lease->fence().to_string(), "ours")) return 1;
        if (forgets) {
            lease->detach();
        } else if (!lease->release().ok) {
            return 2;
        }
    }
    return 0;
}

int run_peer(const std::string& url, const resource& guarded) {
    postgres_peer peer(url);
    const auto end = steady_clock::now() + span;
    for (int visits = 1; steady_clock::now() < end;) {
        const bool forgets = visits % visits_until_it_is_forgotten == 0;
        const auto id = postgres_peer::new_lock_id();
        const auto fence = peer.acquire("k", id, forgets ? ttl_of_a_forgotten_one : 30s);
        if (!fence) continue;
        ++visits;
        if (!guarded.visit(*fence, "peer")) return 1;
        if (!forgets && !peer.release(id)) return 2;
    }
    return 0;
}

TEST(postgres_peers, processes_of_both_implementations_exclude_each_other_and_share_the_fences) {
    const postgres_server server;
    const temporary_folder folder;
    const resource guarded(folder.path());
    std::vector<std::unique_ptr<child_process>> all;
    for (int i = 0; i < 10; ++i) {
        all.push_back(std::make_unique<child_process>([&, i] {
            return i % 2 == 0 ? run_ours(server.url(), guarded) : run_peer(server.url(), guarded);
        }));
    }
    for (const auto& each : all)
        EXPECT_EQ(each->wait(), 0);

    const auto visits = guarded.visits();
    std::set<std::string> kinds;
    std::uint64_t expected = 0;
    for (const auto& [token, visitor] : visits) {
        // No number is skipped: contended attempts use none.
        EXPECT_EQ(token, fence::from_counter(++expected).to_string());
        kinds.insert(visitor);
    }
    EXPECT_EQ(kinds, (std::set<std::string>{"ours", "peer"}));
    EXPECT_GT(visits.size(), 100U);
    EXPECT_EQ(server.value("SELECT fence FROM syncguard_fence_counters"),
              std::to_string(visits.size()));
}

}  // namespace
}  // namespace syncguard::test
