#include "check/stages/stage_bench.hpp"
#include "host/errors.hpp"

namespace megamoe::stages {

std::string_view to_string(TimedStage stage) { return stage == TimedStage::dispatch ? "dispatch" : "combine"; }

Result<TimedStage> parse_timed_stage(std::string_view text) {
  for (const TimedStage stage : {TimedStage::dispatch, TimedStage::combine}) {
    if (text == to_string(stage)) return stage;
  }
  return invalid_argument("--stage must be dispatch or combine", fmt::format("'{}'", text),
                          "leave it out to time the whole layer");
}

std::string_view to_string(sm90::Part part) {
  switch (part) {
    case sm90::Part::stage_in: return "stage_in";
    case sm90::Part::count: return "count";
    case sm90::Part::prefix: return "prefix";
    case sm90::Part::scatter: return "scatter";
    case sm90::Part::exchange: return "exchange";
    case sm90::Part::pull: return "pull";
    case sm90::Part::push: return "push";
    case sm90::Part::arrive_home: return "arrive_home";
    case sm90::Part::combine: return "combine";
    case sm90::Part::reset: return "reset";
    case sm90::Part::leave: return "leave";
  }
  return "unknown";
}

}  // namespace megamoe::stages
