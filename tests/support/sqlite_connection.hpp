/// A connection to a lock file through SQLite's own interface, as another program has.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <string>
#include <vector>

namespace syncguard::test {

class sqlite_connection {
  public:
    explicit sqlite_connection(const std::filesystem::path& path) {
        sqlite3_open(path.c_str(), &file_);
    }
    sqlite_connection(const sqlite_connection&) = delete;
    sqlite_connection& operator=(const sqlite_connection&) = delete;
    ~sqlite_connection() { sqlite3_close_v2(file_); }

    /// All rows, columns separated by '|'.
    std::vector<std::string> run(const std::string& sql) {
        std::vector<std::string> rows;
        char* message = nullptr;
        sqlite3_exec(
            file_, sql.c_str(),
            [](void* to, int columns, char** values, char**) {
                std::string row;
                for (int i = 0; i < columns; ++i) {
                    if (i > 0) row += '|';
                    row += values[i] != nullptr ? values[i] : "NULL";
                }
                static_cast<std::vector<std::string>*>(to)->push_back(row);
                return 0;
            },
            &rows, &message);
        EXPECT_EQ(message, nullptr) << message;
        sqlite3_free(message);
        return rows;
    }

    [[nodiscard]] sqlite3* handle() const noexcept { return file_; }

  private:
    sqlite3* file_ = nullptr;
};

}  // namespace syncguard::test
