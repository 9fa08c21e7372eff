#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "console.hpp"

namespace megamoe::cli {
namespace {

constexpr uint32_t kBarWidth = 32;
constexpr std::chrono::milliseconds kDrawInterval{100};

}  // namespace

Progress::Progress(std::string label, ProgressBar bar)
    : label_(std::move(label)),
      is_shown_(bar == ProgressBar::if_terminal && isatty(STDERR_FILENO) == 1),
      next_draw_(std::chrono::steady_clock::now() + kDrawInterval) {}

Progress::~Progress() { wipe(); }

void Progress::wipe() {
  if (!is_drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  is_drawn_ = false;
}

void Progress::update(uint64_t done, uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_shown_ || total == 0 || now < next_draw_) return;
  next_draw_ = now + kDrawInterval;
  is_drawn_ = true;
  const std::string bar = format_bar(static_cast<double>(done), static_cast<double>(total), kBarWidth);
  fmt::print(stderr, "\r{} [{:<{}}] {}/{}\x1b[K", label_, bar, kBarWidth, done, total);
  std::fflush(stderr);
}

std::function<void(uint64_t, uint64_t)> Progress::callback() {
  return [this](uint64_t done, uint64_t total) { update(done, total); };
}

}  // namespace megamoe::cli
