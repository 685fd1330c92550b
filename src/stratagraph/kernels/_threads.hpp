// Work that several threads share.
#pragma once

#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

// Runs run(0), run(1), ... up to `workers`, each in a thread, and waits for all; with fewer of them if the system has
// no more threads, so what is to be done must be taken from a common store. What fails in one of them is thrown here.
template <typename Run> void share(size_t workers, Run run) {
    std::vector<std::exception_ptr> failures(workers ? workers : 1);
    const auto guarded = [&](size_t worker) {
        try {
            run(worker);
        } catch (...) {
            failures[worker] = std::current_exception();
        }
    };
    std::vector<std::thread> pool;
    pool.reserve(workers);
    try {
        while (pool.size() + 1 < workers)
            pool.emplace_back(guarded, pool.size() + 1);
    } catch (...) {  // no thread, or no memory for one
    }
    guarded(0);
    for (std::thread &thread : pool)
        thread.join();
    for (const std::exception_ptr &failure : failures)
        if (failure)
            std::rethrow_exception(failure);
}
