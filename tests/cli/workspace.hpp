/// A private folder with a private lock store, and functions that run the command on it.
#pragma once

#include "cli/process.hpp"
#include "support/temporary_folder.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace syncguard::cli::test {

/// Base of all tests that start the command.
class command_test : public ::testing::Test {
  protected:
    [[nodiscard]] std::filesystem::path file(const std::string& name) const {
        return folder_.path() / name;
    }
    [[nodiscard]] std::filesystem::path database() const { return file("locks.db"); }

    /// Starts `syncguard ARGUMENTS...` on the private store.
    [[nodiscard]] std::unique_ptr<process> start(const std::vector<std::string>& arguments,
                                                 start_options options = {}) const;

    /// Runs `syncguard ARGUMENTS...` on the private store and waits for its end.
    [[nodiscard]] finished syncguard(const std::vector<std::string>& arguments,
                                     start_options options = {}) const;

    /// Acquires a lock with `syncguard acquire` and returns its id.
    [[nodiscard]] std::string hold(const std::string& key, const std::string& ttl = "1m") const;

    /// Starts `syncguard run OPTIONS... KEY -- sh -c SCRIPT`; the script runs in the folder.
    [[nodiscard]] std::unique_ptr<process> start_script(std::vector<std::string> run_options,
                                                        const std::string& script,
                                                        start_options options = {}) const;

    /// Waits for a file that a script writes, and returns its text.
    [[nodiscard]] std::string await_file(const std::string& name) const;
    void touch(const std::string& name) const;

  private:
    syncguard::test::temporary_folder folder_;
};

/// Parses `text`, which must be one JSON object on one line.
[[nodiscard]] boost::json::object json_of(const std::string& text);

/// The value on the line `label: value`.
[[nodiscard]] std::string labelled(const std::string& text, const std::string& label);

}  // namespace syncguard::cli::test
