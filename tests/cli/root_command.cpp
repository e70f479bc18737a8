/// A command for `run` that only root may signal: installed setuid, it becomes root, as `sudo`
/// does. Writes its process id to the first file, and ends when the second file exists.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

int main(int count, char** arguments) {
    if (count != 3 || ::setgid(0) != 0 || ::setuid(0) != 0) return 98;
    std::ofstream(arguments[1]) << ::getpid() << std::endl;
    while (!std::filesystem::exists(arguments[2]))
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
}
