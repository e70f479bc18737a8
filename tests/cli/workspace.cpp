#include "cli/workspace.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace syncguard::cli::test {

std::unique_ptr<process> command_test::start(const std::vector<std::string>& arguments,
                                             start_options options) const {
    std::vector<std::string> command{SYNCGUARD_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    options.environment.insert(options.environment.begin(),
                               {"SYNCGUARD_BACKEND", "sqlite:" + database().string()});
    return std::make_unique<process>(folder_.path(), command, options);
}

finished command_test::syncguard(const std::vector<std::string>& arguments,
                                 start_options options) const {
    return start(arguments, std::move(options))->wait();
}

std::string command_test::hold(const std::string& key, const std::string& ttl) const {
    const auto result = syncguard({"acquire", key, "--ttl", ttl});
    EXPECT_EQ(0, result.exit_code) << result.err;
    return labelled(result.out, "lock-id");
}

std::unique_ptr<process> command_test::start_script(std::vector<std::string> run_options,
                                                    const std::string& script,
                                                    start_options options) const {
    run_options.insert(run_options.begin(), "run");
    for (const auto& each : {"--", "sh", "-c"})
        run_options.emplace_back(each);
    run_options.push_back("cd " + folder_.path().string() + "\n" + script);
    return start(run_options, std::move(options));
}

std::string command_test::await_file(const std::string& name) const {
    std::string text;
    EXPECT_TRUE(eventually([&] {
        text = contents(file(name));
        return text.ends_with('\n');
    })) << "no script wrote the file "
        << name;
    return text.substr(0, text.find('\n'));
}

void command_test::touch(const std::string& name) const {
    std::ofstream(file(name)) << "\n";
}

boost::json::object json_of(const std::string& text) {
    if (!text.ends_with('\n') || text.find('\n') != text.size() - 1) {
        ADD_FAILURE() << "not one line: " << text;
        return {};
    }
    return boost::json::parse(text).as_object();
}

std::string labelled(const std::string& text, const std::string& label) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(label + ": ")) return line.substr(label.size() + 2);
    }
    ADD_FAILURE() << "no line '" << label << ": ' in: " << text;
    return {};
}

}  // namespace syncguard::cli::test
