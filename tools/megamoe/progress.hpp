#pragma once

// A progress bar on standard error while a person watches, and nothing at all in a pipe.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace megamoe::cli {

/// Who may draw: under MPI only one process does.
enum class ProgressBar : uint8_t { if_terminal, never };

/// One bar. It is wiped when the object goes, so that nothing of it remains.
class Progress {
 public:
  explicit Progress(std::string label, ProgressBar bar = ProgressBar::if_terminal);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Redraws, at most ten times a second.
  void update(uint64_t done, uint64_t total);
  /// Clears the bar's line, so that other text can take it; the next update draws it again.
  void wipe();
  /// update() as LayerConfig::progress wants it. REQUIRES this object to outlive the callback.
  std::function<void(uint64_t, uint64_t)> callback();

 private:
  std::string label_;
  bool is_shown_ = false;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_;
};

}  // namespace megamoe::cli
