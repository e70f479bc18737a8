/// The commands that a Redis server executes, read from its MONITOR.
#pragma once

#include "support/redis_server.hpp"

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::test {

struct monitored_command {
    /// Whether a script executed it: the script of the last command before it with `by_script`
    /// false.
    bool by_script = false;
    /// The command's name and arguments, as they were sent.
    std::vector<std::string> words;
};

class monitor {
  public:
    explicit monitor(const redis_server& server) : server_(server), watching_(server.port()) {
        if (watching_.command({"MONITOR"}).text != "OK") throw std::runtime_error("no MONITOR");
    }

    /// The commands executed since the last call.
    [[nodiscard]] std::vector<monitored_command> executed() {
        const std::string mark = "mark " + std::to_string(++marks_);
        server_.command({"ECHO", mark});
        std::vector<monitored_command> all;
        while (true) {
            auto next = parse(watching_.receive().text);
            if (next.words.size() == 2 && next.words[1] == mark) return all;
            all.push_back(std::move(next));
        }
    }

  private:
    /// 1700000000.123456 [0 lua] "mget" "a\r\n" "\x00"
    static monitored_command parse(std::string_view line) {
        monitored_command command;
        const auto end_of_source = line.find("] ");
        const std::string_view source = line.substr(0, end_of_source);
        command.by_script = source.ends_with(" lua");
        for (std::size_t i = end_of_source + 2; i < line.size(); i += 2) {
            std::string word;
            for (++i; line.at(i) != '"'; ++i)
                word += line[i] == '\\' ? unescaped(line, ++i) : line[i];
            command.words.push_back(std::move(word));
        }
        return command;
    }
    static char unescaped(std::string_view line, std::size_t& at) {
        switch (line.at(at)) {
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'a':
                return '\a';
            case 'b':
                return '\b';
            case 'x': {
                unsigned byte = 0;
                std::from_chars(line.data() + at + 1, line.data() + at + 3, byte, 16);
                at += 2;
                return static_cast<char>(byte);
            }
            default:
                return line[at];
        }
    }

    const redis_server& server_;
    redis_connection watching_;
    int marks_ = 0;
};

}  // namespace syncguard::test
