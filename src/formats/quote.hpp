#pragma once

// Text from files that nobody vouches for, as a message may show it.

#include <string>
#include <string_view>

namespace megamoe {

/// Control bytes and non-ASCII escaped, long text shortened.
std::string printable(std::string_view text);

/// printable() in single quotes.
std::string quote_name(std::string_view name);

}  // namespace megamoe
